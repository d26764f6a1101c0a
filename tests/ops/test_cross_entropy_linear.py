"""Cross-entropy of rows and a matrix: equal to the two operations, in chunks, without storing the logits."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from minigrad import InputError, ShapeError, Tensor, no_grad, ops

Array = NDArray[Any]

module: Any = sys.modules["minigrad.ops.cross_entropy"]  # in the package, the function has that name


def both_ways(x: Array, weight: Array, targets: Any, scale: float = 1.0) -> list[list[Array]]:
    """Return [loss, dx, dw] of linear and cross_entropy, and of linear_cross_entropy."""
    found = []
    for fused in (False, True):
        rows, matrix = Tensor(x, requires_grad=True), Tensor(weight, requires_grad=True)
        if fused:
            loss = ops.linear_cross_entropy(rows, matrix, targets)
        else:
            loss = ops.cross_entropy(ops.linear(rows, matrix), targets)
        loss.backward(np.array(scale))
        assert loss.shape == ()
        assert loss.dtype == x.dtype
        found.append([loss.data, np.asarray(rows.grad), np.asarray(matrix.grad)])
    return found


def assert_equal_both_ways(x: Array, weight: Array, targets: Any, scale: float = 1.0) -> None:
    tolerance = 2e-5 if x.dtype == np.float32 else 1e-12
    # Where a target is nearly certain, 1 - p and the loss cancel: their errors are those of 1 and of the logits.
    largest = max(np.abs(each).max(initial=0) for each in (x, weight, x @ weight.T))
    rounding = 4 * np.finfo(x.dtype).eps * max(1, abs(scale)) * largest
    for wanted, got in zip(*both_ways(x, weight, targets, scale), strict=True):
        size = np.abs(wanted).max(initial=0)
        np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance * size + rounding)


def arrays(rows: int, width: int, classes: int, dtype: Any, seed: int = 0) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    x, weight = rng.normal(size=(rows, width)).astype(dtype), rng.normal(size=(classes, width)).astype(dtype)
    targets = rng.integers(0, classes, rows)
    targets[rng.random(rows) < 0.2] = -100
    return x, weight, targets


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@given(
    rows=st.integers(0, 40),
    width=st.sampled_from([1, 2, 17]),
    classes=st.sampled_from([1, 2, 5, 33, 70]),
    at_once=st.sampled_from([1, 7, 33, 100, 500, 10**6]),
    scale=st.sampled_from([1.0, 0.25, -3.0, 0.0]),
    seed=st.integers(0, 999),
)
def test_the_fused_operation_equals_the_two_for_any_number_of_chunks(
    dtype: Any, rows: int, width: int, classes: int, at_once: int, scale: float, seed: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_LOGITS_AT_ONCE", at_once)
        assert_equal_both_ways(*arrays(rows, width, classes, dtype, seed), scale=scale)


@pytest.mark.parametrize(
    ("rows", "at_once", "chunks"), [(10, 70, 1), (10, 69, 2), (10, 7, 10), (10, 1, 10), (9, 21, 3)]
)
def test_no_more_logits_exist_at_once_than_allowed(
    monkeypatch: pytest.MonkeyPatch, rows: int, at_once: int, chunks: int
) -> None:
    made = []
    product = module.product

    def counted(a: Array, b: Array) -> Array:
        logits = product(a, b)
        made.append(logits.shape)
        return logits

    monkeypatch.setattr(module, "_LOGITS_AT_ONCE", at_once)
    monkeypatch.setattr(module, "product", counted)
    x, weight, targets = arrays(rows, 3, 7, np.float64)
    assert_equal_both_ways(x, weight, targets)
    assert len(made) == chunks
    assert sum(height for height, _ in made) == rows
    assert all(height == 1 or height * width <= at_once for height, width in made)


def test_chunks_at_a_realistic_size(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, targets = arrays(600, 8, 3_000, np.float32)
    whole = both_ways(x, weight, targets)[1]
    monkeypatch.setattr(module, "_LOGITS_AT_ONCE", 1 << 18)
    for got, wanted in zip(both_ways(x, weight, targets)[1], whole, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_with_ignored_targets_change_nothing(dtype: Any) -> None:
    x, weight, targets = arrays(6, 4, 9, dtype)
    targets[:] = [-100, 3, -100, 0, 8, -100]
    (loss, dx, dw), (short_loss, short_dx, short_dw) = (
        both_ways(x[part], weight, targets[part])[1] for part in (slice(None), np.array([1, 3, 4]))
    )
    assert (dx[[0, 2, 5]] == 0).all()
    np.testing.assert_allclose(loss, short_loss, rtol=1e-6)
    np.testing.assert_allclose(dx[[1, 3, 4]], short_dx, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(dw, short_dw, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("rows", [0, 3])
def test_no_real_target_gives_a_loss_and_gradients_of_zero(rows: int) -> None:
    x, weight, _ = arrays(rows, 4, 9, np.float32)
    for loss, dx, dw in both_ways(x, weight, np.full(rows, -100)):
        assert loss == 0
        assert dx.shape == (rows, 4)
        assert not dx.any()
        assert not dw.any()


def test_gradients_accumulate_over_micro_batches() -> None:
    x, weight, targets = arrays(8, 4, 9, np.float64)
    targets = np.abs(targets) % 9
    rows, matrix = Tensor(x, requires_grad=True), Tensor(weight, requires_grad=True)
    for part in (slice(0, 4), slice(4, 8)):
        ops.linear_cross_entropy(rows[part], matrix, targets[part]).backward(np.array(0.5))
    _, dx, dw = both_ways(x, weight, targets)[0]
    np.testing.assert_allclose(np.asarray(rows.grad), dx, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(matrix.grad), dw, rtol=1e-12)


def test_the_matrix_may_be_the_embedding_table() -> None:
    _, table, targets = arrays(7, 4, 9, np.float64)
    ids, gradients = np.array([0, 1, 8, 8, 3, 2, 0]), []
    for fused in (False, True):
        tied = Tensor(table.copy(), requires_grad=True)
        rows = ops.embedding(tied, ids)
        loss = ops.linear_cross_entropy(rows, tied, targets) if fused else ops.cross_entropy(rows @ tied.T, targets)
        loss.backward()
        gradients.append(np.asarray(tied.grad))
    np.testing.assert_allclose(gradients[1], gradients[0], rtol=1e-12)


def test_without_recording_no_gradient_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    x, weight, targets = arrays(6, 4, 9, np.float32)
    wanted = ops.cross_entropy(ops.linear(Tensor(x), Tensor(weight)), targets).item()

    def refuse(*_: object) -> None:
        pytest.fail("a gradient was computed")

    monkeypatch.setattr(module, "product_into", refuse)
    monkeypatch.setattr(module.kernels, "cross_entropy_in_place", refuse)
    with no_grad():
        loss = ops.linear_cross_entropy(Tensor(x, requires_grad=True), Tensor(weight, requires_grad=True), targets)
    assert loss.item() == pytest.approx(wanted, rel=1e-6)
    assert not loss.requires_grad


@pytest.mark.parametrize(
    "layout",
    [np.asfortranarray, lambda x: np.repeat(x, 2, axis=1)[:, ::2], lambda x: np.ascontiguousarray(x[::-1])[::-1]],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_any_memory_layout_of_rows_and_matrix(monkeypatch: pytest.MonkeyPatch, dtype: Any, layout: Any) -> None:
    monkeypatch.setattr(module, "_LOGITS_AT_ONCE", 40)
    x, weight, targets = arrays(11, 5, 9, dtype)
    before = x.tobytes(), weight.tobytes(), targets.tobytes()
    assert_equal_both_ways(layout(x), layout(weight), np.repeat(targets, 2)[::2])
    assert (x.tobytes(), weight.tobytes(), targets.tobytes()) == before


def test_only_one_of_rows_and_matrix_requires_a_gradient() -> None:
    x, weight, targets = arrays(6, 4, 9, np.float64)
    _, dx, dw = both_ways(x, weight, targets)[0]
    rows, matrix = Tensor(x, requires_grad=True), Tensor(weight, requires_grad=True)
    ops.linear_cross_entropy(rows, weight, targets).backward()
    ops.linear_cross_entropy(x, matrix, targets).backward()
    np.testing.assert_allclose(np.asarray(rows.grad), dx, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(matrix.grad), dw, rtol=1e-12)


@pytest.mark.parametrize("frozen", ["rows", "matrix"])
def test_no_gradient_is_computed_for_what_is_frozen(monkeypatch: pytest.MonkeyPatch, frozen: str) -> None:
    x, weight, targets = arrays(6, 4, 9, np.float32)
    made = []
    product_into = module.product_into

    def counted(a: Array, b: Array, out: Array, add: bool) -> None:
        made.append(out.shape)
        product_into(a, b, out, add)

    monkeypatch.setattr(module, "product_into", counted)
    rows, matrix = Tensor(x, requires_grad=frozen != "rows"), Tensor(weight, requires_grad=frozen != "matrix")
    ops.linear_cross_entropy(rows, matrix, targets).backward()
    assert made == [(6, 4) if frozen == "matrix" else (9, 4)]
    made.clear()
    ops.linear_cross_entropy(x, weight, targets)
    assert not made


def test_adding_to_a_gradient_allocates_no_second_one() -> None:
    x, weight, targets = arrays(2, 64, 3000, np.float32)
    matrix = Tensor(weight, requires_grad=True)
    ops.linear_cross_entropy(x, matrix, targets).backward()
    first = np.array(matrix.grad)
    loss = ops.linear_cross_entropy(x, matrix, targets)
    tracemalloc.start()
    try:
        loss.backward(np.array(2.0))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < weight.nbytes / 2
    np.testing.assert_allclose(matrix.grad, 3 * first, rtol=1e-5)


def test_a_change_after_the_forward_pass_does_not_change_the_gradient() -> None:
    """The gradient has been computed in the forward pass."""
    x, weight, targets = arrays(6, 4, 9, np.float64)
    _, dx, _ = both_ways(x, weight, targets)[0]
    rows, matrix = Tensor(x, requires_grad=True), Tensor(weight, requires_grad=True)
    loss = ops.linear_cross_entropy(rows, matrix, targets)
    with no_grad():
        matrix[...] = 0.0
    loss.backward()
    np.testing.assert_allclose(np.asarray(rows.grad), dx, rtol=1e-12)


def test_huge_logits_of_a_matrix_do_not_overflow() -> None:
    x = Tensor(np.array([[1e4], [1e30]], np.float32), requires_grad=True)
    loss = ops.linear_cross_entropy(x, Tensor(np.array([[1], [0], [-1]], np.float32)), [1, 0])
    assert loss.item() == pytest.approx(5e3)
    loss.backward()
    np.testing.assert_allclose(np.asarray(x.grad), [[0.5], [0]])


@pytest.mark.parametrize(
    ("shapes", "targets"),
    [
        (((2, 3), (5, 4)), [0, 1]),
        (((2, 3), (5, 3)), [0, 1, 2]),
        (((2, 3), (5, 3)), [[0, 1]]),
        (((2, 2, 3), (5, 3)), [0, 1]),
        (((3,), (5, 3)), [0]),
        (((2, 3), (3,)), [0, 1]),
    ],
)
def test_shapes_that_do_not_fit_are_named(shapes: Any, targets: Any) -> None:
    x, weight = (Tensor(np.zeros(shape)) for shape in shapes)
    with pytest.raises(ShapeError, match=r"linear_cross_entropy needs x \(rows, C\), weight \(V, C\)") as caught:
        ops.linear_cross_entropy(x, weight, np.array(targets))
    assert all(str(shape) in str(caught.value) for shape in shapes)


def test_targets_out_of_range_are_refused() -> None:
    x, weight = Tensor(np.zeros((2, 3))), Tensor(np.zeros((5, 3)))
    with pytest.raises(InputError, match="integers"):
        ops.linear_cross_entropy(x, weight, Tensor(np.zeros(2)))
    for bad in (5, -1, -99):
        with pytest.raises(InputError, match=f"{bad}.* for 5 classes"):
            ops.linear_cross_entropy(x, weight, np.array([0, bad]))


def test_a_vocabulary_without_tokens_has_no_loss() -> None:
    x, none = np.ones((2, 3), np.float32), [-100, -100]
    assert ops.linear_cross_entropy(x, np.ones((0, 3), np.float32), none).item() == 0
    assert ops.linear_cross_entropy(Tensor(x, requires_grad=True), np.ones((0, 3), np.float32), none).item() == 0
