"""Vidya v1: parameter counts, and the model's equations in plain NumPy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import models
from minigrad import InputError
from tests.models.tiny import CONTEXT, build, tokens

Array = NDArray[Any]


def test_exact_counts() -> None:
    assert models.count("vidya-v1", "49m") == 49_051_008
    assert models.count("vidya-v1", "10m") == 10_003_968
    assert models.count("vidya-v1", "10m", vocab_size=2_218) == 10_011_648  # as its author's training log prints


def norm(x: Array, weight: Array) -> Array:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * weight


def rotate(x: Array) -> Array:
    """Rotate the pairs (2i, 2i + 1) of one head's rows (T, D), as complex numbers."""
    angles = np.outer(np.arange(len(x)), 10_000.0 ** (-np.arange(0, x.shape[1], 2) / x.shape[1]))
    rotated = (x[:, ::2] + 1j * x[:, 1::2]) * np.exp(1j * angles)
    return np.stack([rotated.real, rotated.imag], axis=-1).reshape(x.shape)


def reference(ids: Array, w: dict[str, Array], num_layers: int, num_heads: int, size: int) -> Array:
    x = norm(w["model.embed_tokens.weight"][ids], w["model.embed_norm.weight"])
    for n in range(num_layers):
        prefix = f"model.layers.{n}."
        p = {name.removeprefix(prefix): array for name, array in w.items() if name.startswith(prefix)}
        normed = norm(x, p["input_layernorm.weight"])
        heads = []
        for h in range(num_heads):
            q, k, v = (
                normed @ p[f"self_attn.{name}_proj.weight"][h * size : (h + 1) * size].T for name in ("q", "k", "v")
            )
            scores = np.where(np.tri(len(ids)) > 0, rotate(q) @ rotate(k).T / math.sqrt(size), -np.inf)
            e = np.exp(scores - scores.max(-1, keepdims=True))
            heads.append(e / e.sum(-1, keepdims=True) @ v)
        x = x + np.concatenate(heads, axis=1) @ p["self_attn.o_proj.weight"].T
        hidden = norm(x, p["post_attention_layernorm.weight"]) @ p["mlp.fc1.weight"].T
        activated = hidden / 2 * (1 + np.tanh(math.sqrt(2 / math.pi) * (hidden + 0.044715 * hidden**3)))
        x = x + activated @ p["mlp.fc2.weight"].T
    return norm(x, w["model.norm.weight"]) @ w["model.embed_tokens.weight"].T


def test_the_model_is_its_equations() -> None:
    model, ids = build("vidya-v1", "float64").eval(), tokens(0, 1, CONTEXT)
    rng = np.random.default_rng(0)
    for parameter in model.parameters():
        parameter.data = parameter.data + rng.normal(0, 0.1, parameter.shape)
    wanted = reference(ids[0], model.state_dict(), 2, 3, 4)
    np.testing.assert_allclose(model(ids).data[0], wanted, rtol=0, atol=1e-10 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rope_interleaved": False}, "rope_interleaved = False; this family needs True"),
        ({"hidden_act": "silu"}, "hidden_act = 'silu'"),
        ({"intermediate_size": 3}, "fc1"),
        ({"head_dim": 3}, "head_dim must be even"),
    ],
)
def test_a_folder_of_another_variant_is_refused(tmp_path: Path, values: dict[str, Any], message: str) -> None:
    build("vidya-v1").save(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | values), encoding="utf-8")
    with pytest.raises(InputError, match=message):
        models.load(tmp_path)
