"""A tiny model of every family, with every mechanism active, for the laws that all families must keep.

What excludes a mechanism of a family gets a tiny model of its own, under the name of the family and another word.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import models
from minigrad.nn.language_model import LanguageModel
from minigrad.typing import Array

VOCAB, CONTEXT = 13, 24

TINY: dict[str, dict[str, Any]] = {
    "gpt2": {"num_layers": 2, "width": 12, "num_heads": 3, "feed_forward": 20},
    "gpt2-rotary": {"num_layers": 2, "width": 12, "num_heads": 3, "feed_forward": 20, "rope_theta": 50.0},
    "vidya-v1": {"num_layers": 2, "width": 12, "num_heads": 3, "head_dim": 4, "feed_forward": 20},
    "vidya-v2": {
        "num_layers": 2,
        "width": 12,
        "num_heads": 4,
        "num_kv_heads": 2,
        "head_dim": 4,
        "feed_forward": 16,
        "key_shift": True,
        "value_residual": True,
    },
    "vsla": {
        "num_layers": 5,
        "width": 12,
        "num_heads": 3,
        "feed_forward": 20,
        "window": 4,
        "block": 3,
        "top_k": 5,
        "entropy": 0.6,
    },
    "vsla-learned": {
        "num_layers": 2,
        "width": 12,
        "num_heads": 3,
        "feed_forward": 20,
        "patterns": "learned+local",
        "window": 4,
        "block": 3,
        "top_k": 5,
    },
    "wiola": {
        "num_layers": 6,
        "width": 16,
        "num_heads": 4,
        "num_kv_heads": 2,
        "dsff_narrow": 8,
        "dsff_wide": 12,
        "gcla_gate_init": 0.0,
    },
}

WITH_PROGRAM = [name for name in TINY if name != "vsla-learned"]
"""Models that are written with by a program (`minigrad.programs`), whose sums do not depend on the batch."""

WITHOUT_GRADIENT: dict[str, tuple[str, ...]] = {
    # The first layer has no layers below it; the second has one, whose softmax over a single key has no gradient.
    "wiola": (
        "layers.0.attn.k_ctx_proj.weight",
        "layers.0.attn.v_ctx_proj.weight",
        "layers.0.attn.blend_logit",
        "layers.1.attn.k_ctx_proj.weight",
    ),
}


def family_of(name: str) -> str:
    """Return the family of a tiny model."""
    return next(family for family in models.FAMILIES if name == family or name.startswith(family + "-"))


def build(family: str, dtype: str = "float32", seed: int = 0, **changes: Any) -> LanguageModel:
    """Build a tiny model with large initial weights, so that every non-linear mechanism has an effect."""
    fields = TINY[family] | {"vocab_size": VOCAB, "context_length": CONTEXT, "init_std": 0.4, "end_of_text_id": 0}
    return models.build(family_of(family), seed=seed, dtype=dtype, **(fields | changes))


def tokens(seed: int, batch_size: int, length: int) -> Any:
    """Draw tokens (batch_size, length)."""
    return np.random.default_rng(seed).integers(0, VOCAB, (batch_size, length))


TOLERANCE = {"float32": 1e-5, "float64": 1e-10}
"""How far two ways of computing the same logits may differ, as a share of the largest logit, if that is above 1."""


def assert_same(dtype: str, got: Array, wanted: Array) -> None:
    """Assert that two arrays are the same but for rounding."""
    allowed = TOLERANCE[dtype] * max(1.0, float(np.abs(wanted).max(initial=0)))
    np.testing.assert_allclose(got, wanted, rtol=0, atol=allowed)


def change_config(folder: Path, **values: Any) -> None:
    """Change entries of the config.json in a folder."""
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")
