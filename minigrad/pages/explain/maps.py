"""Attention on the page: a map for each layer and head shows which token reads which.

A map is a PNG, one pixel a weight, in one colour of more or less opacity. It is transparent where a weight is 0, so it
is legible on light and on dark paper alike, and it is written into the page itself, as a data address.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections import Counter
from collections.abc import Sequence

import numpy as np

from minigrad.pages.chart import round_step
from minigrad.pages.explain.attention import ATTENTIONS, attention_weights
from minigrad.pages.explain.panel import DescribesAttention
from minigrad.pages.explain.prediction import percent
from minigrad.pages.explain.trace import Operation
from minigrad.pages.page import escape
from minigrad.pages.svg import line, picture, text
from minigrad.typing import Array

MOST_PIXELS = 3_000_000  # of all maps together: about as many bytes of the page, at most
MOST_SIDE = 256

_LEFT, _TOP, _SIDE = 48, 9, 160  # of a map, in a picture of 212 x 208


def largest_side(num_maps: int) -> int:
    """Return how many of the newest tokens each of `num_maps` maps can show, so that the page stays small.

    >>> largest_side(18), largest_side(300)
    (256, 100)
    """
    return min(MOST_SIDE, math.isqrt(MOST_PIXELS // max(num_maps, 1)))


def attention_maps(operations: Sequence[Operation], length: int) -> tuple[str, int]:
    """Return the maps of all layers of a model that read `length` tokens, and how many of the newest they show."""
    chosen = [operation for operation in operations if operation.name in ATTENTIONS]
    side = largest_side(sum(operation.arrays[0].shape[1] + 1 for operation in chosen))
    in_layer, seen, maps = Counter(operation.layer for operation in chosen), Counter[int](), []
    for operation in chosen:
        seen[operation.layer] += 1
        several = in_layer[operation.layer] > 1
        which = f", attention {seen[operation.layer]} of {in_layer[operation.layer]}" if several else ""
        maps.append(_layer(operation, length, side, which))
    return "".join(maps), min(side, length)


def _layer(operation: Operation, length: int, side: int, which: str) -> str:
    weights = attention_weights(operation)
    rows, heads, keys = weights.shape
    layer = operation.layer + 1
    words = operation.module.describe_attention() if isinstance(operation.module, DescribesAttention) else ""
    notes, figures = [], []
    if words:
        seen = (weights > 0).mean(axis=1)
        mean, possible = float((weights > 0).sum(axis=2).mean()), (len(weights) + 1) / 2
        notes.append(f"{escape(words)} On average a token sees {mean:.1f} of the {possible:.1f} tokens up to itself.")
        caption = "the tokens that are seen, by all heads or by some"
        figures.append(_figure(seen, side, f"layer {layer}, {caption}", caption))
    if (rows, keys) != (length, length):
        notes.append(f"Joined tokens share a row or a column here: {length} tokens are {rows} rows and {keys} columns.")
    for head in range(heads):
        habit = _habit(weights[:, head]) if rows == keys else ""
        spoken = f"layer {layer}, head {head + 1}: {habit}"
        figures.append(_figure(weights[:, head], side, spoken, f"<b>head {head + 1}</b> {habit}"))
    said = f"<p>{' '.join(notes)}</p>" if notes else ""
    return f"<h3>Layer {layer}{which}</h3>{said}<div class=maps>{''.join(figures)}</div>"


def _habit(weights: Array) -> str:
    """Return what a head attends to most, on average over the tokens: itself, the token before, the first token."""
    size = len(weights)
    if size < 2:
        return "itself 100%"
    diagonal, before = np.diagonal(weights)[1:].mean(), np.diagonal(weights, -1).mean()
    habits = {"itself": diagonal, "the one before": before, "the first": weights[1:, 0].mean()}
    if size == 2:
        del habits["the first"]  # it is the one before
    ranked = sorted(habits.items(), key=lambda habit: -habit[1])
    return ", ".join(f"{name} {percent(float(share))}" for name, share in ranked)


def _figure(weights: Array, side: int, spoken: str, caption: str) -> str:
    """Return the map of weights (rows, keys) with its axes: reading tokens downwards, tokens that are read across."""
    (first_row, first_key), (rows, keys) = (max(0, size - side) for size in weights.shape), weights.shape
    pixels = data_address(shares_as_png(weights[first_row:, first_key:]))
    right, bottom = _LEFT + _SIDE, _TOP + _SIDE
    frame = f'x="{_LEFT}" y="{_TOP}" width="{_SIDE}" height="{_SIDE}" preserveAspectRatio="none"'
    parts = [f'<image {frame} href="{pixels}"/>']
    for tick, place in _ticks(first_key, keys):
        parts.append(text(f"{tick}", f"{_LEFT + place:.1f}", bottom + 16, text_anchor="middle"))
    for tick, place in _ticks(first_row, rows):
        parts.append(text(f"{tick}", _LEFT - 5, f"{_TOP + place:.1f}", dy=".35em", text_anchor="end"))
    parts.append(text("is read", (_LEFT + right) / 2, bottom + 34, text_anchor="middle"))
    parts.append(f'<text transform="translate(13 {_TOP + _SIDE / 2}) rotate(-90)" text-anchor="middle">reads</text>')
    parts.append(line(f"M{_LEFT} {_TOP}V{bottom}H{right}", fill="none", stroke_opacity=".6"))
    return f"<figure>{picture(f'Attention, {spoken}', 212, 208, parts)}<figcaption>{caption}</figcaption></figure>"


def _ticks(first: int, stop: int) -> list[tuple[int, float]]:
    """Return round positions from `first` up to `stop`, and their places on the axis."""
    count = stop - first
    step = int(round_step(max(count / 4, 1)))
    return [(tick, (tick - first + 0.5) / count * _SIDE) for tick in range(-(-first // step) * step, stop, step)]


def legend() -> str:
    """Return the scale of the maps: patches with their weights."""
    patches = "".join(f'<span style="--w:{math.sqrt(share):.3f}">{percent(share)}</span>' for share in _SCALE)
    return f"<p class=scale>weight {patches}</p>"


COLOUR = (47, 128, 205)  # a blue that is visible on white and on black paper


def shares_as_png(shares: Array) -> bytes:
    """Return a PNG of numbers from 0 (transparent) to 1 (the full colour), (height, width).

    The opacity is the square root of the share: otherwise a share of a hundredth could not be seen.
    """
    height, width = shares.shape
    levels = np.ceil(255 * np.sqrt(np.clip(shares, 0, 1))).astype(np.uint8)
    rows = np.concatenate([np.zeros((height, 1), np.uint8), levels], axis=1)  # each row begins with its filter: none
    header = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)  # 8 bits a pixel, which number a colour
    chunks = [
        (b"IHDR", header),
        (b"PLTE", bytes(COLOUR) * 256),
        (b"tRNS", bytes(range(256))),  # the opacity of each colour
        (b"IDAT", zlib.compress(rows.tobytes(), 9)),
        (b"IEND", b""),
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(map(_chunk, *zip(*chunks, strict=True)))


def _chunk(kind: bytes, content: bytes) -> bytes:
    """Return a part of a PNG file: its length, kind, content and checksum (ISO 15948, 5.3)."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def data_address(png: bytes) -> str:
    """Return an address that is the picture itself."""
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")


_SCALE = (0.0, 0.01, 0.1, 0.3, 1.0)

STYLE = """
.maps { display: grid; gap: .5rem 1rem; grid-template-columns: repeat(auto-fit, minmax(min(46%, 11rem), 1fr)); }
.maps figure { max-width: 15rem; } .maps image { image-rendering: pixelated; }
.maps figcaption { line-height: 1.25; padding-left: .5rem; }
.scale span { display: inline-block; padding: .1rem .5rem; border: 1px solid var(--line);
  background: rgb(47 128 205 / var(--w)); }
"""
