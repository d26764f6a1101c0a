"""The attention block: its equations in plain NumPy, groups of heads, and a cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import Tensor, nn
from minigrad.ops.attention import attention_formula
from minigrad.ops.rotary import rotary_formula
from minigrad.typing import Array

WIDTH, HEAD_DIM = 12, 4


def block(num_heads: int, num_kv_heads: int) -> nn.GroupedQueryAttention:
    made = nn.GroupedQueryAttention(WIDTH, num_heads, num_kv_heads, HEAD_DIM, std=0.4, out_std=0.4)
    made.initialise(dtype="float64")
    return made


def rows(count: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).normal(size=(count, WIDTH))


@pytest.mark.parametrize(("num_heads", "num_kv_heads"), [(1, 1), (3, 3), (4, 2), (6, 1)])
def test_the_block_is_its_equations(num_heads: int, num_kv_heads: int) -> None:
    attention, angles = block(num_heads, num_kv_heads), nn.RotaryAngles(HEAD_DIM, 100.0)
    layout, x = nn.Layout(np.array([0, 3, 7]), np.array([0, 1, 2, 0, 1, 2, 3])), rows(7)
    cosine, sine = angles.tables(4, np.dtype(np.float64))
    rotation: dict[str, Any] = {"cosine": cosine, "sine": sine, "positions": layout.positions}
    q, k, v = (
        (x @ layer.weight.data.T).reshape(7, -1, HEAD_DIM)
        for layer in (attention.q_proj, attention.k_proj, attention.v_proj)
    )
    q, k = rotary_formula(q, **rotation), rotary_formula(k, **rotation)
    wanted = attention_formula(q, k, v, offsets=layout.offsets).reshape(7, -1) @ attention.o_proj.weight.data.T
    np.testing.assert_allclose(attention(Tensor(x), layout, angles).data, wanted, rtol=1e-10, atol=1e-12)


def test_with_a_cache_later_tokens_attend_to_earlier_ones() -> None:
    attention, angles, x = block(4, 2), nn.RotaryAngles(HEAD_DIM, 100.0), rows(8)
    whole = attention(Tensor(x), nn.Layout.rectangular(2, 4), angles).data
    cache = nn.KeyValueCache(1, 2, 4, 2, HEAD_DIM, "float64")
    parts = []
    for start, stop in ((0, 1), (1, 4)):
        part = x.reshape(2, 4, WIDTH)[:, start:stop].reshape(-1, WIDTH)
        layout = nn.Layout.rectangular(2, stop - start, past=start)
        parts.append(attention(Tensor(part), layout, angles, cache).data.reshape(2, stop - start, WIDTH))
        cache.advance(stop - start)
    np.testing.assert_allclose(np.concatenate(parts, axis=1).reshape(8, WIDTH), whole, rtol=1e-10, atol=1e-12)
