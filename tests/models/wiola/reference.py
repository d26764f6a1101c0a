"""Wiola in plain NumPy, position by position, as the paper's equations are written."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.wiola.model import WiolaConfig

Array = NDArray[Any]


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def norm(x: Array, weight: Array, offset: Array, eps: float) -> Array:
    z = x + offset
    return weight * z / np.sqrt((z * z).mean(-1, keepdims=True) + eps)


def spiral(x: Array, position: int, config: WiolaConfig) -> Array:
    """Rotate one head's vector (D,) (eqs. 11-18)."""
    half = len(x) // 2
    y = np.empty_like(x)
    for j in range(half):
        omega = config.srpe_theta ** (-2 * j / len(x))
        angle = position * omega + position * omega / config.srpe_spiral_divisor
        radius = 1 + config.srpe_radial_amplitude * math.sin(position * config.srpe_radial_frequency * omega)
        c, s = radius * math.cos(angle), radius * math.sin(angle)
        y[j], y[j + half] = x[j] * c - x[j + half] * s, x[j] * s + x[j + half] * c
    return y


def softmax(scores: list[float]) -> Array:
    e = np.exp(np.array(scores) - max(scores))
    return e / e.sum()


def greedy_groups(x: Array, threshold: float) -> list[tuple[int, ...]]:
    """Return the groups of merged rows (algorithm 1)."""
    groups: list[tuple[int, ...]] = []
    i = 0
    while i < len(x):
        alike = i + 1 < len(x) and x[i] @ x[i + 1] / (np.linalg.norm(x[i]) * np.linalg.norm(x[i + 1])) > threshold
        groups.append((i, i + 1) if alike else (i,))
        i += len(groups[-1])
    return groups


def attend(
    q: Array, keys: list[Array], values: list[Array], head: int, config: WiolaConfig, position: int, key_at: list[int]
) -> Array:
    """Attend with one query head (D,) to keys and values (G, D) before rotation."""
    group = head // (config.num_heads // config.num_kv_heads)
    rotated = spiral(q[head], position, config)
    scores = [
        rotated @ spiral(k[group], p, config) / math.sqrt(len(rotated)) for k, p in zip(keys, key_at, strict=True)
    ]
    return sum(w * v[group] for w, v in zip(softmax(scores), values, strict=True))  # type: ignore[return-value]


def attention(
    x: Array, summaries: list[Array], weights: dict[str, Array], config: WiolaConfig, variant: str
) -> tuple[Array, int]:
    """Compute GCLA with or without merging: x (T, C), summaries (T, C) each -> (T, C) and the number of groups."""
    num_tokens, size = len(x), config.head_dim
    groups = [(t,) for t in range(num_tokens)] if variant == "off" else greedy_groups(x, config.atm_threshold)
    out = np.zeros((num_tokens, config.width))
    for number, group in enumerate(groups):
        for t in group:
            if variant in ("first", "avg_causal", "paper") and t != group[0]:
                out[t] = out[group[0]]
                continue
            query_row = x[list(group)].mean(0) if variant == "paper" else x[t]
            keys, values, key_at = [], [], []
            for other in groups[: number + 1]:
                if variant == "first":
                    row, position = x[other[0]], other[0]
                elif variant == "paper":
                    row, position = x[list(other)].mean(0), other[0]
                elif other is group and t == group[0]:
                    row, position = x[t], t
                else:
                    row, position = x[list(other)].mean(0), other[-1]
                keys.append((weights["k_proj.weight"] @ row).reshape(-1, size))
                values.append((weights["v_proj.weight"] @ row).reshape(-1, size))
                key_at.append(position)
            q = (weights["q_proj.weight"] @ query_row).reshape(-1, size)
            heads = np.array([attend(q, keys, values, h, config, t, key_at) for h in range(config.num_heads)])
            if summaries:
                beta = sigmoid(weights["blend_logit"])
                ks = [(weights["k_ctx_proj.weight"] @ s[t]).reshape(-1, size) for s in summaries]
                vs = [(weights["v_ctx_proj.weight"] @ s[t]).reshape(-1, size) for s in summaries]
                zeros = [0] * len(ks)  # at position 0 nothing is rotated
                context = np.array([attend(q, ks, vs, h, config, t, zeros) for h in range(config.num_heads)])
                heads = (1 - beta) * heads + beta * context
            gate = sigmoid(weights["gate_proj.weight"] @ query_row)
            out[t] = weights["o_proj.weight"] @ (gate * heads.reshape(-1))
    return out, len(groups)


def feed_forward(x: Array, weights: dict[str, Array]) -> Array:
    """Compute eqs. 34-37, one row at a time."""
    rows = []
    for row in x:
        gate = weights["gate_a.weight"] @ row
        a = weights["down_a.weight"] @ (gate * sigmoid(gate) * (weights["up_a.weight"] @ row))
        up = weights["up_b.weight"] @ row
        b = weights["down_b.weight"] @ np.array([u * (1 + math.erf(u / math.sqrt(2))) / 2 for u in up])
        alpha = sigmoid(weights["fusion.weight"] @ np.concatenate([a, b]))
        rows.append(alpha * a + (1 - alpha) * b)
    return np.array(rows)


def logits(
    tokens: Array, state: dict[str, Array], config: WiolaConfig, variant: str = "off"
) -> tuple[Array, list[int]]:
    """Return the logits (T, V) of a sequence (T,), and the number of groups in each merging layer."""

    def part(prefix: str) -> dict[str, Array]:
        return {name.removeprefix(prefix): array for name, array in state.items() if name.startswith(prefix)}

    x = state["model.embed_tokens.weight"][tokens]
    summaries: list[Array] = []
    counts: list[int] = []
    for layer in range(config.num_layers):
        weights = part(f"model.layers.{layer}.")
        merging = variant if config.num_layers // 3 <= layer < 2 * config.num_layers // 3 else "off"
        normed = norm(x, weights["input_norm.weight"], weights["input_norm.offset"], config.norm_eps)
        recent = summaries[-config.gcla_lookback :]
        mixed, count = attention(normed, recent, part(f"model.layers.{layer}.attn."), config, merging)
        counts += [count] if merging != "off" else []
        x = x + mixed
        normed = norm(x, weights["post_attn_norm.weight"], weights["post_attn_norm.offset"], config.norm_eps)
        x = x + feed_forward(normed, part(f"model.layers.{layer}.ffn."))
        summaries.append(np.cumsum(x, axis=0) / np.arange(1, len(x) + 1)[:, None])
    x = norm(x, state["model.final_norm.weight"], state["model.final_norm.offset"], config.norm_eps)
    return x @ state["model.embed_tokens.weight"].T, counts
