"""The text on the page: what a model expected at each place, how sure it was, and what could have followed instead."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from minigrad.generation.sampling import log_probabilities, most_likely
from minigrad.pages.explain.tokens import TokenNames
from minigrad.typing import Array


class Prediction(NamedTuple):
    """The distribution of the token at one place, before temperature and limits, and the token that stands there."""

    token: int
    probability: float  # of that token
    rank: int  # 1 if it was the most likely one
    entropy: float  # of the distribution, in bits: 0 if only one token is possible, log2(V) if all are equally likely
    likely: tuple[tuple[int, float], ...]  # the most likely tokens with their probabilities, by rank

    @property
    def surprise(self) -> float:
        """The bits that the token would cost in a perfect compression: -log2 of its probability."""
        return 0.0 - math.log2(self.probability) if self.probability else math.inf


def predictions(logits: Array, tokens: Sequence[int], count: int = 5) -> list[Prediction]:
    """Compare the model's distribution at each place with the token there; name the `count` most likely tokens.

    Shapes: logits (n, V), row i being the model's for the token i; n tokens.

    >>> found, = predictions(np.log([[0.25, 0.5, 0.25]]), [0], count=1)
    >>> found.rank, round(found.probability, 3), round(found.entropy, 3), round(found.surprise, 3)
    (2, 0.25, 1.5, 2.0)
    """
    return [_prediction(log_probabilities(row), int(token), count) for row, token in zip(logits, tokens, strict=True)]


def _prediction(known: Array, token: int, count: int) -> Prediction:
    p = np.exp(known)
    entropy = float(-(p[p > 0] * known[p > 0]).sum() / math.log(2))
    # Of equally likely tokens the first ranks higher, as in `most_likely`.
    rank = 1 + int((known > known[token]).sum() + (known[:token] == known[token]).sum())
    likely = tuple((int(each), float(p[each])) for each in most_likely(known, count))
    return Prediction(token, float(p[token]), rank, max(0.0, entropy), likely)


_MOST_BITS = 12.0  # of surprise that the colour of a token shows: a probability of 1 in 4,096


def ribbon(places: Sequence[tuple[int, Prediction | None]], names: TokenNames, vocab_size: int) -> str:
    """Return tokens as running text, with the probability of each under it, surprise as colour, entropy as a bar."""
    return f"<p class=ribbon>{''.join(_token(token, found, names, vocab_size) for token, found in places)}</p>"


def _token(token: int, found: Prediction | None, names: TokenNames, vocab_size: int) -> str:
    text = names.running(token)
    line = "<br>" if text.endswith("↵") else ""
    if found is None:
        return f"<span>{text}<small>read first</small></span>{line}"
    surprise = min(found.surprise / _MOST_BITS, 1.0)
    openness = found.entropy / math.log2(vocab_size) if vocab_size > 1 else 0.0
    spoken = f"{percent(found.probability)}, rank {found.rank:,}, entropy {found.entropy:.1f} bits"
    style = f"--s:{surprise:.2f};--e:{openness:.2f}"
    return f'<span style="{style}" title="{spoken}">{text}<small>{percent(found.probability)}</small></span>{line}'


def choices(places: Sequence[tuple[int, int, Prediction]], names: TokenNames) -> str:
    """Return a list of (position, token, prediction): each token, and the most likely tokens in its place."""
    items = []
    for position, token, found in places:
        others = "".join(_chance(each, chance, each == token, names) for each, chance in found.likely)
        head = f"<b><bdi>{names.alone(token)}</bdi></b> {percent(found.probability)}, rank {found.rank:,}; "
        head += f"entropy {found.entropy:.1f} bits"
        items.append(f"<li><span class=place>{position}</span><div>{head}<div class=chances>{others}</div></div>")
    return f"<ol class=choices>{''.join(items)}</ol>"


def _chance(token: int, chance: float, is_chosen: bool, names: TokenNames) -> str:
    name = f"<bdi>{names.alone(token)}</bdi>"  # a name from right to left does not turn the numbers after it
    text = f"<b>{name} ✓</b>" if is_chosen else name
    return f'<span style="--p:{chance:.3f}">{text} {percent(chance)}</span>'


def percent(share: float) -> str:
    """Return a share in percent, short: two digits at most where it is small.

    >>> [percent(share) for share in (1.0, 0.996, 0.123, 0.0456, 0.00123, 1e-7, 0.0)]
    ['100%', '99.6%', '12%', '4.6%', '0.12%', '<0.01%', '0%']
    """
    if share == 0:
        return "0%"
    if share < 1e-4:
        return "<0.01%"
    digits = 2 if share < 0.00995 else 1 if share < 0.0995 or 0.99 <= share < 0.9995 else 0
    return f"{100 * share:.{digits}f}%"


STYLE = """
.ribbon { line-height: 1; margin: .5rem 0 1.5rem; }
.ribbon span { display: inline-block; white-space: pre-wrap; overflow-wrap: anywhere;
  padding: .3rem .1rem .35rem; margin-bottom: .35rem;
  min-width: 1ch; vertical-align: top; border-left: 1px solid var(--line); font-size: 1.05rem;
  background: linear-gradient(var(--ink) 0 0) left bottom / calc(100% * var(--e, 0)) 3px no-repeat,
    linear-gradient(var(--line) 0 0) left bottom / 100% 3px no-repeat,
    rgb(224 122 31 / calc(.75 * var(--s, 0))); }
.ribbon small, .lens small, .pairs small { display: block; font-size: .6875rem; color: var(--ink); opacity: .8;
  margin-top: .2rem; letter-spacing: -.02em; }
.choices { list-style: none; padding: 0; margin: 0; }
.choices li { display: flex; gap: .5rem; padding: .3rem 0; border-bottom: 1px solid var(--line); font-size: .875rem; }
.place { flex: 0 0 2.2rem; text-align: right; color: var(--soft); }
.choices li > div { min-width: 0; }
.choices b { white-space: pre-wrap; overflow-wrap: anywhere; }
.chances { display: flex; flex-wrap: wrap; gap: .2rem .3rem; margin-top: .15rem; }
.chances span { padding: 0 .35rem; border: 1px solid var(--line); border-radius: .25rem;
  white-space: pre-wrap; overflow-wrap: anywhere;
  background: linear-gradient(rgb(47 128 205 / .3) 0 0) left / calc(100% * var(--p)) 100% no-repeat; }
"""
