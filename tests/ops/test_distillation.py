"""Distillation: known answers, chunks, and what does not fit."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

from minigrad import InputError, ShapeError, Tensor, ops
from minigrad.ops.distillation import TeacherOutputs
from minigrad.typing import Array

module: Any = sys.modules["minigrad.ops.cross_entropy"]  # in the package, the function has that name


def arrays(rows: int = 6, seed: int = 0, dtype: Any = np.float64) -> tuple[Array, Array, Array, TeacherOutputs]:
    rng = np.random.default_rng(seed)
    x, weight, taught, head = (rng.normal(size=size).astype(dtype) for size in ((rows, 3), (5, 3), (rows, 4), (5, 4)))
    return x, weight, rng.choice([-100, 0, 1, 2, 3, 4], rows), TeacherOutputs(taught, head, temperature=2.0)


def outcome(x: Array, weight: Array, targets: Array, teaching: TeacherOutputs) -> list[Array]:
    """Return [loss, dx, dw]."""
    rows, matrix = Tensor(x, requires_grad=True), Tensor(weight, requires_grad=True)
    loss = ops.linear_distillation(rows, matrix, targets, teaching=teaching)
    loss.backward()
    return [loss.data, np.asarray(rows.grad), np.asarray(matrix.grad)]


def of_logits(student: list[float], teacher: list[float], **how: Any) -> tuple[float, list[float]]:
    """Return the loss of one row of logits whose true token is the first one, and its gradient."""
    x, one = Tensor([student], requires_grad=True), np.eye(len(student), dtype=np.float32)
    loss = ops.linear_distillation(x, one, [0], teaching=TeacherOutputs(np.array([teacher]), one, **how))
    loss.backward()
    return loss.item(), np.asarray(x.grad)[0].tolist()


def test_known_answers() -> None:
    """A student that thinks 1/2, and a teacher that thinks 1/4."""
    logits: Any = [0.0, 0.0], [0.0, math.log(3)]
    forward = 0.25 * math.log(0.5) + 0.75 * math.log(1.5)
    loss, gradient = of_logits(*logits, share=1.0)
    assert loss == pytest.approx(forward, rel=1e-5)
    assert gradient == pytest.approx([0.25, -0.25], rel=1e-5)  # p - q
    backward, log_ratio = 0.5 * math.log(4 / 3), math.log(2)
    loss, gradient = of_logits(*logits, share=1.0, is_reverse=True)
    assert loss == pytest.approx(backward, rel=1e-5)
    assert gradient[0] == pytest.approx(0.5 * (log_ratio - backward), rel=1e-5)
    loss, gradient = of_logits(*logits, share=0.25)
    assert loss == pytest.approx(0.75 * math.log(2) + 0.25 * forward, rel=1e-5)
    assert gradient[0] == pytest.approx(0.75 * -0.5 + 0.25 * 0.25, rel=1e-5)
    # At temperature 2 the logits are halved, and loss and gradient multiplied by 4 and 2.
    hot, hot_gradient = of_logits(*logits, share=1.0, temperature=2.0)
    same, same_gradient = of_logits(logits[0], [0.0, math.log(3) / 2], share=1.0)
    assert hot == pytest.approx(4 * same, rel=1e-5)
    assert hot_gradient == pytest.approx([2 * each for each in same_gradient], rel=1e-5)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_without_a_share_of_the_teacher_it_is_the_loss_on_the_text(dtype: Any) -> None:
    x, weight, targets, teaching = arrays(dtype=dtype)
    rows, matrix = Tensor(x, requires_grad=True), Tensor(weight, requires_grad=True)
    loss = ops.linear_cross_entropy(rows, matrix, targets)
    loss.backward()
    found = outcome(x, weight, targets, teaching._replace(share=0.0))
    for one, other in zip(found, (loss.data, rows.grad, matrix.grad), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("is_reverse", [False, True])
def test_a_student_that_agrees_learns_nothing(is_reverse: bool) -> None:
    x, weight, targets, _ = arrays()
    agrees = TeacherOutputs(x, weight, temperature=3.0, share=1.0, is_reverse=is_reverse)
    for each in outcome(x, weight, targets, agrees):
        np.testing.assert_allclose(each, 0, atol=1e-12)


@pytest.mark.parametrize("is_reverse", [False, True])
@pytest.mark.parametrize("share", [0.25, np.linspace(0, 1, 9)])
def test_chunks_give_the_same_and_no_more_logits_exist_than_allowed(
    monkeypatch: pytest.MonkeyPatch, is_reverse: bool, share: Any
) -> None:
    x, weight, targets, teaching = arrays(9)
    teaching = teaching._replace(share=share)
    whole = outcome(x, weight, targets, teaching._replace(is_reverse=is_reverse))
    made = []
    distillation: Any = sys.modules["minigrad.ops.distillation"]

    def counted(a: Array, b: Array, product: Any = distillation.product) -> Array:
        made.append(a.shape[0] * b.shape[1])
        return np.asarray(product(a, b))

    for place in (distillation, module):
        monkeypatch.setattr(place, "product", counted)
    monkeypatch.setattr(module, "_LOGITS_AT_ONCE", 20)
    in_chunks = outcome(x, weight, targets, teaching._replace(is_reverse=is_reverse))
    assert len(made) == 2 * 5  # 2 rows at a time, 5 logits each of the student and of the teacher
    assert max(made) <= 10
    for one, other in zip(whole, in_chunks, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-11, atol=1e-13)


def test_rows_without_a_share_are_those_of_the_text_and_weights_multiply() -> None:
    """A batch in which the teacher speaks of half of the rows only is the sum of two, one with and one without it."""
    x, weight, targets, teaching = arrays()
    targets, by_row = abs(targets % 5), np.array([2.0, 0.5, 1.0, 0.0, 3.0, 1.0])
    shares = np.array([1.0, 1, 1, 0, 0, 0])
    mixed = ops.linear_distillation(x, weight, targets, by_row, teaching=teaching._replace(share=shares)).item()
    taught = ops.linear_distillation(x, weight, targets, by_row * shares, teaching=teaching._replace(share=1.0)).item()
    alone = ops.linear_cross_entropy(x, weight, targets, by_row * (1 - shares)).item()
    assert mixed == pytest.approx(taught + alone, rel=1e-12)


def test_only_what_is_trained_gets_a_gradient() -> None:
    x, weight, targets, teaching = arrays()
    _, dx, dw = outcome(x, weight, targets, teaching)
    rows, matrix = Tensor(x, requires_grad=True), Tensor(weight, requires_grad=True)
    ops.linear_distillation(rows, weight, targets, teaching=teaching).backward()
    ops.linear_distillation(x, matrix, targets, teaching=teaching).backward()
    np.testing.assert_allclose(np.asarray(rows.grad), dx, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(matrix.grad), dw, rtol=1e-12)


def test_what_does_not_fit_is_refused() -> None:
    x, weight, targets, teaching = arrays()
    for wrong in (teaching._replace(rows=teaching.rows[1:]), teaching._replace(head=teaching.head[1:])):
        with pytest.raises(ShapeError, match=r"needs rows \(rows, C'\) and a head \(V, C'\) of the teacher; got"):
            ops.linear_distillation(x, weight, targets, teaching=wrong)
    with pytest.raises(ShapeError, match=r"targets \(rows,\)"):
        ops.linear_distillation(x, weight, targets[1:], teaching=teaching)
    with pytest.raises(ShapeError, match=r"one share, or one for each row, \(6,\), not \(5,\)"):
        ops.linear_distillation(x, weight, targets, teaching=teaching._replace(share=np.ones(5)))
    with pytest.raises(ShapeError, match=r"row_weights \(6,\), not \(5,\)"):
        ops.linear_distillation(x, weight, targets, np.ones(5), teaching=teaching)
    for wrong, message in (
        (teaching._replace(temperature=0.0), r"temperature of a teacher .* at least 0\.01 .*, not 0\.0"),
        (teaching._replace(temperature=101.0), "temperature of a teacher .* at most 100, not 101"),
        (teaching._replace(temperature=np.inf), "temperature of a teacher .*, not inf"),
        (teaching._replace(share=1.5), r"share of a teacher is from 0 to 1, not 1\.5"),
    ):
        with pytest.raises(InputError, match=message):
            ops.linear_distillation(x, weight, targets, teaching=wrong)
