r"""The statistics of a study: a paired difference with its error, its interval, and two kinds of tests.

Runs differ by their seeds, and documents by what they hold. Both are samples: other seeds and other documents would
give another difference. The bootstrap draws both anew. With few seeds its percentiles are too narrow, so
only its standard error is used, with the quantiles of Student's t distribution for the smaller of the two samples. A
text of few large documents is a small sample, so documents are counted by their sizes. From n seeds or documents, n - 1
are drawn, which makes the variance of a mean of n values right (Efron 1982, chapter 4). The luck of one seed on
one document is counted with both samples (Owen 2007, "The pigeonhole bootstrap", Annals of Applied Statistics 1), so
with two to four seeds an interval is too wide rather than too narrow, if seeds scatter about normally; if a few are
lucky and the rest are not, it holds the truth less often. All of it needs NumPy alone: for whole degrees of
freedom the distribution is a finite sum. The tests of this file count how often its intervals hold the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minigrad.random import generator
from minigrad.typing import Array

DRAWS = 4_000
CONFIDENCE = 0.95


class Difference(NamedTuple):
    """A mean difference in bits per byte, its standard error, and the degrees of freedom of this error."""

    mean: float
    error: float
    freedom: int

    def interval(self, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return the confidence interval: in this share of all studies, it holds the true difference.

        It is infinite without an error.
        """
        half = quantile((1 + confidence) / 2, self.freedom) * self.error if self.freedom else math.inf
        return self.mean - half, self.mean + half

    def p_differs(self) -> float:
        """Return the two-sided p-value of "there is no difference"."""
        return min(1.0, 2 * self._tail(abs(self.mean)))

    def p_equivalent(self, margin: float) -> float:
        """Return the p-value of "the difference is as large as the margin", from two one-sided tests.

        Schuirmann 1987: the larger one of the p-values of "it is at least the margin" and "at most minus the margin".
        """
        return max(self._tail(margin - self.mean), self._tail(margin + self.mean))

    def _tail(self, distance: float) -> float:
        """Return the probability of a value that far above the middle, or further."""
        if not self.freedom:
            return 1.0
        if not self.error:
            return 0.5 if distance == 0 else float(distance < 0)
        return tail(distance / self.error, self.freedom)


def over_seeds(bits: Array, num_bytes: Array) -> Difference:
    """Return the difference with the error of the seeds alone: on these documents, with other seeds.

    Shapes: bits (S, D), differences of documents in bits, paired by seed; num_bytes (D,).
    """
    scores = bits.sum(1) / num_bytes.sum()
    if len(scores) < 2:
        return Difference(float(scores.mean()), math.inf, 0)
    return Difference(float(scores.mean()), float(scores.std(ddof=1)) / math.sqrt(len(scores)), len(scores) - 1)


def over_seeds_and_documents(bits: Array, num_bytes: Array, draws: int = DRAWS) -> Difference:
    """Return the difference with the error of other seeds and other documents of the same kind; shapes: `over_seeds`.

    The degrees of freedom are those of the seeds or of the documents, whichever are fewer. Documents that are shares s
    of the text count for 1 / sum s^2 equal ones (Kish 1965, "Survey sampling"). A text that is a single document cannot
    be drawn anew, so then the error is that of the seeds.
    """
    seeds, documents = bits.shape
    alone = over_seeds(bits, num_bytes)
    if seeds < 2 or documents < 2:
        return alone
    draw = generator(0, "bootstrap")
    of_seeds = draw.multinomial(seeds - 1, np.full(seeds, 1 / seeds), draws)
    of_documents = draw.multinomial(documents - 1, np.full(documents, 1 / documents), draws)
    drawn = ((of_seeds @ bits) * of_documents).sum(1) / ((seeds - 1) * (of_documents @ num_bytes))
    whole, part = float(drawn.var()), alone.error**2
    shares = num_bytes / num_bytes.sum()
    effective = max(2, int(1 / (shares**2).sum() + 1e-9))
    return Difference(alone.mean, math.sqrt(max(whole, part)), min(seeds, effective) - 1)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p-values corrected for the number of comparisons (Holm 1979), in their order.

    >>> holm([0.01, 0.04, 0.03])
    [0.03, 0.06, 0.06]
    """
    order, largest = np.argsort(p_values, kind="stable"), 0.0
    corrected = [0.0] * len(p_values)
    for rank, index in enumerate(order.tolist()):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected


def tail(t: float, freedom: int) -> float:
    """Return the probability that Student's t exceeds `t`, for whole degrees of freedom.

    A finite sum (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4).

    >>> round(tail(2.776, 4), 4), round(tail(-12.706, 1), 4)
    (0.025, 0.975)
    """
    angle = math.atan2(abs(t), math.sqrt(freedom)) if math.isfinite(t) else math.pi / 2
    sine, cosine, odd = math.sin(angle), math.cos(angle), freedom % 2
    term, total = cosine if odd else 1.0, 0.0
    for k in range(1 + odd, freedom, 2):
        total += term
        term *= cosine**2 * k / (k + 1)
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return (1 - inside) / 2 if t >= 0 else (1 + inside) / 2


def quantile(probability: float, freedom: int) -> float:
    """Return the value that Student's t stays below with a probability of 0.5 or more.

    >>> [round(quantile(0.975, freedom), 3) for freedom in (1, 2, 3, 7, 30)]
    [12.706, 4.303, 3.182, 2.365, 2.042]
    """
    low, high = 0.0, 1.0
    while tail(high, freedom) > 1 - probability:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if tail(middle, freedom) > 1 - probability else (low, middle)
    return high
