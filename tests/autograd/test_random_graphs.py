"""Any graph, grown at random, gives the values, gradients and refusals of the naive graph."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from minigrad import GraphError, ShapeError, Tensor, no_grad, ops
from minigrad.autograd.graph import recording
from minigrad.typing import Array
from tests.naive_graph import Value

SHAPES = [(2, 3), (3,), (2, 1), ()]
FUNCTIONS: dict[str, tuple[Any, Any, str]] = {  # formula, derivative from argument and result, what is saved for it
    "negative": (np.negative, lambda x, y: -np.ones_like(x), "nothing"),
    "power": (np.square, lambda x, y: 2 * x, "argument"),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), lambda x, y: y * (1 - y), "result"),
    "tanh": (np.tanh, lambda x, y: 1 - y * y, "result"),
}
picks = st.sampled_from([0, 1, 0, 2, 3, 5, 9, 1])  # counted from the newest, so that graphs become deep
mostly = st.sampled_from([True, True, True, False])
seeds = st.integers(0, 10**6)


def _too_large(value: Value) -> bool:
    """Whether a value was squared so often that the next exponential could overflow."""
    return bool(np.abs(value.array).max(initial=0) > 100)


class GraphMachine(RuleBasedStateMachine):
    """Grow a graph of tensors and the same graph of naive values, and run backward through both."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: list[tuple[Tensor, Value]] = []
        self.size_at_backward = 0  # how many pairs there were at the last backward
        self.largest = 1.0  # the largest magnitude of any value so far

    def pick(self, index: int) -> tuple[Tensor, Value]:
        return self.pairs[-1 - index % len(self.pairs)]

    @initialize(shape=st.sampled_from(SHAPES), seed=seeds)
    def first_leaf(self, shape: tuple[int, ...], seed: int) -> None:
        self.leaf(shape, seed, requires_grad=True)

    @rule(shape=st.sampled_from(SHAPES), seed=seeds, requires_grad=st.booleans())
    def leaf(self, shape: tuple[int, ...], seed: int, requires_grad: bool) -> None:
        array = np.asarray(np.random.default_rng(seed).uniform(-1, 1, shape))
        self.pairs.append((Tensor(array, requires_grad), Value(array.copy(), requires_grad=requires_grad)))

    @rule(index=picks, name=st.sampled_from(sorted(FUNCTIONS)), record=mostly)
    def function_of_one(self, index: int, name: str, record: bool) -> None:
        tensor, value = self.pick(index)
        if _too_large(value):
            return
        formula, derivative, saved = FUNCTIONS[name]
        with recording(record):
            result = getattr(ops, name)(tensor, **({"exponent": 2} if name == "power" else {}))
        y = np.asarray(formula(value.array))
        factor = np.array(derivative(value.array, y))  # a copy: the naive value saves what the real engine saved
        # A result without axes is saved as a NumPy scalar, which cannot be changed.
        needs_itself = saved == "result" and y.ndim > 0
        needs = [value] if saved == "argument" else []
        parents = [(value, lambda dy: dy * factor)]
        self.pairs.append((result, Value(y, parents, needs, recording=record, needs_itself=needs_itself)))

    @rule(first=picks, second=picks, name=st.sampled_from(["add", "subtract", "multiply"]), record=mostly)
    def function_of_two(self, first: int, second: int, name: str, record: bool) -> None:
        (a, x), (b, y) = self.pick(first), self.pick(second)
        if _too_large(x) or _too_large(y):
            return
        try:
            np.broadcast_shapes(a.shape, b.shape)
        except ValueError:
            with pytest.raises(ShapeError) as caught:
                getattr(ops, name)(a, b)
            assert str(a.shape) in str(caught.value)
            assert str(b.shape) in str(caught.value)
            return
        with recording(record):
            result = getattr(ops, name)(a, b)
        if name == "multiply":
            left, right = x.array.copy(), y.array.copy()
            parents = [(x, lambda dy: dy * right), (y, lambda dy: dy * left)]
            # The product of the arrays themselves: its memory order follows theirs, and decides what is a view.
            value = Value(np.asarray(x.array * y.array), parents, [x, y], recording=record)
        else:
            sign = 1 if name == "add" else -1
            parents = [(x, lambda dy: dy), (y, lambda dy: sign * dy)]
            value = Value(np.asarray(x.array + sign * y.array), parents, recording=record)
        self.pairs.append((result, value))

    @rule(index=picks, name=st.sampled_from(["T", "reshape", "slice", "detach"]), record=mostly)
    def view(self, index: int, name: str, record: bool) -> None:
        tensor, value = self.pick(index)
        array, shape = value.array, value.array.shape
        if name == "slice" and (not shape or not shape[0]):
            return

        def scatter(dy: Array) -> Array:
            dx = np.zeros(shape)
            dx[1:] = dy
            return dx

        with recording(record):
            if name == "T":
                y, viewed, rule_of_view = tensor.T, array.T, lambda dy: dy.T
            elif name == "reshape":
                y, viewed, rule_of_view = tensor.reshape(-1), array.reshape(-1), lambda dy: dy.reshape(shape)
            elif name == "slice":
                y, viewed, rule_of_view = tensor[1:], array[1:], scatter
            else:
                y, viewed, rule_of_view = tensor.detach(), array, None
        memory = value.memory if np.shares_memory(viewed, array) else None  # some reshapes must copy
        parents = [(value, rule_of_view)] if rule_of_view else []
        self.pairs.append((y, Value(viewed, parents, memory=memory, recording=record)))

    @rule(index=picks, new=st.floats(-1, 1), spare=mostly)
    def change_in_place(self, index: int, new: float, spare: bool) -> None:
        tensor, value = self.pick(index)
        if spare and any(value.memory is memory for _, other in self.pairs for memory, _ in other.needs):
            return  # if every saved array were changed, few graphs could run backward
        with no_grad():
            tensor[...] = new
        value.array[...] = new
        value.memory.changes += value.array.size > 0

    def computed(self, intact: bool) -> list[tuple[Tensor, Value]]:
        """Return the pairs that can, or cannot, run backward; none while the graph is small."""
        if len(self.pairs) < self.size_at_backward + 8:
            return []
        pairs = [pair for pair in self.pairs if pair[1].requires_grad and not pair[1].is_leaf]
        return [pair for pair in pairs if pair[1].can_run_backward() == intact]

    @precondition(lambda self: self.computed(intact=True))
    @rule(index=picks, seed=seeds, forget=mostly)
    def run_backward(self, index: int, seed: int, forget: bool) -> None:
        pairs = self.computed(intact=True)
        tensor, value = pairs[-1 - index % len(pairs)]
        gradient = np.random.default_rng(seed).uniform(0.5, 1.5, tensor.shape)
        tensor.backward(gradient)
        value.backward(np.asarray(gradient))
        with pytest.raises(GraphError, match="already used and freed"):
            tensor.backward(gradient)
        if forget:  # otherwise values computed from used nodes stay, for refused_backward
            self.pairs = [pair for pair in self.pairs if pair[1].is_leaf or pair[1].can_run_backward()]
        self.size_at_backward = len(self.pairs)

    @precondition(lambda self: self.computed(intact=False))
    @rule(index=picks)
    def refused_backward(self, index: int) -> None:
        pairs = self.computed(intact=False)
        tensor, _ = pairs[-1 - index % len(pairs)]
        with pytest.raises(GraphError, match=r"already used and freed|changed in place"):
            tensor.backward(np.ones(tensor.shape))
        self.size_at_backward = 0
        self.pairs.clear()  # backward visited a part of the graph, so its gradients are undefined
        self.first_leaf((2, 3), seed=0)

    @invariant()
    def both_agree(self) -> None:
        # A difference of nearly equal values has the rounding errors of both, however small it is itself.
        self.largest = max([self.largest, *(np.abs(value.array).max(initial=0) for _, value in self.pairs)])
        for tensor, value in self.pairs:
            if not np.array_equal(tensor.data, value.array):  # which is faster, and mostly true
                np.testing.assert_allclose(tensor.data, value.array, rtol=1e-12, atol=1e-12 * self.largest)
            assert tensor.requires_grad == value.requires_grad
            assert (tensor.grad is None) == (value.gradient is None)
            if tensor.grad is not None and value.gradient is not None:
                scale = np.abs(value.gradient).max(initial=1)
                np.testing.assert_allclose(tensor.grad, value.gradient, rtol=1e-9, atol=1e-11 * scale)


TestGraphMachine = GraphMachine.TestCase
TestGraphMachine.settings = settings(max_examples=250, stateful_step_count=40, deadline=None)
