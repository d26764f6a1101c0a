"""Distillation: how far the probabilities of a student are from those of its teacher, and from the true next token."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from minigrad.kernels.jit import kernel
from minigrad.kernels.rows import share_rows
from minigrad.kernels.rowwise.cross_entropy import cost
from minigrad.kernels.rowwise.exponential import exp
from minigrad.kernels.rowwise.softmax import largest_of
from minigrad.typing import Array


class Lesson(NamedTuple):
    """The true class of each row, the class that means "no target", and how the two losses are mixed."""

    classes: Array  # (rows,) int64
    ignored: int
    temperature: float  # of both softmaxes in the divergence
    shares: Array  # (rows,): of the divergence in the loss of a row; the rest is the cross-entropy
    is_reverse: bool


@kernel
def _distillation_rows(
    logits: Array, teacher: Array, lesson: Lesson, losses: Array, scales: Array, start: int, stop: int
) -> None:
    """Replace the logits of each row by the gradient of its loss times its scale; those of the teacher are lost."""
    width, classes, zero = logits.shape[1], lesson.classes, logits.dtype.type(0)
    temperature, one = lesson.temperature, logits.dtype.type(1)
    for i in range(start, stop):
        if classes[i] == lesson.ignored:
            losses[i] = 0
            for j in range(width):
                logits[i, j] = 0
            continue
        share = lesson.shares[i]
        text_share = one - share
        most, most_taught = largest_of(logits[i]), largest_of(teacher[i])
        logit = logits[i, classes[i]]
        total, student_total, taught_total = zero, zero, zero
        for j in range(width):
            x, z = logits[i, j] - most, (teacher[i, j] - most_taught) / temperature
            y = x / temperature
            total += exp(x)
            student_total += exp(y)
            taught_total += exp(z)
            logits[i, j], teacher[i, j] = y, z
        student_log, taught_log, divergence = np.log(student_total), np.log(taught_total), zero
        for j in range(width):
            log_p, log_q = logits[i, j] - student_log, teacher[i, j] - taught_log
            p, q = exp(log_p), exp(log_q)
            if lesson.is_reverse:
                divergence += p * (log_p - log_q)
                teacher[i, j] = log_p - log_q
            else:
                divergence += q * (log_q - log_p)
                teacher[i, j] = p - q
        # Multiplied by the square of the temperature, the gradient keeps its size at any temperature.
        cross_entropy = cost(logit, most, np.log(total))
        losses[i] = text_share * cross_entropy + share * temperature * temperature * divergence
        text_scale, taught_scale = scales[i] * text_share / total, scales[i] * share * temperature
        for j in range(width):
            slope = teacher[i, j]
            if lesson.is_reverse:
                slope = exp(logits[i, j] - student_log) * (slope - divergence)
            logits[i, j] = text_scale * exp(logits[i, j] * temperature) + taught_scale * slope
        logits[i, classes[i]] -= scales[i] * text_share


def distillation_in_place(logits: Array, teacher: Array, lesson: Lesson, scales: Array) -> Array:
    """Return each row's loss, and replace its logits by the gradient of the loss times its scale.

    Both are 0 where the class is `ignored`. The logits of the teacher are overwritten.  Shapes: logits and teacher
    (rows, V), contiguous, scales and the shares of the lesson (rows,), all of one dtype -> (rows,).
    """
    given = lesson._replace(temperature=logits.dtype.type(lesson.temperature))
    losses = np.empty(len(logits), logits.dtype)
    share_rows(_distillation_rows, 16, logits, teacher, given, losses, scales)
    return losses
