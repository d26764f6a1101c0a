"""The walk backwards: right on any graph, for any length, freeing as it goes, and never silently wrong."""

from __future__ import annotations

import gc
import itertools
import threading
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minigrad import GraphError, ShapeError, Tensor, no_grad, ops
from minigrad.graph import Array, Backward, is_recording, recording
from minigrad.op import OPS, op
from tests.naive_graph import Value

SHAPES = [(2, 3), (3,), (2, 1), ()]
FUNCTIONS: dict[str, tuple[Any, Any, str]] = {  # formula, slope from argument and result, what the gradient saves
    "negative": (np.negative, lambda x, y: -np.ones_like(x), "nothing"),
    "power": (np.square, lambda x, y: 2 * x, "argument"),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda x, y: y * (1 - y), "result"),
    "tanh": (np.tanh, lambda x, y: 1 - y * y, "result"),
}
picks = st.sampled_from([0, 1, 0, 2, 3, 5, 9, 1])  # counted from the newest, so that graphs grow deep
mostly = st.sampled_from([True, True, True, False])
seeds = st.integers(0, 10**6)


class GraphMachine(RuleBasedStateMachine):
    """Grow a graph of tensors and the same one of naive values, and go back through both."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[Tensor, Value]] = []
        self.walked = 0  # how many pairs there were at the last walk back

    def pick(self, number: int) -> tuple[Tensor, Value]:
        return self.pairs[-1 - number % len(self.pairs)]

    @initialize(shape=st.sampled_from(SHAPES), seed=seeds)
    def start(self, shape: tuple[int, ...], seed: int) -> None:
        self.leaf(shape, seed, learns=True)

    @rule(shape=st.sampled_from(SHAPES), seed=seeds, learns=st.booleans())
    def leaf(self, shape: tuple[int, ...], seed: int, learns: bool) -> None:
        array = np.asarray(np.random.default_rng(seed).uniform(-1, 1, shape))
        self.pairs.append((Tensor(array, requires_grad=learns), Value(array.copy(), learns=learns)))

    @rule(number=picks, name=st.sampled_from(sorted(FUNCTIONS)), record=mostly)
    def function_of_one(self, number: int, name: str, record: bool) -> None:
        tensor, value = self.pick(number)
        formula, slope, saved = FUNCTIONS[name]
        with recording(record):
            result = OPS[name](tensor, **({"exponent": 2} if name == "power" else {}))
        y = np.asarray(formula(value.array))
        factor = np.array(slope(value.array, y))  # a copy: what the real engine saved, the naive one saves too
        # The result of a function of one number is saved as a number, which nobody can change.
        needs_itself = saved == "result" and y.ndim > 0
        needs = [value] if saved == "argument" else []
        parents = [(value, lambda dy: dy * factor)]
        self.pairs.append(
            (result, Value(y, parents, needs, recording=record, needs_itself=needs_itself))
        )

    @rule(first=picks, second=picks, name=st.sampled_from(["add", "subtract", "multiply"]), record=mostly)
    def function_of_two(self, first: int, second: int, name: str, record: bool) -> None:
        (a, x), (b, y) = self.pick(first), self.pick(second)
        try:
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            with pytest.raises(ShapeError) as caught:
                OPS[name](a, b)
            assert str(a.shape) in str(caught.value)
            assert str(b.shape) in str(caught.value)
            return
        with recording(record):
            result = OPS[name](a, b)
        if name == "multiply":
            left, right = x.array.copy(), y.array.copy()
            parents = [(x, lambda dy: dy * right), (y, lambda dy: dy * left)]
            value = Value(np.asarray(left * right), parents, [x, y], recording=record)
        else:
            sign = 1 if name == "add" else -1
            parents = [(x, lambda dy: dy), (y, lambda dy: sign * dy)]
            value = Value(np.asarray(x.array + sign * y.array), parents, recording=record)
        self.pairs.append((result, value))

    @rule(number=picks, name=st.sampled_from(["T", "reshape", "slice", "detach"]), record=mostly)
    def view(self, number: int, name: str, record: bool) -> None:
        tensor, value = self.pick(number)
        array, shape = value.array, value.array.shape
        if name == "slice" and (not shape or not shape[0]):
            return

        def scatter(dy: Array) -> Array:
            dx = np.zeros(shape)
            dx[1:] = dy
            return dx

        with recording(record):
            if name == "T":
                y, moved, back = tensor.T, array.T, lambda dy: dy.T
            elif name == "reshape":
                y, moved, back = tensor.reshape(-1), array.reshape(-1), lambda dy: dy.reshape(shape)
            elif name == "slice":
                y, moved, back = tensor[1:], array[1:], scatter
            else:
                y, moved, back = tensor.detach(), array, None
        memory = value.memory if np.shares_memory(moved, array) else None  # some reshapes must copy
        parents = [(value, back)] if back else []
        self.pairs.append((y, Value(moved, parents, memory=memory, recording=record)))

    @rule(number=picks, new=st.floats(-1, 1), spare=mostly)
    def change_in_place(self, number: int, new: float, spare: bool) -> None:
        tensor, value = self.pick(number)
        if spare and any(value.memory is memory for _, other in self.pairs for memory, _ in other.needs):
            return  # if everything that was saved were changed, no graph would live long
        with no_grad():
            tensor[...] = new
        value.array[...] = new
        value.memory.changes += value.array.size > 0

    def computed(self, intact: bool) -> list[tuple[Tensor, Value]]:
        """Return what was computed from leaves and can, or cannot, be gone back from; nothing while the graph is small."""
        if len(self.pairs) < self.walked + 8:
            return []
        pairs = [pair for pair in self.pairs if pair[1].learns and not pair[1].is_leaf]
        return [pair for pair in pairs if pair[1].can_go_back() == intact]

    @precondition(lambda self: self.computed(intact=True))
    @rule(number=picks, seed=seeds, forget=mostly)
    def go_back(self, number: int, seed: int, forget: bool) -> None:
        pairs = self.computed(intact=True)
        tensor, value = pairs[-1 - number % len(pairs)]
        gradient = np.random.default_rng(seed).uniform(0.5, 1.5, tensor.shape)
        tensor.backward(gradient)
        value.backward(np.asarray(gradient))
        with pytest.raises(GraphError, match="already used and freed"):
            tensor.backward(gradient)
        if forget:  # else what was computed from used nodes stays, for go_back_in_vain
            self.pairs = [pair for pair in self.pairs if pair[1].is_leaf or pair[1].can_go_back()]
        self.walked = len(self.pairs)

    @precondition(lambda self: self.computed(intact=False))
    @rule(number=picks)
    def go_back_in_vain(self, number: int) -> None:
        pairs = self.computed(intact=False)
        tensor, _ = pairs[-1 - number % len(pairs)]
        with pytest.raises(GraphError, match="already used and freed|changed in place"):
            tensor.backward(np.ones(tensor.shape))
        self.walked = 0
        self.pairs.clear()  # half of the graph was walked: nothing can be said about it any more
        self.start((2, 3), seed=0)

    @invariant()
    def both_agree(self) -> None:
        for tensor, value in self.pairs:
            np.testing.assert_allclose(tensor.data, value.array, rtol=1e-12)
            assert tensor.requires_grad == value.learns
            assert (tensor.grad is None) == (value.gradient is None)
            if tensor.grad is not None and value.gradient is not None:
                scale = np.abs(value.gradient).max(initial=1)
                np.testing.assert_allclose(tensor.grad, value.gradient, rtol=1e-9, atol=1e-11 * scale)


TestGraphMachine = GraphMachine.TestCase
TestGraphMachine.settings = settings(max_examples=250, stateful_step_count=40, deadline=None)
