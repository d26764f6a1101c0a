"""A tiny Wiola model, sequences in which neighbours merge, and the logits of both."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume
from numpy.typing import NDArray

import models
from minigrad import no_grad
from minigrad.nn.language_model import LanguageModel

Array = NDArray[Any]
VOCAB, CONTEXT = 17, 40
TINY: dict[str, Any] = {
    "vocab_size": VOCAB,
    "num_layers": 6,
    "width": 16,
    "num_heads": 4,
    "num_kv_heads": 2,
    "dsff_narrow": 8,
    "dsff_wide": 12,
    "context_length": CONTEXT,
    "gcla_gate_init": 0.0,  # half of every blend comes from the layers below
    "init_std": 0.3,
}


def draw(*shape: int, seed: int = 0) -> Array:
    """Draw standard normal numbers."""
    return np.random.default_rng(seed).normal(size=shape)


def build(dtype: str = "float64", seed: int = 1, **changes: Any) -> LanguageModel:
    """Build a tiny model whose norms have offsets and weights other than the initial ones."""
    model = models.build("wiola", seed=seed, dtype=dtype, **(TINY | changes)).eval()
    rng = np.random.default_rng(seed)
    for name, parameter in model.named_parameters():
        if "norm" in name:
            parameter.data = parameter.data + rng.normal(0, 0.2, parameter.shape)
    return model


def merging(dtype: str = "float64", variant: str = "first", threshold: float = 0.8, **changes: Any) -> LanguageModel:
    """Build a tiny model that merges during generation as well."""
    return build(dtype, atm=variant, atm_threshold=threshold, atm_at_generation=True, **changes)


def repeated(seed: int, length: int) -> Array:
    """Draw a sequence (1, length) with many repeated tokens: equal neighbours merge."""
    rng = np.random.default_rng(seed)
    return np.repeat(rng.integers(0, VOCAB, length), rng.integers(1, 4, length))[None, :length]


def logits(model: LanguageModel, ids: Array, cache: Any = None) -> Array:
    with no_grad():
        result: Array = model(ids, cache=cache).data
    return result


def ratios(model: Any) -> list[float]:
    found: list[float] = model.measurements()["merge_ratio"]
    return found


def assume_clear_of_the_threshold(dtype: str, variant: str, ids: Array) -> None:
    """Skip sequences with a cosine so close to the threshold that rounding could change the decision."""
    low, high = (logits(merging(dtype, variant, threshold), ids) for threshold in (0.8 - 1e-4, 0.8 + 1e-4))
    assume((low == high).all())
