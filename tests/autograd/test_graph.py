"""The backward pass: correct on reused values and long chains, freeing arrays as it goes, and recorded per thread."""

from __future__ import annotations

import gc
import threading
import tracemalloc
import weakref
from typing import Any

import numpy as np
import pytest

from minigrad import GraphError, ShapeError, Tensor, no_grad, ops
from minigrad.autograd.gradients import Backward, Deferred
from minigrad.autograd.graph import is_recording, recording
from minigrad.autograd.op import op
from minigrad.typing import Array


def test_a_value_used_twice_counts_twice() -> None:
    a = Tensor([3.0], requires_grad=True)
    b = a + a
    c = b + b
    c.backward()
    assert a.grad is not None
    assert a.grad.tolist() == [4.0]


def test_gradients_that_share_an_array_do_not_change_each_other() -> None:
    # `left + right` gives the same array to both; adding to the gradient of `left` must not change that of `right`.
    a = Tensor([1.0], requires_grad=True)
    left, right = a * 2, a * 3
    more = left * 5
    arriving = np.ones(1, np.float32)
    ((left + right) + more).backward(arriving)
    assert a.grad is not None
    assert a.grad.tolist() == [2 + 3 + 10]
    assert arriving.tolist() == [1.0]


def test_gradients_of_a_number_add_up_however_it_is_used() -> None:
    x = Tensor(np.array(2.0), requires_grad=True)
    a = x * 3
    (a[None].sum() + (a[None].sum() + a)).backward()
    assert x.grad is not None
    assert x.grad.tolist() == 9.0


def test_a_chain_of_ten_thousand_operations() -> None:
    x = Tensor([1.0], requires_grad=True)
    y = x
    for _ in range(10_000):
        y = y + 1
    y.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [1.0]


def test_a_long_chain_can_be_freed_without_backward() -> None:
    y = Tensor([1.0], requires_grad=True)
    for _ in range(100_000):
        y = y + 1
    root = weakref.ref(y)
    del y
    assert root() is None


def test_gradients_accumulate_over_losses_and_only_on_leaves() -> None:
    x = Tensor([2.0], requires_grad=True)
    inner = x * 3
    inner.backward()
    (x * x).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [3.0 + 4.0]
    assert inner.grad is None


def test_the_gradient_of_a_leaf_is_an_array_of_its_own() -> None:
    x = Tensor(np.zeros((2, 3)), requires_grad=True)
    arriving = np.ones((2, 3))
    (x + 0.0).backward(arriving)
    assert x.grad is not None
    assert not np.shares_memory(x.grad, arriving)
    before = x.grad
    (x * 2).sum().backward()
    assert x.grad is before  # so a view of a flat buffer stays one


# Memory.


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
def test_a_gradient_that_could_not_be_written_counts_for_nothing() -> None:
    """Its memory exists, with anything in it: Ctrl-C may come between."""

    def fails(out: Array, add: bool) -> None:
        out[...] = np.nan
        raise KeyboardInterrupt

    weight = Tensor(np.ones((2, 2)), requires_grad=True)
    (weight * 2.0).sum()
    node = weight.node
    assert node is not None
    with pytest.raises(KeyboardInterrupt):
        node.accumulate(Deferred((2, 2), np.dtype(np.float64), fails))
    node.accumulate(np.ones((2, 2)))
    assert node.gradient is not None
    assert (node.gradient == 1).all()


def test_memory_returns_after_backward_without_the_cycle_collector() -> None:
    x, w = Tensor(np.ones((256, 256), np.float32)), Tensor(np.eye(256, dtype=np.float32), requires_grad=True)
    _network(x, w).backward()  # makes the gradient, compiled code and threads, which stay
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        _network(x, w).backward()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before > x.data.nbytes  # there was memory to free
    assert after - before < 10_000


@pytest.mark.usefixtures("_no_collector")
def test_a_graph_without_backward_is_freed_with_its_loss() -> None:
    x, w = Tensor(np.ones((4, 256), np.float32)), Tensor(np.eye(256, dtype=np.float32), requires_grad=True)
    loss = _network(x, w)
    assert loss.node is not None
    references = [weakref.ref(loss), weakref.ref(loss.data)]
    del loss
    assert [reference() for reference in references] == [None, None]


@pytest.mark.usefixtures("_no_collector")
def test_arrays_that_no_backward_needs_are_freed_during_forward() -> None:
    x = Tensor(np.ones(8), requires_grad=True)
    total = x + 1
    array = weakref.ref(total.data)
    result = -total
    del total
    assert array() is None
    result.backward(np.ones(8))


@pytest.mark.usefixtures("_no_collector")
def test_backward_frees_saved_arrays_while_the_loss_is_alive() -> None:
    x = Tensor(np.ones(8), requires_grad=True)
    e = x.exp()
    saved = weakref.ref(e.data)
    loss = e.sum()
    del e
    assert saved() is not None
    loss.backward()
    assert saved() is None


def test_a_second_backward_is_refused_with_the_way_out() -> None:
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


# Recording.


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
    # As in activation checkpointing: forward without recording, and again with recording in the backward pass.
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


def test_threads_may_run_backward_at_the_same_time() -> None:
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


def test_no_grad_is_refused_as_the_decorator_of_a_generator() -> None:
    def values() -> Any:
        yield 1

    with pytest.raises(GraphError, match=r"the generator values .* `with no_grad\(\):` inside it"):
        no_grad()(values)
