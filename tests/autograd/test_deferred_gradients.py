"""Deferred and discarded gradients equal those computed as arrays and set to zero: a law of whole programs.

A deferred gradient is written into the array that accumulates it; the zeros of a discarded gradient are never written.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad import Tensor, detect_anomaly, nn, ops
from minigrad.autograd import graph
from minigrad.autograd.gradients import Deferred
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
    for name, index in program:
        x = ops.tanh(STEPS[name](x, weights[index]))
    return x.sum()


def without_deferring(patch: pytest.MonkeyPatch) -> None:
    """Replace every deferred gradient by its array before it is accumulated."""
    call = graph._call_backward

    def call_with_arrays(*given: Any) -> Any:
        return [each.array() if isinstance(each, Deferred) else each for each in call(*given)]

    patch.setattr(graph, "_call_backward", call_with_arrays)


@given(
    passes=st.lists(st.tuples(programs, st.sampled_from(["add", "discard", "discard and read", "zero", "none"]))),
    seed=st.integers(0, 999),
)
def test_deferred_and_discarded_gradients_equal_plain_arrays(passes: Any, seed: int) -> None:
    """Tied, computed and reused arguments; gradients of several passes that add up, or are discarded in between."""

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
                if before == "discard and read" and tensor.grad is not None:
                    assert not tensor.grad.any()
            run(program, x, weights).backward()
            if before != "add":  # reading the gradient would write the zeros
                found += [np.array(t.grad, float) for t in (x, *weights)]  # None becomes NaN
        return [*found, *(np.array(t.grad, float) for t in (x, *weights))]

    deferred = collect(discards=True)
    with pytest.MonkeyPatch.context() as patch:
        without_deferring(patch)
        plain = collect(discards=False)
    for got, wanted in zip(deferred, plain, strict=True):
        # Rows of a table are added one by one where they are accumulated, so sums may differ in rounding.
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("choice", [("blas", "float32"), ("numba", "float32"), ("blas", "bfloat16")], ids="-".join)
@pytest.mark.parametrize("family", TINY)
def test_deferred_gradients_of_whole_models_equal_plain_arrays(family: str, choice: tuple[str, str]) -> None:
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


@pytest.mark.parametrize("family", TINY)
def test_anomaly_detection_changes_no_gradient(family: str) -> None:
    model, ids = build(family, "float64"), tokens(0, 2, 9)
    found = []
    for detecting in (False, True):
        model.zero_grad()
        if detecting:
            with detect_anomaly():
                model.loss(ids, ids).backward()
        else:
            model.loss(ids, ids).backward()
        found.append(np.concatenate([np.ravel(parameter.grad) for parameter in model.parameters()]))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-12)


def test_a_deferred_gradient_that_does_not_add_is_caught(monkeypatch: Any) -> None:
    names = ops.linear.__wrapped__.__globals__
    product_into = names["product_into"]
    monkeypatch.setitem(names, "product_into", lambda a, b, out, add: product_into(a, b, out, False))
    w = leaf(4, 3)
    for _ in range(2):
        ops.linear(Tensor(np.ones((2, 3))), w).sum().backward()
    assert not (w.grad == 4).all()


class Small(nn.Module):
    def __init__(self) -> None:
        self.table, self.inner, self.bias = nn.Embedding(6, 4), nn.Linear(4, 4), nn.LayerNorm(4)
        self.unused = nn.Linear(4, 2)

    def forward(self, ids: Array, norm: bool) -> Tensor:
        h = self.inner(self.table(Tensor(ids)))
        h = self.bias(h) if norm else h
        return ops.linear_cross_entropy(h, self.table.weight, ids)  # tied


@given(st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.booleans()), min_size=1, max_size=6))
def test_training_with_discarded_gradients_equals_training_with_zeros(steps: list[tuple[int, bool, bool]]) -> None:
    """Each step: the number of passes that add up (0: only the moments change), whether the norm is used, and whether
    gradients are read and clipped."""
    found = []
    for writes_zeros in (True, False):
        model = Small()
        model.initialise(3)
        optimizer = AdamW(model.parameters(), lr=0.1)
        norms = []
        for passes, norm, reads in steps:
            for index in range(passes):
                model.forward(np.array([index, 2, 5]), norm).backward()
            if reads:
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


def test_after_zero_grad_every_gradient_reads_as_zero_for_norms_clipping_and_updates() -> None:
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
    assert optimizer.step() == 0  # vectors are not decayed, and no gradient changes them
    after = [parameter.data for parameter in model.parameters() if parameter.ndim < 2]
    for was, now in zip(before, after, strict=True):
        np.testing.assert_array_equal(now, was)
