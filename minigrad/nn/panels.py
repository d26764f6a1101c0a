"""What a family shows of itself on the page of an explained text (`minigrad.pages.explain`).

`LanguageModel.panels` returns these; how they look is the page's business.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from minigrad.typing import Array


class Shares(NamedTuple):
    """A table of shares from 0 to 1, a row for each layer; None where a layer has no such share."""

    title: str
    words: str  # two or three plain sentences: the figures and their meaning
    columns: Sequence[str]
    rows: Mapping[str, Sequence[float | None]]


class Pairs(NamedTuple):
    """Which tokens were joined with the token before them, in some layers.

    Shapes: joined (rows,), whether each token is the second of a pair; similarity (rows,), its cosine with the token
    before.
    """

    title: str
    words: str
    layers: Mapping[str, tuple[Array, Array]]  # joined and similarity


Panel = Shares | Pairs
