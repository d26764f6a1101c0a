"""What the expressions in claims.toml compute: counts, sizes, FLOPs, leaks, formulas, and figures that were measured.

Everything else is computed from the shapes that the documents give; no weights are allocated but for a few tiny models.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

import models
from docs.claims.growing import deepened, grown
from docs.claims.shapes import both_sides, kron, scores_used, shrunk_elements, stacked_elements, used
from docs.measurements.records import read
from minigrad import Tensor, no_grad, ops
from minigrad.nn.config import residual_std
from minigrad.nn.rotary import RotaryAngles
from minigrad.optim import warmup_cosine
from minigrad.typing import Array
from models.wiola.layers import DualStreamFeedForward, SpiralAngles
from models.wiola.operations.offset_norm import offset_rms_norm

__all__ = [
    "RotaryAngles",
    "Tensor",
    "activation_bytes",
    "both_sides",
    "cache_bytes",
    "context_attention_share",
    "deepened",
    "forward_gflop",
    "fusion_at_zero_error",
    "grown",
    "kron",
    "leak",
    "math",
    "measured",
    "merging_saves",
    "models",
    "norm_gradient_error",
    "np",
    "offset_zero_error",
    "ops",
    "part",
    "radius_products",
    "residual_std",
    "scores_used",
    "shrunk_elements",
    "spiral_against_rotary",
    "stacked_elements",
    "swinging_pairs",
    "used",
    "warmup_cosine",
]

records = functools.cache(read)


def part(family: str, size: str, *words: str, **overrides: Any) -> int:
    """Return the number of parameters whose names contain one of the words."""
    named = models.skeleton(family, size, **overrides).named_parameters()
    return sum(math.prod(each.shape) for name, each in named if any(word in name for word in words))


def forward_gflop(family: str, size: str, causal: bool = True) -> float:
    """Return the FLOPs of a forward pass per token in the published context, in GFLOP; full scores unless causal."""
    model = models.skeleton(family, size)
    context = model.config.context_length
    return 2 * model.macs_per_token(context if causal else 2 * context) / 1e9


def cache_bytes(family: str, size: str, tokens: int = 2048, itemsize: int = 2, grouped: bool = True) -> int:
    """Return the bytes of keys and values; with as many heads for them as for queries unless `grouped`."""
    config: Any = models.configure(family, size)
    heads = getattr(config, "num_kv_heads", config.num_heads) if grouped else config.num_heads
    head_dim = getattr(config, "head_dim", config.width // config.num_heads)
    return int(2 * config.num_layers * heads * head_dim * tokens * itemsize)


def activation_bytes(family: str, size: str, batch: int, context: int, stored_scores: bool = True) -> float:
    """Return the activations of training in 16 bits: s b h (34 + 5 a s / h) a layer (Korthikanti 2022, eq. 2)."""
    config: Any = models.configure(family, size)
    scores = 5 * config.num_heads * context / config.width if stored_scores else 0
    return float(config.num_layers * context * batch * config.width * (34 + scores))


def leak(texts: int = 3, length: int = 12, **overrides: Any) -> float:
    """Return the share of changed tokens that change the logits of an earlier position, in a tiny Wiola model."""
    shape = {"num_layers": 6, "width": 32, "num_heads": 4, "num_kv_heads": 2, "dsff_narrow": 16, "dsff_wide": 32}
    changes: Any = {
        **shape,
        "vocab_size": 20,
        "context_length": 32,
        "init_std": 0.2,
        "gcla_gate_init": 0.0,
        **overrides,
    }
    model = models.build("wiola", "nano", dtype="float64", **changes)
    rng, leaked = np.random.default_rng(0), 0
    for _ in range(texts):
        ids = np.repeat(rng.integers(0, 20, length // 2), 2)[None]  # neighbours are equal, so that some of them merge
        before = _logits(model, ids)
        for place in range(1, length):
            changed = ids.copy()
            changed[0, place] = (changed[0, place] + 1) % 20
            leaked += bool(np.abs(_logits(model, changed) - before)[:place].max() > 1e-9)
    return leaked / (texts * (length - 1))


def _logits(model: Any, ids: Array) -> Array:
    with no_grad():
        return model(ids).data[0]  # in training mode: Wiola merges then


def norm_gradient_error(by_output: bool) -> float:
    """Return the relative error of eq. 10, with the gradient read as that of the output, or of x / r before gamma."""
    rng = np.random.default_rng(0)
    x, gamma, dy = rng.normal(size=(1, 16)), rng.uniform(0.5, 1.5, 16), rng.normal(size=(1, 16))
    delta = Tensor(np.zeros(16), requires_grad=True)
    (offset_rms_norm(Tensor(x), Tensor(gamma), delta) * dy).sum().backward()
    right, z, r = delta.grad, x[0], math.sqrt(np.mean(x**2) + 1e-6)
    g = dy[0] if by_output else dy[0] * gamma
    eq10 = gamma / r * (g - z / (16 * r**2) * np.sum(gamma * g * z))
    return float(np.linalg.norm(eq10 - right) / np.linalg.norm(right))


def spiral(amplitude: float) -> SpiralAngles:
    """Return the spiral positions of wiola 360m with an amplitude."""
    return SpiralAngles(64, 10_000.0, divisor=8.0, amplitude=amplitude, frequency=0.01)


def spiral_against_rotary() -> float:
    """Return how far a spiral without amplitude is from rotary positions that are 1.125 times as large."""
    cosine, sine = spiral(0.0).tables(2048, np.dtype(float))
    phases = 1.125 * np.outer(np.arange(2048), RotaryAngles(64, 10_000.0).frequencies)
    return float(max(np.abs(cosine - np.cos(phases)).max(), np.abs(sine - np.sin(phases)).max()))


def radii() -> Array:
    """Return the radius of each of the 32 pairs of wiola 360m at 2,048 positions."""
    cosine, sine = spiral(0.1).tables(2048, np.dtype(float))
    return np.hypot(cosine, sine)


def swinging_pairs(share: float = 0.01) -> int:
    """Return how many pairs have a radius that leaves 1 by more than a share."""
    return int((np.abs(radii() - 1).max(axis=0) > share).sum())


def radius_products() -> tuple[float, float]:
    """Return the smallest and the largest product of two radii of a pair, which scores are multiplied by."""
    return float(radii().min(axis=0).min() ** 2), float(radii().max(axis=0).max() ** 2)


def fusion_at_zero_error() -> float:
    """Return how far a dual stream, its fusion matrix zero, is from the mean of its two streams."""
    block = DualStreamFeedForward(16, 24, 64, std=0.2)
    block.initialise(seed=0, dtype="float64")
    block.fusion.weight.data = np.zeros(block.fusion.weight.shape)
    x = Tensor(np.random.default_rng(0).normal(size=(5, 16)))
    narrow = block.down_a(ops.swiglu(block.gate_a(x), block.up_a(x)))
    wide = block.down_b(ops.gelu(block.up_b(x)))
    return float(np.abs(block(x).data - (narrow.data + wide.data) / 2).max())


def merging_saves(ratio: float, context: int = 2048) -> float:
    """Return the share of the forward multiply-adds of wiola 360m that merging saves, full scores counted.

    In the merging layers the scores cost (1 - ratio)^2, and the projections of queries, output, gate, keys and values,
    those of the summaries too, (1 - ratio); everything else sees all tokens. Layer 0 reads no summary and layer 1 one.
    """
    config: Any = models.configure("wiola", "360m")
    keys, summaries = config.num_kv_heads * config.head_dim, config.gcla_lookback
    reads = sum(min(layer, summaries) for layer in range(config.num_layers))
    projected = 2 * config.width * keys  # the keys and values of a row, or of a summary; the weights count one of each
    total = part("wiola", "360m", "") + config.num_layers * 2 * context * config.width
    total += (reads - config.num_layers) * projected + reads * 2 * config.width
    layer = ratio * (2 - ratio) * 2 * context * config.width + ratio * (3 * config.width**2 + projected)
    layer += ratio * summaries * (projected + 2 * config.width)
    return float(len(config.merging_layers) * layer / total)


def context_attention_share(context: int = 2048) -> float:
    """Return the cost of cross-layer attention in wiola 360m (eqs. 24 to 27, by token) relative to all scores."""
    config: Any = models.configure("wiola", "360m")
    width, keys = config.width, config.num_kv_heads * config.head_dim
    return float(config.gcla_lookback * (2 * width * keys + 2 * width) / (2 * context * width))


def offset_zero_error() -> float:
    """Return how far Wiola's norm, its offset zero, is from RMSNorm."""
    rng = np.random.default_rng(0)
    x, gamma = Tensor(rng.normal(size=(3, 16))), Tensor(rng.uniform(0.5, 1.5, 16))
    found = offset_rms_norm(x, gamma, Tensor(np.zeros(16)), eps=1e-6).data
    return float(np.abs(found - ops.rms_norm(x, gamma, eps=1e-6).data).max())


def measured(name: str, figure: str, column: str | int = 0, number: int = 0) -> float:
    """Return a number of a measurement in docs/measurements."""
    return records()[name].value(figure, column, number)
