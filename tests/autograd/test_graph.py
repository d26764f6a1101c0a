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
from minigrad.autograd.gradients import Backward
from minigrad.autograd.graph import is_recording, recording
from minigrad.autograd.op import op
from minigrad.typing import Array
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


def _outgrown(value: Value) -> bool:
    """Whether a value was squared so often that the next exponential would overflow: that tests no graph."""
    return bool(np.abs(value.array).max(initial=0) > 100)


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
        if _outgrown(value):
            return
        formula, slope, saved = FUNCTIONS[name]
        with recording(record):
            result = getattr(ops, name)(tensor, **({"exponent": 2} if name == "power" else {}))
        y = np.asarray(formula(value.array))
        factor = np.array(slope(value.array, y))  # a copy: what the real engine saved, the naive one saves too
        # The result of a function of one number is saved as a number, which nobody can change.
        needs_itself = saved == "result" and y.ndim > 0
        needs = [value] if saved == "argument" else []
        parents = [(value, lambda dy: dy * factor)]
        self.pairs.append((result, Value(y, parents, needs, recording=record, needs_itself=needs_itself)))

    @rule(first=picks, second=picks, name=st.sampled_from(["add", "subtract", "multiply"]), record=mostly)
    def function_of_two(self, first: int, second: int, name: str, record: bool) -> None:
        (a, x), (b, y) = self.pick(first), self.pick(second)
        if _outgrown(x) or _outgrown(y):
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
            # Of the arrays themselves: NumPy lays a product out as its factors lie, and that decides what a view is.
            value = Value(np.asarray(x.array * y.array), parents, [x, y], recording=record)
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
        """Return what can, or cannot, be gone back from; nothing while the graph is small."""
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
        with pytest.raises(GraphError, match=r"already used and freed|changed in place"):
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


def test_a_value_used_twice_counts_twice() -> None:
    a = Tensor([3.0], requires_grad=True)
    b = a + a
    c = b + b
    c.backward()
    assert a.grad is not None
    assert a.grad.tolist() == [4.0]


def test_gradients_that_share_an_array_do_not_disturb_each_other() -> None:
    # `left + right` sends one and the same array to both; adding to left's must leave right's alone.
    a = Tensor([1.0], requires_grad=True)
    left, right = a * 2, a * 3
    more = left * 5
    arriving = np.ones(1, np.float32)
    ((left + right) + more).backward(arriving)
    assert a.grad is not None
    assert a.grad.tolist() == [2 + 3 + 10]
    assert arriving.tolist() == [1.0]


def test_a_chain_of_ten_thousand_operations() -> None:
    x = Tensor([1.0], requires_grad=True)
    y = x
    for _ in range(10_000):
        y = y + 1
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0]


def test_a_long_chain_can_be_dropped_without_a_walk() -> None:
    y = Tensor([1.0], requires_grad=True)
    for _ in range(100_000):
        y = y + 1
    root = weakref.ref(y)
    del y
    assert root() is None


def test_gradients_add_up_over_losses_on_leaves_only() -> None:
    x = Tensor([2.0], requires_grad=True)
    inner = x * 3
    inner.backward()
    (x * x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0 + 4.0]
    assert inner.grad is None


def test_the_gradient_of_a_leaf_is_its_own_array() -> None:
    x = Tensor(np.zeros((2, 3)), requires_grad=True)
    arriving = np.ones((2, 3))
    (x + 0.0).backward(arriving)
    assert x.grad is not None
    assert not np.shares_memory(x.grad, arriving)
    kept = x.grad
    (x * 2).sum().backward()
    assert x.grad is kept  # so a view of a flat buffer stays one


@pytest.fixture
def _no_collector() -> Any:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def _network(x: Tensor, w: Tensor) -> Tensor:
    hidden = ops.rms_norm(ops.silu(ops.linear(x, w)), Tensor(np.ones(256, np.float32)))
    return ops.softmax(ops.dropout(hidden, probability=0.1)).log().mean()


@pytest.mark.usefixtures("_no_collector")
def test_memory_returns_after_backward_without_the_cycle_collector() -> None:
    x, w = Tensor(np.ones((256, 256), np.float32)), Tensor(np.eye(256, dtype=np.float32), requires_grad=True)
    _network(x, w).backward()  # the gradient, compiled code and threads are made once
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        _network(x, w).backward()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before > x.data.nbytes  # something was there to be freed
    assert after - before < 10_000


@pytest.mark.usefixtures("_no_collector")
def test_a_graph_without_backward_is_freed_at_once() -> None:
    x, w = Tensor(np.ones((4, 256), np.float32)), Tensor(np.eye(256, dtype=np.float32), requires_grad=True)
    loss = _network(x, w)
    assert loss.node is not None
    references = [weakref.ref(loss), weakref.ref(loss.data)]
    del loss
    assert [reference() for reference in references] == [None, None]


@pytest.mark.usefixtures("_no_collector")
def test_arrays_no_backward_needs_die_during_forward() -> None:
    x = Tensor(np.ones(8), requires_grad=True)
    total = x + 1
    array = weakref.ref(total.data)
    result = -total
    del total
    assert array() is None
    result.backward(np.ones(8))


@pytest.mark.usefixtures("_no_collector")
def test_backward_frees_what_was_saved_even_while_the_loss_lives() -> None:
    x = Tensor(np.ones(8), requires_grad=True)
    e = x.exp()
    saved = weakref.ref(e.data)
    loss = e.sum()
    del e
    assert saved() is not None
    loss.backward()
    assert saved() is None


def test_a_second_backward_says_what_to_do() -> None:
    x = Tensor([1.0], requires_grad=True)
    loss = (x * x).sum()
    loss.backward()
    with pytest.raises(GraphError, match=r"sum.*already used and freed.*Run the forward pass again"):
        loss.backward()


def test_a_loss_over_a_freed_part_names_the_operation() -> None:
    x = Tensor([1.0], requires_grad=True)
    shared = x.exp()
    shared.sum().backward()
    with pytest.raises(GraphError, match="reached exp"):
        shared.sum().backward()


def _assign(x: Tensor) -> None:
    x[...] = 5.0


def _subtract(x: Tensor) -> None:
    x.data -= 1.0


def _replace(x: Tensor) -> None:
    x.data = np.zeros(3, np.float32)


@pytest.mark.parametrize("change", [_assign, _subtract, _replace])
def test_changing_what_was_saved_is_noticed(change: Any) -> None:
    x, factor = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([4.0, 5.0, 6.0])
    y = x * factor
    change(factor)
    with pytest.raises(GraphError, match=r"multiply saved an array .* changed in place since \(1 change"):
        y.sum().backward()


@pytest.mark.parametrize("change", [_assign, _subtract])
def test_changing_a_view_of_what_was_saved_is_noticed(change: Any) -> None:
    x, factor = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([4.0, 5.0, 6.0])
    y = x * factor[:2].reshape(2, 1)
    change(factor)
    with pytest.raises(GraphError, match="changed in place"):
        y.sum().backward()


@pytest.mark.parametrize("change", [_assign, _subtract, _replace])
def test_changing_what_was_not_saved_is_no_fault(change: Any) -> None:
    x, term = Tensor([1.0, 2.0, 3.0], requires_grad=True), Tensor([4.0, 5.0, 6.0])
    y = (x + term) * 2.0
    change(term)
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_a_change_after_backward_is_no_fault() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    for _ in range(3):
        (x * x).sum().backward()
        with no_grad():
            x[...] = x.data - 0.1
        x.zero_grad()


def test_a_tensor_with_a_gradient_is_not_changed_while_recording() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(GraphError, match="no_grad"):
        x[0] = 3.0


def test_no_grad_as_block_and_decorator_and_after_an_error() -> None:
    x = Tensor([1.0], requires_grad=True)

    @no_grad()
    def double() -> Tensor:
        return x * 2

    with no_grad():
        assert not (x * 2).requires_grad
        with pytest.raises(ShapeError), no_grad():
            Tensor(np.zeros(2)) + Tensor(np.zeros(3))
        assert not is_recording()
    assert not double().requires_grad
    assert not double().requires_grad  # a decorator must work more than once
    assert (x * 2).requires_grad


def test_no_grad_holds_for_its_own_thread_only() -> None:
    seen = []
    with no_grad():
        thread = threading.Thread(target=lambda: seen.append(is_recording()))
        thread.start()
        thread.join()
    assert seen == [True]


def test_a_backward_may_run_a_backward() -> None:
    # What recomputing activations does: forward without a record, and again, recorded, when the gradient arrives.
    @op
    def recomputed_cube(x: Array) -> tuple[Array, Backward]:
        def backward(dy: Array) -> Array:
            inner = Tensor(x, requires_grad=True)
            with recording(True):
                (inner * inner * inner).backward(dy)
            assert inner.grad is not None
            return inner.grad

        return x**3, backward

    x = Tensor(np.array([2.0, 3.0]), requires_grad=True)
    y = recomputed_cube(x * 1.0) + x
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [13.0, 28.0]


def test_threads_may_each_walk_a_graph_of_their_own() -> None:
    wrong: list[int] = []

    def work(number: int) -> None:
        for _ in range(50):
            x = Tensor(np.full(3, float(number)), requires_grad=True)
            (x * x).sum().backward()
            if x.grad is None or x.grad.tolist() != [2.0 * number] * 3:
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_shape_mismatches_carry_both_shapes() -> None:
    a, b = Tensor(np.zeros((2, 3))), Tensor(np.zeros((4, 5)))
    calls = [ops.add, ops.subtract, ops.multiply, ops.divide, ops.matmul, ops.linear, ops.swiglu]
    for call in calls:
        with pytest.raises(ShapeError) as caught:
            call(a, b)
        assert "(2, 3)" in str(caught.value)
        assert "(4, 5)" in str(caught.value)
    for first, second in itertools.permutations([(2, 3), (4,), ()], 2):
        with pytest.raises(ShapeError, match="stack"):
            ops.stack(Tensor(np.zeros(first)), Tensor(np.zeros(second)))
