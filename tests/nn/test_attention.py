"""The attention block: its equations in plain NumPy, groups of heads, and a cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import InputError, Tensor, nn
from minigrad.ops.attention import attention_formula
from minigrad.ops.rotary import rotary_formula
from minigrad.ops.softmax import softmax_formula
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
        layout = nn.Layout.packed([stop - start] * 2, past=start)
        parts.append(attention(Tensor(part), layout, angles, cache).data.reshape(2, stop - start, WIDTH))
        cache.advance(layout.lengths)
    np.testing.assert_allclose(np.concatenate(parts, axis=1).reshape(8, WIDTH), whole, rtol=1e-10, atol=1e-12)


def by_hand(attention: nn.SelfAttention, x: Array, mask: Array | None, theta: float | None) -> Array:
    """Compute self-attention in plain NumPy: x (B, T, C), mask (T, T)."""
    batch, length, width = x.shape
    qkv = x @ attention.qkv.weight.data.T + attention.qkv.bias.data
    q, k, v = (part.reshape(batch, length, 2, width // 2) for part in np.split(qkv, 3, axis=-1))
    if theta is not None:
        cosine, sine = nn.RotaryAngles(width // 2, theta).tables(length, np.dtype(np.float64))
        rotation: dict[str, Any] = {"cosine": cosine, "sine": sine, "positions": np.arange(length)}
        q, k = (np.stack([rotary_formula(each, **rotation) for each in part]) for part in (q, k))
    scores = np.einsum("bthd,buhd->bhtu", q, k) / np.sqrt(width // 2)
    p = softmax_formula(scores if mask is None else np.where(mask, scores, -np.inf))
    rows = np.einsum("bhtu,buhd->bthd", p, v).reshape(x.shape)
    return rows @ attention.out.weight.data.T + attention.out.bias.data


@pytest.mark.parametrize("theta", [None, 100.0])
@pytest.mark.parametrize("is_causal", [True, False])
def test_self_attention_is_its_equations(theta: float | None, is_causal: bool) -> None:
    attention = nn.SelfAttention(8, 2, is_causal=is_causal, rope_theta=theta)
    attention.initialise(dtype="float64")
    x, causal = np.random.default_rng(0).normal(size=(3, 5, 8)), np.tri(5, dtype=bool) if is_causal else None
    np.testing.assert_allclose(attention(Tensor(x)).data, by_hand(attention, x, causal, theta), atol=1e-12)
    mask = np.random.default_rng(1).random((5, 5)) < 0.6
    both = mask if causal is None else mask & causal
    np.testing.assert_allclose(attention(Tensor(x), mask=mask).data, by_hand(attention, x, both, theta), atol=1e-12)
    np.testing.assert_array_equal(attention(Tensor(x[0])).data, attention(Tensor(x[:1])).data[0])


def test_widths_that_cannot_be_shared_by_the_heads_are_refused() -> None:
    with pytest.raises(InputError, match=r"the width \(8\) must be a multiple of num_heads \(3\)"):
        nn.SelfAttention(8, 3)
    with pytest.raises(InputError, match=r"heads of even size, not 3; or take rope_theta=None"):
        nn.SelfAttention(6, 2)
    assert nn.SelfAttention(6, 2, rope_theta=None, bias=False).num_parameters() == 6 * 24
    with pytest.raises(InputError, match=r"num_heads \(3\) must be a multiple of num_kv_heads \(2\)"):
        nn.GroupedQueryAttention(4, 3, 2, 2)


def test_grouped_queries_need_no_positions() -> None:
    attention, layout, x = block(2, 1), nn.Layout.rectangular(1, 3), rows(3)
    moved = attention(Tensor(x[[1, 0, 2]]), layout).data[2]
    np.testing.assert_allclose(moved, attention(Tensor(x), layout).data[2], rtol=1e-12)


def test_any_projection_may_be_wrapped() -> None:
    layer = nn.GroupedQueryAttention(12, 3, 1, 4)
    x, layout = Tensor(np.ones((5, 12), np.float32)), nn.Layout.rectangular(1, 5)
    plain = layer(x, layout).data
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        setattr(layer, name, nn.Wrapper(getattr(layer, name)))
    np.testing.assert_array_equal(layer(x, layout).data, plain)
