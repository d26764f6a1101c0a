"""Distillation: a student learns what a teacher thinks of every token, not only which one came next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import gradients_wanted, op
from minigrad.autograd.profile import FLOPS
from minigrad.autograd.tensor import Tensor
from minigrad.constants import IGNORE
from minigrad.errors import InputError, ShapeError
from minigrad.kernels.gemm.backend import product
from minigrad.kernels.rowwise.distillation import Lesson, distillation_in_place
from minigrad.ops.cross_entropy import ChunkedLosses, linear_losses_formula
from minigrad.ops.softmax import log_softmax_formula
from minigrad.options import checked_number
from minigrad.typing import Array


class TeacherOutputs(NamedTuple):
    """The outputs of a teacher for a batch, and their share of the loss of a student: the objective of the batch.

    Its logits are ``rows @ head.T``; they are computed for a few rows at a time, where they are needed.
    """

    rows: Array  # (rows, width): the output of the teacher's last layer
    head: Array  # (V, width): the matrix of its logits
    temperature: float = 1.0  # what the logits are divided by; a higher one shows more of the unlikely tokens
    share: float | Array = 0.5  # of the teacher in the loss, of all rows or of each; the rest is the loss on the text
    is_reverse: bool = False  # KL(student, teacher), which seeks modes; False: KL(teacher, student), which covers them

    def __call__(self, x: Tensor, weight: Tensor, targets: Array, row_weights: Array | None = None) -> Tensor:
        """Return the loss of a student, `linear_distillation`."""
        return linear_distillation(x, weight, targets, row_weights, teaching=self)

    def of(self, rows: slice | Array) -> TeacherOutputs:
        """Return what the teacher says of some of the rows."""
        share = self.share if np.ndim(self.share) == 0 else np.asarray(self.share)[rows]
        return self._replace(rows=self.rows[rows], share=share)

    def joined(self, others: Sequence[TeacherOutputs]) -> TeacherOutputs:
        """Return what the same teacher says of the rows of several batches, with a share for each row."""
        parts = [self, *others]
        shares = [np.full(len(each.rows), each.share, np.float32) for each in parts]
        return self._replace(rows=np.concatenate([each.rows for each in parts]), share=np.concatenate(shares))


def linear_distillation_formula(
    x: Array, weight: Array, targets: Array, row_weights: Array | None = None, *, teaching: TeacherOutputs
) -> Array:
    """Compute `linear_distillation` in plain NumPy."""
    rows, head, temperature, share, is_reverse = teaching
    log_p = log_softmax_formula(x @ weight.T / temperature)
    log_q = log_softmax_formula(rows @ head.T / temperature)
    terms = np.exp(log_p) * (log_p - log_q) if is_reverse else np.exp(log_q) * (log_q - log_p)
    divergences = np.where(targets != IGNORE, temperature**2 * terms.sum(axis=-1), 0)
    share = np.asarray(share, x.dtype)
    losses = (1 - share) * linear_losses_formula(x, weight, targets) + share * divergences
    total = (losses if row_weights is None else row_weights * losses).sum()
    return np.asarray(total / max((targets != IGNORE).sum(), 1))


@op(integers=("targets",))
def linear_distillation(
    x: Array, weight: Array, targets: Array, row_weights: Array | None = None, *, teaching: TeacherOutputs
) -> tuple[Array, Backward]:
    r"""Compute logits $z = x W^T$, and how far they are from a teacher's and from the true tokens.

    With $p = \mathrm{softmax}(z / \tau)$, $q = \mathrm{softmax}(z' / \tau)$ for the logits $z'$ of the teacher, and
    the share $\alpha$, which may differ from row to row, the loss is the mean over the targets that are not -100 of

    $$(1 - \alpha)\,(-\ln \mathrm{softmax}(z)_{target}) + \alpha\,\tau^2\, KL(q \,\|\, p),
    \qquad KL(q \,\|\, p) = \sum_j q_j \ln \frac{q_j}{p_j}.$$

    The gradient of the second term is $\alpha\,\tau\,(p - q)$ for each row: a target with all probabilities in place of
    a one-hot. With `is_reverse` it is $KL(p \,\|\, q)$, which lets a small student leave out what it cannot model,
    where the forward divergence makes it spread over everything; its gradient is
    $\alpha\,\tau\,p_j (\ln \frac{p_j}{q_j} - KL(p \,\|\, q))$. Memory and `row_weights`: as in `linear_cross_entropy`.
    Shapes: x (rows, C), weight (V, C), targets (rows,) integers, row_weights (rows,); `teaching` has rows (rows, C'), a
    head (V, C') of the teacher, and one share or (rows,) of them -> ().  Raises ShapeError if they do not fit,
    InputError for a target, temperature or share out of range.
    Sources: Hinton et al. 2015, arXiv 1503.02531, eq. 1 to 4; the reverse divergence: Gu et al. 2023, "MiniLLM",
    arXiv 2306.08543, there on texts that the student writes, here on given ones.

    >>> import numpy as np
    >>> from minigrad import ops
    >>> from minigrad.ops.distillation import TeacherOutputs
    >>> teaching = TeacherOutputs(np.eye(2), np.eye(2), temperature=1.0, share=1.0)
    >>> ops.linear_distillation(np.eye(2), np.eye(2), [0, 1], teaching=teaching).item()  # they agree
    0.0
    """
    student = _Student("linear_distillation", x, weight, targets, row_weights)
    student.teacher = _checked_teacher(x, weight, teaching)
    *wanted, _, row_weights_wanted = gradients_wanted()
    return student.mean(*student.losses_and_gradients(student.scales(), wanted), row_weights_wanted)


class _Student(ChunkedLosses):
    copies = 2  # the teacher's logits as well
    teacher: TeacherOutputs

    def lose(self, logits: Array, chunk: slice, scales: Array) -> Array:
        rows, head, temperature, share, is_reverse = self.teacher
        shares = np.full(len(self.x), share, self.x.dtype)[chunk]
        lesson = Lesson(self.targets[chunk], IGNORE, temperature, shares, is_reverse)
        return distillation_in_place(logits, product(rows[chunk], head.T), lesson, scales)


def _checked_teacher(x: Array, weight: Array, teaching: TeacherOutputs) -> TeacherOutputs:
    """Return the teacher's outputs in the dtype of the student; raises ShapeError or InputError if they do not fit."""
    rows, head = (np.require(each, x.dtype, ["C"]) for each in (teaching.rows, teaching.head))
    if not rows.ndim == head.ndim == 2 or rows.shape != (len(x), head.shape[1]) or len(head) != len(weight):
        raise ShapeError(
            f"linear_distillation needs rows (rows, C') and a head (V, C') of the teacher; got {rows.shape} and "
            f"{head.shape} for {len(x)} rows and {len(weight)} tokens"
        )
    shares = np.asarray(teaching.share)
    if shares.shape not in ((), x.shape[:1]):
        raise ShapeError(f"a teacher has one share, or one for each row, {x.shape[:1]}, not {shares.shape}")
    checked_number("the temperature of a teacher", teaching.temperature, at_least=0.01, at_most=100)
    if not np.all((shares >= 0) & (shares <= 1)):
        raise InputError(f"the share of a teacher is from 0 to 1, not {teaching.share}")
    return teaching._replace(rows=rows, head=head)


def _flops(x: Array, weight: Array, *_: Array, teaching: TeacherOutputs) -> float:
    """Count the logits of the student and both gradients, even where none is computed; and the teacher's logits."""
    return 6.0 * x.size * weight.shape[0] + 2.0 * teaching.rows.size * len(teaching.head)


FLOPS["linear_distillation"] = (_flops, 1, 0)
