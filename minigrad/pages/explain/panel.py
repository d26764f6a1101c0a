"""What only one family of models can show, on the page: tables of shares, and tokens that were joined."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np

from minigrad.pages.explain.prediction import percent
from minigrad.pages.explain.tokens import TokenNames
from minigrad.pages.explain.trace import Trace
from minigrad.pages.page import escape, scrolling
from minigrad.typing import Array


class Shares(NamedTuple):
    """A table of shares from 0 to 1, a row for each layer; None where a layer has no such share."""

    title: str
    words: str  # two or three plain sentences: the figures and their meaning
    columns: Sequence[str]
    rows: Mapping[str, Sequence[float | None]]


class Pairs(NamedTuple):
    """Which tokens were joined with the token before them, in some layers, and their cosine with it: both (rows,)."""

    title: str
    words: str
    layers: Mapping[str, tuple[Array, Array]]  # joined and similarity


Panel = Shares | Pairs


@runtime_checkable
class ShowsPanels(Protocol):
    """A model with additional panels on the page."""

    panel_operations: Collection[str]
    """The operations that the trace must keep for them, by name."""

    def panels(self, trace: Trace) -> list[Panel]:
        """Return what to show of a text that the model read, given its trace."""


@runtime_checkable
class DescribesAttention(Protocol):
    """A module whose map of attention begins with words."""

    def describe_attention(self) -> str:
        """Say in a sentence which tokens a token attends to; "" for none."""


def show_panel(panel: Panel, name: str, tokens: Sequence[int], first: int, names: TokenNames) -> str:
    """Return the section of a panel, under a name; the page shows the tokens from position `first` on."""
    body = _table(panel) if isinstance(panel, Shares) else _pairs(panel, tokens, first, names)
    return f"<h2 id={name}>{escape(panel.title)}</h2><p>{escape(panel.words)}</p>{body}"


def _table(panel: Shares) -> str:
    heads = "".join(f"<th scope=col>{escape(column)}" for column in panel.columns)
    rows = "".join(
        f"<tr><th scope=row>{escape(name)}{''.join(map(_share, shares))}" for name, shares in panel.rows.items()
    )
    table = f"<table class=shares><thead><tr><th>{heads}</thead><tbody>{rows}</tbody></table>"
    return scrolling(panel.title, table)


def _share(share: float | None) -> str:
    return "<td>–" if share is None else f'<td style="--p:{share:.3f}">{percent(share)}'


def _pairs(panel: Pairs, tokens: Sequence[int], first: int, names: TokenNames) -> str:
    sections = []
    for layer, (joined, similarity) in panel.layers.items():
        parts, place = [], first
        while place < len(tokens):
            text = names.running(tokens[place])
            if place + 1 < len(tokens) and joined[place + 1]:
                text += f"<i>+</i>{names.running(tokens[place + 1])}<small>{similarity[place + 1]:.2f}</small>"
                place += 1
                parts.append(f"<b>{text}</b>")
            else:
                parts.append(f"<span>{text}</span>")
            place += 1
        count = int(np.count_nonzero(joined[first + 1 :]))
        found = f"{count} of {len(tokens) - first} tokens are joined with the one before them."
        sections.append(f"<h3>{escape(layer)}</h3><p>{found}</p><p class=pairs>{''.join(parts)}</p>")
    return "".join(sections)


STYLE = """
.shares th, .shares td { padding: .25rem 1.25rem .25rem .25rem; border-bottom: 1px solid var(--line);
  font-size: .875rem; vertical-align: bottom; }
.shares thead th { white-space: normal; max-width: 9rem; }
.shares td { background: linear-gradient(rgb(47 128 205 / .3) 0 0) left / calc(100% * var(--p, 0)) 100% no-repeat;
  min-width: 4.5rem; }
.pairs { line-height: 1.3; } .pairs > * { display: inline-block; white-space: pre; vertical-align: top;
  margin-bottom: .3rem; }
.pairs b { font-weight: inherit; border: 1.5px solid rgb(47 128 205); border-radius: .3rem; margin: 0 .1rem .3rem;
  padding: 0 .1rem; text-align: center; }
.pairs i { color: var(--link); font-style: normal; margin: 0 .1rem; }
"""
