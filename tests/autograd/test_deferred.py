"""Gradients that are written where they belong, and gradients whose zeros are never written: as if they had been."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad import ShapeError, Tensor, detect_anomaly, nn, ops
from minigrad.autograd import graph
from minigrad.autograd.anomaly import AnomalyError
from minigrad.autograd.gradients import Deferred
from minigrad.autograd.op import op
from minigrad.kernels.gemm import backend as products
from minigrad.optim import AdamW, clip_gradients, global_norm
from tests.models.tiny import TINY, build, tokens

Array = NDArray[Any]

SIDE, ROWS = 4, 5
STEPS = {
    "linear": lambda h, w: ops.linear(h, w),
    "linear by a computed matrix": lambda h, w: ops.linear(h, w * 0.5),
    "linear by a transposed matrix": lambda h, w: ops.linear(h, w.T),
    "matmul": lambda h, w: ops.matmul(h, w),
    "matmul from the left": lambda h, w: ops.matmul(w, h.T).T,
    "swiglu_linear": lambda h, w: ops.swiglu_linear(h, ops.linear(h, w), w),
    "embedding": lambda h, w: h + ops.embedding(w, np.arange(ROWS) % 3),
    "embedding of a computed table": lambda h, w: h * ops.embedding(ops.tanh(w), np.arange(ROWS) // 2),
    "loss": lambda h, w: h * ops.linear_cross_entropy(h, w, np.arange(ROWS) % SIDE),
    "tanh": lambda h, w: ops.tanh(h),
}
programs = st.lists(st.tuples(st.sampled_from(sorted(STEPS)), st.integers(0, 1)), min_size=1, max_size=5)


def leaf(*shape: int, seed: int = 0, dtype: Any = np.float64) -> Tensor:
    return Tensor(np.random.default_rng(seed).normal(size=shape).astype(dtype), requires_grad=True)


def run(program: list[tuple[str, int]], x: Tensor, weights: list[Tensor]) -> Tensor:
    for name, number in program:
        x = ops.tanh(STEPS[name](x, weights[number]))
    return x.sum()


def without_deferring(patch: pytest.MonkeyPatch) -> None:
    """Let every backward function return arrays, as they were before gradients could be deferred."""
    step = graph._call_backward

    def step_with_arrays(*given: Any) -> Any:
        return [each.array() if isinstance(each, Deferred) else each for each in step(*given)]

    patch.setattr(graph, "_call_backward", step_with_arrays)


@given(
    passes=st.lists(st.tuples(programs, st.sampled_from(["add", "discard", "discard and look", "zero", "none"]))),
    seed=st.integers(0, 999),
)
def test_gradients_are_those_of_plain_arrays_however_they_are_collected(passes: Any, seed: int) -> None:
    """Tied, computed and reused arguments; passes that add up; gradients that were discarded in between."""

    def collect(discards: bool) -> list[Array]:
        x, weights = leaf(ROWS, SIDE, seed=seed), [leaf(SIDE, SIDE, seed=seed + 1 + i) for i in range(2)]
        found: list[Array] = []
        for program, before in passes:
            for tensor in (x, *weights):
                if before == "none":
                    tensor.grad = None
                elif before.startswith("discard") and discards:
                    tensor.discard_grad()
                elif before != "add":
                    tensor.zero_grad()
                if before == "discard and look" and tensor.grad is not None:
                    assert not tensor.grad.any()
            run(program, x, weights).backward()
            if before != "add":  # looking would write the zeros
                found += [np.array(t.grad, float) for t in (x, *weights)]  # None becomes NaN
        return [*found, *(np.array(t.grad, float) for t in (x, *weights))]

    deferred = collect(discards=True)
    with pytest.MonkeyPatch.context() as patch:
        without_deferring(patch)
        plain = collect(discards=False)
    for got, wanted in zip(deferred, plain, strict=True):
        # Rows of a table are added one by one where they belong, so that sums may differ in rounding.
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("choice", [("blas", "float32"), ("numba", "float32"), ("blas", "bfloat16")], ids="-".join)
@pytest.mark.parametrize("family", TINY)
def test_the_gradients_of_whole_models_are_those_of_plain_arrays(family: str, choice: tuple[str, str]) -> None:
    if choice[0] == "numba" and products.FLOAT32 is None:
        pytest.skip("our own loops have no registers to work with")
    model, ids = build(family), tokens(0, 3, 9)

    def gradients() -> list[Array]:
        model.zero_grad()
        for _ in range(2):
            model.loss(ids[:, :-1], ids[:, 1:]).backward()
        return [np.array(parameter.grad) for parameter in model.parameters()]

    products.use(*choice)
    try:
        deferred = gradients()
        with pytest.MonkeyPatch.context() as patch:
            without_deferring(patch)
            plain = gradients()
    finally:
        products.use()
    for got, wanted in zip(deferred, plain, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-5 * np.abs(wanted).max(initial=1e-3))


# One operation whose gradient tells when, where and how it is written.


def deferring(shape: tuple[int, ...], value: float = 1.0, dtype: Any = np.float64) -> tuple[Callable[..., Tensor], Any]:
    """Return an operation whose gradient is `value` everywhere, written on demand, and the list of such writings."""
    written: list[tuple[Array, bool]] = []

    @op
    def told(x: Array) -> tuple[Array, Any]:
        def write(out: Array, add: bool) -> None:
            written.append((out, add))
            out[...] = out + value if add else value

        return np.zeros(3), lambda dy: Deferred(shape, np.dtype(dtype), write)

    return told, written


def test_the_first_gradient_is_written_and_the_next_are_added_all_into_one_array() -> None:
    flat = np.full(10, 7.0)
    x = leaf(2, 3)
    x.grad = flat[2:8].reshape(2, 3)
    told, written = deferring((2, 3))
    x.discard_grad()
    (told(x) + told(x)).sum().backward()
    told(x).sum().backward()
    assert [add for _, add in written] == [False, True, True]
    assert all(np.shares_memory(out, flat) for out, _ in written)
    assert flat.tolist() == [7, 7, 3, 3, 3, 3, 3, 3, 7, 7]
    assert x.grad is not None
    assert x.grad.base is flat


def test_nobody_asks_for_the_gradient_of_a_constant() -> None:
    told, written = deferring((2, 3))
    constant, x = Tensor(np.zeros((2, 3))), leaf(3)
    (told(constant) + x).sum().backward()
    assert not told(constant).requires_grad
    w = leaf(4, 3)
    y = ops.linear(Tensor(np.ones((2, 3))), w)
    y.sum().backward()
    assert (w.grad == 2).all()
    assert not written


def test_an_argument_that_was_computed_gets_an_array_once_for_each_use() -> None:
    told, written = deferring((2, 3))
    x = leaf(2, 3)
    inner = x * 2.0
    (told(inner) + told(inner)).sum().backward()
    assert [add for _, add in written] == [False, False]
    assert (x.grad == 4).all()


@pytest.mark.parametrize("shape", [(3,), (1, 3), (2, 1), (1, 1), ()])
@pytest.mark.parametrize("computed", [False, True])
def test_a_broadcast_argument_gets_the_sum(shape: tuple[int, ...], computed: bool) -> None:
    told, written = deferring((2, 3), value=1.5)
    x = leaf(*shape)
    x.grad = np.full(shape, 10.0)
    told(x * 1.0 if computed else x).sum().backward()
    np.testing.assert_array_equal(x.grad, np.full(shape, 10 + 1.5 * 6 / max(x.size, 1)))
    assert len(written) == 1
    assert written[0][0].shape == (2, 3)


@pytest.mark.parametrize(
    ("shape", "dtype", "message"),
    [((3, 2), np.float64, r"shape \(3, 2\) for argument 0"), ((2, 3), np.float32, "dtype float32 for argument 0")],
)
def test_a_wrong_shape_or_type_is_refused_before_anything_is_written(shape: Any, dtype: Any, message: str) -> None:
    told, written = deferring(shape, dtype=dtype)
    with pytest.raises(ShapeError, match=message):
        told(leaf(2, 3)).sum().backward()
    assert not written


def test_anomalies_are_found_in_gradients_that_are_written_on_demand() -> None:
    for value, computed in ((np.nan, False), (np.inf, True)):
        told, _ = deferring((2, 3), value=value)
        x = leaf(2, 3)
        with detect_anomaly():
            y = told(x * 1.0 if computed else x).sum()
            with pytest.raises(AnomalyError, match="the backward of told made"):
                y.backward()


@pytest.mark.parametrize("family", TINY)
def test_watching_for_anomalies_changes_no_gradient(family: str) -> None:
    model, ids = build(family, "float64"), tokens(0, 2, 9)
    found = []
    for watching in (False, True):
        model.zero_grad()
        if watching:
            with detect_anomaly():
                model.loss(ids, ids).backward()
        else:
            model.loss(ids, ids).backward()
        found.append(np.concatenate([np.ravel(parameter.grad) for parameter in model.parameters()]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)


def test_a_deferred_gradient_that_adds_a_little_wrong_is_caught_by_these_tests(monkeypatch: Any) -> None:
    names = ops.linear.__wrapped__.__globals__
    product_into = names["product_into"]
    monkeypatch.setitem(names, "product_into", lambda a, b, out, add: product_into(a, b, out, False))
    w = leaf(4, 3)
    for _ in range(2):
        ops.linear(Tensor(np.ones((2, 3))), w).sum().backward()
    assert not (w.grad == 4).all()


# Discarded gradients.


def test_what_was_discarded_is_overwritten_even_if_it_was_not_finite() -> None:
    w, x = leaf(4, 3), leaf(3)
    for tensor in (w, x):
        tensor.grad = np.full(tensor.shape, np.nan)
        tensor.discard_grad()
    (ops.linear(Tensor(np.ones((2, 3))), w).sum() + (x * 3.0).sum()).backward()
    assert (w.grad == 2).all()
    assert (x.grad == 3).all()


def test_a_discarded_gradient_reads_as_zeros_in_the_same_array() -> None:
    x = leaf(3)
    x.grad = kept = np.full(3, 5.0)
    x.discard_grad()
    assert kept.tolist() == [5, 5, 5]  # nothing is written until somebody looks
    assert x.grad is kept
    assert kept.tolist() == [0, 0, 0]
    (x * 1.0).sum().backward()
    (x * 1.0).sum().backward()
    assert kept.tolist() == [2, 2, 2]


def test_what_can_be_discarded() -> None:
    x = leaf(3)
    x.discard_grad()  # there is none yet
    assert x.grad is None
    (x * 2.0).sum().backward()
    x.discard_grad()
    x.grad = np.ones(3)  # a gradient of one's own counts
    assert x.grad.tolist() == [1, 1, 1]
    (x * 2.0).sum().backward()
    assert x.grad.tolist() == [3, 3, 3]
    x.discard_grad()
    x.zero_grad()
    assert x.grad.tolist() == [0, 0, 0]
    (x * 2.0).discard_grad()  # not a leaf: nothing to discard
    Tensor([1.0]).discard_grad()
    x.discard_grad()
    x.backward(np.full(3, 4.0))  # of itself
    assert x.grad.tolist() == [4, 4, 4]


class Small(nn.Module):
    def __init__(self) -> None:
        self.table, self.inner, self.bias = nn.Embedding(6, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.unused = nn.Linear(4, 2)

    def forward(self, ids: Array, norm: bool) -> Tensor:
        h = self.inner(self.table(Tensor(ids)))
        h = self.bias(h) if norm else h
        return ops.linear_cross_entropy(h, self.table.weight, ids)  # tied


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_training_is_that_of_gradients_set_to_zero(steps: list[tuple[int, bool, bool]]) -> None:
    """Each step: how many passes add up (none: the moments alone move), which parameters take part, who looks."""
    found = []
    for writes_zeros in (True, False):
        model = Small()
        model.initialise(3)
        optimizer = AdamW(model.parameters(), learning_rate=0.1)
        norms = []
        for passes, norm, looks in steps:
            for number in range(passes):
                model.forward(np.array([number, 2, 5]), norm).backward()
            if looks:
                norms.append(global_norm(model.parameters()))
                clip_gradients(model.parameters(), 0.5)
            norms.append(optimizer.step(max_norm=1.0))
            if writes_zeros:
                model.zero_grad()
            else:
                optimizer.zero_grad()
        arrays = [*model.state_dict().values(), *(each for pair in optimizer.moments() for each in pair)]
        found.append(([array.tobytes() for array in arrays], norms))
    assert found[0] == found[1]


def test_after_zero_grad_every_gradient_reads_zero_also_those_that_clipping_and_norms_read() -> None:
    model = Small()
    model.initialise(1)
    optimizer = AdamW(model.parameters())
    model.forward(np.array([1, 2]), True).backward()
    assert global_norm(model.parameters()) > 0
    optimizer.zero_grad()
    assert global_norm(model.parameters()) == 0
    model.forward(np.array([1, 2]), True).backward()
    optimizer.zero_grad()
    assert clip_gradients(model.parameters(), 1.0) == 0
    assert all(not np.asarray(parameter.grad).any() for parameter in model.parameters())
    model.forward(np.array([1, 2]), True).backward()
    optimizer.zero_grad()
    before = [parameter.data.copy() for parameter in model.parameters() if parameter.ndim < 2]
    assert optimizer.step() == 0  # vectors are not decayed, and nothing else moves them
    after = [parameter.data for parameter in model.parameters() if parameter.ndim < 2]
    for was, now in zip(before, after, strict=True):
        np.testing.assert_array_equal(now, was)
