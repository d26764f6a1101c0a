"""How the loss falls with the size of a model and the text it reads: the law by which a size is chosen for a time.

For D tokens of training and N parameters of the matrices within the layers (Hoffmann et al. 2022, arXiv 2203.15556,
eq. 2; without the embedding, as in Kaplan et al. 2020, arXiv 2001.08361, which is half of models as small as these):

    L(N, D) = E + A / N^alpha + B / D'^beta,

where D' is what D tokens are worth if there are only U different ones. Reading a text again teaches less each time,
and D' never exceeds (1 + R) U (Muennighoff et al. 2023, "Scaling data-constrained language models", arXiv 2305.16264,
eq. 5):

    D' = U + U R (1 - e^(-(D / U - 1) / R)) for D > U, and D' = D before.

`CURVES` are the measurements, `LAW` is the fit to them (fitting.py), `WITHOUT` are the fits without one of the curves.
The spread of their predictions shows how uncertain the measured runs leave the law, not how wrong it is elsewhere.
The runs leave E open, so the exponents have lower bounds, and R is not one number for all runs
(docs/results_learning.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple


class Point(NamedTuple):
    """A measured run: its size, its length, and bits per byte of validation text at the end."""

    parameters: int  # of the matrices within the layers
    tokens: int
    unique_tokens: int  # of the text; more tokens are read than these if it is read several times
    bits_per_byte: float


class Law(NamedTuple):
    """The constants of the law; losses are in bits per byte."""

    entropy: float  # E: what no model of any size gets below
    a: float  # A and alpha: how much a model loses because it is finite
    alpha: float
    b: float  # B and beta: how much it loses because it has read a finite text
    beta: float
    repeats: float  # R: reading a text again and again is worth at most this many new texts of its length

    def worth(self, tokens: float, unique_tokens: float = math.inf) -> float:
        """Return D', the number of tokens of new text that teach as much."""
        if tokens <= unique_tokens:
            return tokens
        again = tokens / unique_tokens - 1
        return unique_tokens * (1 - self.repeats * math.expm1(-again / self.repeats))

    def worth_of_pass(self, number: float) -> float:
        """Return how much of a new text of its length the `number`-th reading of a text is worth: dD'/dD."""
        return math.exp(-max(number - 1, 0) / self.repeats)

    def loss(self, parameters: float, tokens: float, unique_tokens: float = math.inf) -> float:
        """Return L(N, D) in bits per byte."""
        text = self.b / self.worth(tokens, unique_tokens) ** self.beta
        return self.entropy + self.a / parameters**self.alpha + text


class ExpectedLoss(NamedTuple):
    """A loss in bits per byte, between which bounds it is expected, and whether runs like this were measured."""

    loss: float
    low: float
    high: float
    is_measured: bool

    def __str__(self) -> str:
        beyond = "" if self.is_measured else ", beyond the measured range"
        return f"{self.loss:.2f} ({self.low:.2f} to {self.high:.2f}{beyond})"


def predict(parameters: int, tokens: float, unique_tokens: float) -> ExpectedLoss:
    """Return the loss that the law expects, with the bounds of all `WITHOUT`, wider by twice `ERROR`."""
    low, high = bounds((LAW, *WITHOUT), ERROR, parameters, tokens, unique_tokens)
    points = [point for curve in CURVES.values() for point in curve]
    sizes, lengths = sorted(point.parameters for point in points), sorted(point.tokens for point in points)
    most_passes = max(point.tokens / point.unique_tokens for point in points)
    is_measured = sizes[0] <= parameters <= NEAR * sizes[-1] and lengths[0] <= tokens <= lengths[-1]
    is_measured = is_measured and tokens / unique_tokens <= most_passes
    return ExpectedLoss(LAW.loss(parameters, tokens, unique_tokens), low, high, is_measured)


def bounds(
    laws: Iterable[Law], error: float, parameters: int, tokens: float, unique_tokens: float
) -> tuple[float, float]:
    """Return the least and the most that the laws expect, widened by twice the `error` on both sides."""
    losses = [law.loss(parameters, tokens, unique_tokens) for law in laws]
    return min(losses) - 2 * error, max(losses) + 2 * error


ALL, QUARTER, EIGHTH = 1_790_930, 444_334, 224_523  # the different tokens of python-docs, and of parts of it
CURVES: dict[str, tuple[Point, ...]] = {
    "width 48": (
        Point(110_592, 2_048_000, ALL, 1.64053),
        Point(110_592, 4_096_000, ALL, 1.55641),
        Point(110_592, 8_192_000, ALL, 1.4961),
        Point(110_592, 16_384_000, ALL, 1.45454),
    ),
    "width 48, text / 8": (
        Point(110_592, 2_048_000, EIGHTH, 1.94212),
        Point(110_592, 4_096_000, EIGHTH, 1.94409),
    ),
    "nano": (
        Point(580_608, 2_048_000, ALL, 1.50156),
        Point(580_608, 4_096_000, ALL, 1.41031),
        Point(580_608, 8_192_000, ALL, 1.33975),
        Point(580_608, 16_384_000, ALL, 1.30211),
    ),
    "nano, text / 4": (
        Point(580_608, 2_048_000, QUARTER, 1.67615),
        Point(580_608, 4_096_000, QUARTER, 1.64041),
        Point(580_608, 8_192_000, QUARTER, 1.6453),
    ),
    "width 144": (
        Point(1_714_176, 2_048_000, ALL, 1.45767),
        Point(1_714_176, 4_096_000, ALL, 1.37396),
        Point(1_714_176, 8_192_000, ALL, 1.29407),
        Point(1_714_176, 16_384_000, ALL, 1.26234),
    ),
    "micro": (
        Point(3_962_880, 2_048_000, ALL, 1.42519),
        Point(3_962_880, 4_096_000, ALL, 1.33374),
        Point(3_962_880, 8_192_000, ALL, 1.26308),
        Point(3_962_880, 16_384_000, ALL, 1.24483),
    ),
}
"""The measured runs of vidya-v2 on python-docs, each curve one model on all or on a part of the text.

`benchmarks/scaling.py`, steps of 2,048 tokens in runs below 4 million and of 4,096 in others, seed 0. All models have
heads of 48, as nano and micro have them: with other heads, a model of as many parameters ends elsewhere.
"""

LAW = Law(0.7212, 16.889, 0.3478, 128.13, 0.3658, 2.065)
"""The law that fits them best."""

WITHOUT = (
    Law(0.71391, 12.867, 0.3478, 135.51, 0.3658, 1.9145),
    Law(0.71511, 50.285, 0.44921, 136.07, 0.3658, 1.875),
    Law(0.73078, 16.913, 0.3478, 126.51, 0.3658, 2.0504),
    Law(0.84496, 78.933, 0.49071, 213.46, 0.41071, 2.3149),
    Law(0.72392, 16.835, 0.3478, 127.4, 0.3658, 2.0287),
    Law(0.72209, 16.695, 0.3478, 128.71, 0.3658, 2.0844),
)
"""The laws that fit best without one of the curves."""

MOST_PARAMETERS = 16
"""The most parameters of a model for each different token of its text.

With more, a model learns the text by heart, which the law does not know. A limit, and not a measurement: `CURVES` go
up to 2.6. Here all parameters count.
"""

ERROR = 0.018
"""The residual standard error of the law at the runs to which it was fitted, in bits per byte; new runs err more."""

NEAR = 1.05
"""A size with at most this many times the parameters of a measured one counts as measured: families differ a little."""

LARGEST = max(point.parameters for points in CURVES.values() for point in points)
"""The largest measured size, in parameters of the matrices within the layers."""
