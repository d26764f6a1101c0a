"""The atlas of heads: where each head of a model looks, measured where there is nothing to know but what was read.

The model reads tokens that were drawn at random, and then the same ones again. Nobody could have expected them, so what
the model knows of its language is of no use. Who looks up what followed the present token the first time knows all that
comes (Olsson et al. 2022, "In-context learning and induction heads", arXiv 2209.11895, who call this prefix matching).
"""

from __future__ import annotations

import html
from collections.abc import Mapping

import numpy as np

from minigrad.nn.language_model import LanguageModel
from minigrad.nn.trace import trace
from minigrad.pages.chart import COLOURS
from minigrad.pages.explain.attention import ATTENTIONS, attention_weights
from minigrad.pages.explain.ribbon import percent
from minigrad.random import generator
from minigrad.typing import Array

PLACES = ("what followed it before", "the token before it", "itself", "the first token")
"""What a token can look at: the place after its first occurrence, its neighbour, itself, and the beginning."""

MOST_TOKENS = 64  # that are read twice

_WIDTH, _LEFT, _TOP, _ROW, _BAR = 460, 58, 42, 24, 16  # as wide as the charts, so as legible on a telephone


def head_atlas(model: LanguageModel, seed: int = 0) -> dict[int, Array]:
    """Return for each layer, by its number from 0, the share of attention that each head gives to each of `PLACES`.

    It is the mean over the tokens that are read for the second time; the rest goes to other places. Layers that join
    tokens are left out, and all layers if the context is too short for three tokens twice.
    Shapes: (H, 4).
    """
    half = min(MOST_TOKENS, model.config.context_length // 2, model.config.vocab_size)
    if half < 3:
        return {}
    once = generator(seed, "atlas").choice(model.config.vocab_size, half, replace=False)
    found, again = {}, np.arange(half, 2 * half)
    for operation in trace(model, np.tile(once, 2).tolist(), ATTENTIONS).operations:
        weights = attention_weights(operation)  # (rows, H, keys)
        if weights.shape[::2] == (2 * half, 2 * half):
            places = (again - half + 1, again - 1, again, np.zeros_like(again))
            found[operation.layer] = np.stack([weights[again, :, each].mean(axis=0) for each in places], axis=1)
    return found


def draw_atlas(atlas: Mapping[int, Array]) -> str:
    """Return an SVG picture of an atlas: a row for each layer, in it a bar for each head, divided by `PLACES`."""
    heads = max(len(shares) for shares in atlas.values())
    across, bottom = (_WIDTH - _LEFT) / heads, _TOP + _ROW * len(atlas)
    parts = [f'<text x="{(_LEFT + _WIDTH) / 2}" y="14" text-anchor="middle">head</text>']
    centres = [_LEFT + (head + 0.5) * across for head in range(heads)]
    parts += [f'<text x="{x:.1f}" y="33" text-anchor="middle">{head + 1}</text>' for head, x in enumerate(centres)]
    for row, (layer, shares) in enumerate(atlas.items()):
        top = _TOP + row * _ROW + (_ROW - _BAR) / 2
        middle = f'y="{top + _BAR / 2}" dy=".35em"'
        parts.append(f'<text x="{_LEFT - 8}" {middle} text-anchor="end">layer {layer + 1}</text>')
        for head, each in enumerate(shares):
            parts += _bar(_LEFT + head * across + 2, top, across - 4, each)
    for number, name in enumerate(PLACES):
        x, y = (number % 2) * _WIDTH / 2 + 8, bottom + 14 + 22 * (number // 2)
        parts.append(f'<rect x="{x}" y="{y}" width="14" height="14" fill="{COLOURS[number]}"/>')
        parts.append(f'<text x="{x + 22}" y="{y + 7}" dy=".35em">{name}</text>')
    box = f'viewBox="0 0 {_WIDTH} {bottom + 56}" font-size="14" fill="currentColor"'
    return f'<svg role="img" aria-label="{html.escape(_described(atlas))}" {box}>{"".join(parts)}</svg>'


def _bar(left: float, top: float, width: float, shares: Array) -> list[str]:
    """Return the parts of a bar, one behind the other, and its outline."""
    parts, frame = [], f'y="{top}" height="{_BAR}"'
    for start, share, colour in zip(np.cumsum(shares) - shares, shares, COLOURS, strict=False):
        parts.append(f'<rect x="{left + start * width:.1f}" {frame} width="{share * width:.1f}" fill="{colour}"/>')
    outline = 'fill="none" stroke="currentColor" stroke-opacity=".45"'
    return [*parts, f'<rect x="{left:.1f}" {frame} width="{width:.1f}" {outline}/>']


def _described(atlas: Mapping[int, Array]) -> str:
    """Say of each place which head looks there most."""
    sentences = []
    for number, place in enumerate(PLACES):
        best = {layer: int(shares[:, number].argmax()) for layer, shares in atlas.items()}
        layer = max(atlas, key=lambda each: float(atlas[each][best[each], number]))
        share = percent(float(atlas[layer][best[layer], number]))
        sentences.append(f"{place}: most in layer {layer + 1}, head {best[layer] + 1}, {share}")
    return f"Where each head looks, on average over tokens that are read a second time. {'; '.join(sentences)}."
