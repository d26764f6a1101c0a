"""The atlas of heads: where each head of a model looks while the model reads random tokens a second time.

The model cannot predict random tokens from its knowledge of a language. At the second reading it can copy: an induction
head attends to the token after the previous occurrence of the present token (Olsson et al. 2022, "In-context learning
and induction heads", arXiv 2209.11895, where the pattern is called prefix matching).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from minigrad.nn.language_model import LanguageModel
from minigrad.pages.chart import COLOURS
from minigrad.pages.explain.attention import ATTENTIONS, attention_weights
from minigrad.pages.explain.prediction import percent
from minigrad.pages.explain.trace import trace
from minigrad.pages.svg import box, picture, text
from minigrad.random import generator
from minigrad.typing import Array

PLACES = ("what followed it before", "the token before it", "itself", "the first token")
"""What a token can look at: the place after its first occurrence, its neighbour, itself, and the beginning."""

MOST_TOKENS = 64  # that are read twice

_WIDTH, _LEFT, _TOP, _ROW, _BAR = 460, 58, 42, 24, 16  # as wide as the charts, so as legible on a telephone


def head_atlas(model: LanguageModel) -> dict[int, Array]:
    """Return for each layer, by its number from 0, the share of attention that each head gives to each of `PLACES`.

    A share is the mean over the tokens of the second reading. Layers that join tokens or mix several kinds of attention
    are left out, and all layers if the context is too short for three tokens twice.
    Shapes: (H, 4).
    """
    half = min(MOST_TOKENS, model.config.context_length // 2, model.config.vocab_size)
    if half < 3:
        return {}
    once = generator(0, "atlas").choice(model.config.vocab_size, half, replace=False)
    tokens = np.tile(once, 2).tolist()
    second = np.arange(half, 2 * half)  # the places of the second reading
    places = (second - half + 1, second - 1, second, np.zeros_like(second))
    atlas, operations = {}, trace(model, tokens, ATTENTIONS).operations
    in_layer = Counter(operation.layer for operation in operations)
    for operation in operations:
        if in_layer[operation.layer] > 1:
            continue
        weights = attention_weights(operation)  # (rows, H, keys)
        rows, _, keys = weights.shape
        joins_tokens = rows < len(tokens) or keys < len(tokens)
        if not joins_tokens:
            atlas[operation.layer] = np.stack([weights[second, :, place].mean(axis=0) for place in places], axis=1)
    return atlas


def draw_atlas(atlas: Mapping[int, Array]) -> str:
    """Return an SVG picture of an atlas: a row for each layer, in it a bar for each head, divided by `PLACES`."""
    heads = max(len(shares) for shares in atlas.values())
    across, bottom = (_WIDTH - _LEFT) / heads, _TOP + _ROW * len(atlas)
    parts = [text("head", (_LEFT + _WIDTH) / 2, 14, text_anchor="middle")]
    centres = [_LEFT + (head + 0.5) * across for head in range(heads)]
    parts += [text(f"{head + 1}", f"{x:.1f}", 33, text_anchor="middle") for head, x in enumerate(centres)]
    for row, (layer, shares) in enumerate(atlas.items()):
        top = _TOP + row * _ROW + (_ROW - _BAR) / 2
        parts.append(text(f"layer {layer + 1}", _LEFT - 8, top + _BAR / 2, dy=".35em", text_anchor="end"))
        for head, each in enumerate(shares):
            parts += _bar(_LEFT + head * across + 2, top, across - 4, each)
    for number, name in enumerate(PLACES):
        x, y = (number % 2) * _WIDTH / 2 + 8, bottom + 14 + 22 * (number // 2)
        parts.append(box(x, y, 14, 14, fill=COLOURS[number]))
        parts.append(text(name, x + 22, y + 7, dy=".35em"))
    return picture(_described(atlas), _WIDTH, bottom + 56, parts)


def _bar(left: float, top: float, width: float, shares: Array) -> list[str]:
    parts = [
        box(f"{left + start * width:.1f}", top, f"{share * width:.1f}", _BAR, fill=colour)
        for start, share, colour in zip(np.cumsum(shares) - shares, shares, COLOURS, strict=False)
    ]
    outline = {"fill": "none", "stroke": "currentColor", "stroke_opacity": ".45"}
    return [*parts, box(f"{left:.1f}", top, f"{width:.1f}", _BAR, **outline)]


def _described(atlas: Mapping[int, Array]) -> str:
    """Say of each place which head looks there most."""
    sentences = []
    for number, place in enumerate(PLACES):
        best = {layer: int(shares[:, number].argmax()) for layer, shares in atlas.items()}
        layer = max(atlas, key=lambda each: float(atlas[each][best[each], number]))
        share = percent(float(atlas[layer][best[layer], number]))
        sentences.append(f"{place}: most in layer {layer + 1}, head {best[layer] + 1}, {share}")
    return f"Where each head looks, on average over tokens that are read a second time. {'; '.join(sentences)}."
