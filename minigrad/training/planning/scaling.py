"""How the loss falls with the size of a model and the text it reads: the law by which a size is chosen for a time.

For D tokens of training and N parameters of the matrices within the layers (Hoffmann et al. 2022, arXiv 2203.15556,
eq. 2; without the embedding, as in Kaplan et al. 2020, arXiv 2001.08361, which is half of models as small as these):

    L(N, D) = E + A / N^alpha + B / D'^beta,

where D' is what D tokens are worth if there are only U different ones. Reading a text again teaches less each time,
and D' never exceeds (1 + R) U (Muennighoff et al. 2023, "Scaling data-constrained language models", arXiv 2305.16264,
eq. 5):

    D' = U + U R (1 - e^(-(D / U - 1) / R)) for D > U, and D' = D before.

`CURVES` are the measurements, `LAW` is the fit to them (by `fit`), `WITHOUT` are the fits without one of the curves.
The spread of their predictions shows how uncertain the measured runs leave the law, not how wrong it is elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from minigrad.typing import Array


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


class Prediction(NamedTuple):
    """A loss in bits per byte, between which bounds it is expected, and whether runs like this were measured."""

    loss: float
    low: float
    high: float
    is_measured: bool

    def __str__(self) -> str:
        beyond = "" if self.is_measured else ", beyond the measured range"
        return f"{self.loss:.2f} ({self.low:.2f} to {self.high:.2f}{beyond})"


def predict(parameters: int, tokens: float, unique_tokens: float) -> Prediction:
    """Return the loss that the law expects, with the bounds of all `WITHOUT`, wider by twice `ERROR`."""
    low, high = bounds((LAW, *WITHOUT), ERROR, parameters, tokens, unique_tokens)
    points = [point for curve in CURVES.values() for point in curve]
    sizes, lengths = sorted(point.parameters for point in points), sorted(point.tokens for point in points)
    most_passes = max(point.tokens / point.unique_tokens for point in points)
    is_measured = sizes[0] <= parameters <= sizes[-1] and lengths[0] <= tokens <= lengths[-1]
    is_measured = is_measured and tokens / unique_tokens <= most_passes
    return Prediction(LAW.loss(parameters, tokens, unique_tokens), low, high, is_measured)


def bounds(
    laws: Iterable[Law], error: float, parameters: int, tokens: float, unique_tokens: float
) -> tuple[float, float]:
    """Return the least and the most that the laws expect, widened by twice the `error` on both sides."""
    losses = [law.loss(parameters, tokens, unique_tokens) for law in laws]
    return min(losses) - 2 * error, max(losses) + 2 * error


ALL, PART = 1_790_986, 224_523  # the different tokens of python-docs, and of an eighth of it
CURVES: dict[str, tuple[Point, ...]] = {
    "width 32": (
        Point(39_936, 2_048_000, ALL, 1.81967),
        Point(39_936, 4_096_000, ALL, 1.75245),
        Point(39_936, 8_192_000, ALL, 1.72353),
    ),
    "width 64": (
        Point(184_320, 2_048_000, ALL, 1.67334),
        Point(184_320, 4_096_000, ALL, 1.57738),
        Point(184_320, 8_192_000, ALL, 1.5131),
    ),
    "width 64, text / 8": (
        Point(184_320, 2_048_000, PART, 1.98782),
        Point(184_320, 4_096_000, PART, 1.96805),
    ),
    "nano": (
        Point(589_824, 2_048_000, ALL, 1.57631),
        Point(589_824, 4_096_000, ALL, 1.45739),
        Point(589_824, 8_192_000, ALL, 1.39338),
    ),
    "nano, ten minutes": (
        Point(589_824, 14_471_168, ALL, 1.354),
        Point(589_824, 13_234_176, ALL, 1.363),
        Point(589_824, 14_092_288, ALL, 1.35),
    ),
    "micro": (
        Point(3_932_160, 2_048_000, ALL, 1.48743),
        Point(3_932_160, 4_096_000, ALL, 1.36137),
    ),
}
"""The measured runs of vidya-v2 on python-docs, each curve one model on all or on a part of the text.

`benchmarks/scaling.py`, steps of 2,048 tokens, seed 0; "nano, ten minutes" are three seeds of `docs/results.md`.
"""

LAW = Law(0.9209, 13.943, 0.31085, 1627.6, 0.56721, 2.5962)
"""The law that fits them best."""

WITHOUT = (
    Law(0.96822, 199.68, 0.55016, 948.38, 0.52369, 2.7555),
    Law(1.0716, 44.158, 0.4353, 9515.9, 0.70264, 2.6035),
    Law(0.94885, 11.743, 0.2936, 140.26, 0.4066, 403.43),
    Law(0.93271, 14.375, 0.31411, 1912, 0.57995, 2.5964),
    Law(1.0693, 12.209, 0.30002, 48593, 0.83173, 2.7145),
    Law(8.2066e-05, 3.6543, 0.085151, 2957.8, 0.61722, 2.6028),
)
"""The laws that fit best without one of the curves."""

MOST_PARAMETERS = 16
"""The most parameters of a model for each different token of its text.

With more, a model learns the text by heart, which the law does not know. A limit, and not a measurement: `CURVES` go
up to 3. Here all parameters count.
"""

ERROR = 0.025
"""The residual standard error of the law at the runs to which it was fitted, in bits per byte; new runs err more."""

LARGEST = max(point.parameters for points in CURVES.values() for point in points)
"""The largest measured size, in parameters of the matrices within the layers."""


_GRID, _ROUNDS, _SHRINK = 9, 14, 0.6  # places on each axis, searches, and the width of each relative to that before
_LOWEST, _HIGHEST = (0.02, 0.02, 0.0), (1.5, 1.5, 6.0)  # alpha, beta and the logarithm of R


def fit(points: Iterable[Point]) -> Law:
    """Return the law with the smallest sum of squared errors, E, A and B at least 0; needs three sizes and lengths.

    With alpha, beta and R given, the law is linear in E, A and B: a least-squares problem. So a grid of (alpha, beta,
    R) is tried, then a finer one around the best of it, and so on.
    """
    found = list(points)
    low, high = np.array(_LOWEST), np.array(_HIGHEST)
    center, width, law = (low + high) / 2, high - low, None
    for _ in range(_ROUNDS):
        axes = [
            np.linspace(max(middle - wide / 2, least), min(middle + wide / 2, most), _GRID)
            for middle, wide, least, most in zip(center, width, low, high, strict=True)
        ]
        tried = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        errors, coefficients = _solve(found, tried)
        best = int(errors.argmin())
        center, width = tried[best], width * _SHRINK
        (alpha, beta, repeats), (entropy, a, b) = tried[best].tolist(), coefficients[best].tolist()
        law = Law(entropy, a, alpha, b, beta, float(np.exp(repeats)))
    assert law is not None
    return law


def _solve(points: list[Point], tried: Array) -> tuple[Array, Array]:
    """Return the sum of squared errors of each (alpha, beta, log R), infinite where E, A or B is below 0, and these."""
    parameters, tokens, unique, losses = np.array(points).T
    alpha, beta, repeats = tried[:, 0, None], tried[:, 1, None], np.exp(tried[:, 2, None])
    again = np.maximum(tokens / unique - 1, 0)
    worth = np.minimum(tokens, unique) - unique * repeats * np.expm1(-again / repeats)  # (tried, points)
    columns = np.stack([np.ones_like(worth), parameters**-alpha, worth**-beta], axis=-1)  # (tried, points, 3)
    scale = columns.mean(axis=1, keepdims=True)
    solution = np.linalg.pinv(columns / scale) @ losses / scale[:, 0]
    errors = ((columns @ solution[..., None] - losses[:, None]) ** 2).sum(axis=(1, 2))
    return np.where((solution >= 0).all(axis=1), errors, np.inf), solution


def residual_error(law: Law, points: Sequence[Point]) -> float:
    """Return the residual standard error of a law at more than six points, to which its six constants were fitted."""
    squares = sum((law.loss(*point[:3]) - point.bits_per_byte) ** 2 for point in points)
    return math.sqrt(squares / (len(points) - len(law)))


def without_each(curves: dict[str, tuple[Point, ...]]) -> list[Law]:
    """Return the laws that are found if one curve, all points of one model on one text, is left out."""
    return [fit(point for name, points in curves.items() if name != left for point in points) for left in curves]
