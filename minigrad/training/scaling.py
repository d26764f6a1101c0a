"""How the loss falls with the size of a model and the text it reads: the law by which a size is chosen for a time.

For N parameters and D tokens of training (Hoffmann et al. 2022, arXiv 2203.15556, eq. 2):

    L(N, D) = E + A / N^alpha + B / D'^beta,

where D' is what D tokens are worth if there are only U different ones. Reading a text again teaches less each time,
and D' never exceeds (1 + R) U (Muennighoff et al. 2023, "Scaling data-constrained language models", arXiv 2305.16264,
eq. 5):

    D' = U + U R (1 - e^(-(D / U - 1) / R)) for D > U, and D' = D before.

`CURVES` is what was measured, `LAW` what was fitted to it (`minigrad.training.scaling_fit`), `WITHOUT` what would have
been fitted without one of the curves; the spread of their predictions is how well the law is known.
"""

from __future__ import annotations

import math
from typing import NamedTuple


class Point(NamedTuple):
    """A measured run: its size, its length, and bits per byte of held-out text in the end."""

    parameters: int
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
    repeats: float  # R: reading a text again and again is worth at most so many new texts of its length

    def worth(self, tokens: float, unique_tokens: float = math.inf) -> float:
        """Return D', the number of tokens of new text that teach as much."""
        if tokens <= unique_tokens:
            return tokens
        again = tokens / unique_tokens - 1
        return unique_tokens * (1 - self.repeats * math.expm1(-again / self.repeats))

    def worth_of_pass(self, number: float) -> float:
        """Return how much of a new text of its length the `number`-th reading of a text is worth: dD'/dD.

        >>> Law(1, 1, 1, 1, 1, repeats=5).worth_of_pass(1)
        1.0
        """
        return math.exp(-max(number - 1, 0) / self.repeats)

    def loss(self, parameters: float, tokens: float, unique_tokens: float = math.inf) -> float:
        """Return L(N, D) in bits per byte."""
        text = self.b / self.worth(tokens, unique_tokens) ** self.beta
        return self.entropy + self.a / parameters**self.alpha + text

    def best_tokens(self, parameters: float) -> float:
        r"""Return for how many tokens of new text a size is the best, if the time goes as N D.

        Along N D = constant, the loss is lowest where $\alpha A / N^\alpha = \beta B / D^\beta$.
        """
        return float((self.beta * self.b * parameters**self.alpha / (self.alpha * self.a)) ** (1 / self.beta))


class Prediction(NamedTuple):
    """A loss in bits per byte, between which bounds it is expected, and whether runs like this were measured."""

    loss: float
    low: float
    high: float
    is_measured: bool

    def __str__(self) -> str:
        """Return the prediction in words."""
        beyond = "" if self.is_measured else ", beyond what was measured"
        return f"{self.loss:.2f} ({self.low:.2f} to {self.high:.2f}{beyond})"


def predict(parameters: int, tokens: float, unique_tokens: float) -> Prediction:
    """Return the loss that the law expects, with the bounds of all `WITHOUT`, wider by twice its usual error."""
    losses = [law.loss(parameters, tokens, unique_tokens) for law in (LAW, *WITHOUT)]
    points = [point for curve in CURVES.values() for point in curve]
    is_measured = (
        min(point.parameters for point in points) <= parameters <= max(point.parameters for point in points)
        and min(point.tokens for point in points) <= tokens <= max(point.tokens for point in points)
        and tokens / unique_tokens <= max(point.tokens / point.unique_tokens for point in points)
    )
    return Prediction(losses[0], min(losses) - 2 * ERROR, max(losses) + 2 * ERROR, is_measured)


CURVES: dict[str, tuple[Point, ...]] = {
    "width 64": (
        Point(447_040, 1_024_000, 1_484_503, 1.93159),
        Point(447_040, 2_048_000, 1_484_503, 1.73238),
        Point(447_040, 4_096_000, 1_484_503, 1.63158),
    ),
    "nano": (
        Point(984_288, 1_024_000, 1_484_503, 1.91167),
        Point(984_288, 2_048_000, 1_484_503, 1.64917),
    ),
    "width 64, text / 8": (
        Point(447_040, 1_024_000, 153_007, 2.24005),
        Point(447_040, 2_048_000, 153_007, 2.17643),
    ),
    "width 32": (Point(171_232, 1_024_000, 1_484_503, 2.04372),),
    "nano, ten minutes": (
        Point(984_288, 7_849_984, 1_484_503, 1.45071),
        Point(984_288, 8_009_728, 1_484_503, 1.44264),
        Point(984_288, 8_261_632, 1_484_503, 1.43657),
        Point(984_288, 7_272_448, 1_484_503, 1.44092),
        Point(984_288, 7_241_728, 1_484_503, 1.44731),
    ),
}
"""The measured runs of vidya-v2 on python-docs, each curve one model on all or on a part of the text.

`benchmarks/scaling.py`, steps of 2,048 tokens, seed 0; "nano, ten minutes" are the five seeds of `docs/results.md`.
"""

LAW = Law(0.00024343, 3.3565, 0.087273, 388.39, 0.44014, 3.0725)
"""The law that fits them best."""

WITHOUT = (
    Law(1.0678, 27500, 0.99594, 1353.2, 0.53652, 3.234),
    Law(1.3094e-05, 4.8305, 0.10415, 1202.9, 0.53977, 2.7932),
    Law(4.9735e-05, 3.3094, 0.06854, 4854.3, 0.65057, 189.45),
    Law(0.49851, 6.0061, 0.17496, 486.96, 0.45908, 3.1561),
    Law(1.2207, 61.442, 0.44457, 18390, 0.75495, 3.2436),
)
"""The laws that fit best without one of the curves."""

MOST_PARAMETERS = 16
"""The most parameters of a model for each different token of its text.

With more, a model learns the text by heart, which the law does not know. A limit, and not a measurement: `CURVES` go
up to 3.
"""

ERROR = 0.016
"""The usual error of the law at the measured runs (the root of the mean square), in bits per byte."""
