"""Wiola as a plain PyTorch function of its weights, one text at a time, with every way of merging neighbours."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.nn import functional

from tests.peers.torch_layers import Routing, Weights, attend, part, rms_norm, rotate


def wiola(config: Any, weights: Weights, ids: torch.Tensor, *, merges: bool) -> tuple[torch.Tensor, list[Routing]]:
    """Compute the rows of the last layer (eqs. 1-6)."""
    w = part(weights, "model")
    x, summaries = w["embed_tokens.weight"][ids], list[torch.Tensor]()
    for number in range(config.num_layers):
        layer = part(w, f"layers.{number}")
        normed = norm(x, part(layer, "input_norm"), config)
        variant = config.atm if merges and number in config.merging_layers else "off"
        recent = summaries[-config.gcla_lookback :]
        x = x + cross_layer_attention(normed, recent, part(layer, "attn"), config, variant)
        x = x + dual_streams(norm(x, part(layer, "post_attn_norm"), config), part(layer, "ffn"))
        counts = torch.arange(1, len(x) + 1).to(x)[:, None]
        paper = config.gcla_summary == "paper"
        summaries.append(x.mean(0, keepdim=True).expand_as(x) if paper else x.cumsum(0) / counts)
    return norm(x, part(w, "final_norm"), config), []


def norm(x: torch.Tensor, w: Weights, config: Any) -> torch.Tensor:
    return rms_norm(x + w["offset"], w["weight"], config.norm_eps)


def dual_streams(x: torch.Tensor, w: Weights) -> torch.Tensor:
    """Blend the narrow and the wide stream (eqs. 34-37)."""
    a = (functional.silu(x @ w["gate_a.weight"].T) * (x @ w["up_a.weight"].T)) @ w["down_a.weight"].T
    b = functional.gelu(x @ w["up_b.weight"].T) @ w["down_b.weight"].T
    share = (torch.cat([a, b], -1) @ w["fusion.weight"].T).sigmoid()
    return share * a + (1 - share) * b


def spiral(x: torch.Tensor, positions: torch.Tensor, config: Any) -> torch.Tensor:
    """Rotate heads (T, H, D) by two windings, and let their radius oscillate (eqs. 11-18)."""
    size = x.shape[-1]
    omega = config.srpe_theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size)
    phases = torch.outer(positions.double(), omega)
    radius = 1 + config.srpe_radial_amplitude * (config.srpe_radial_frequency * phases).sin()
    return rotate(x, (phases + phases / config.srpe_spiral_divisor).to(x), radius.to(x))


def pairs(x: torch.Tensor, threshold: float) -> list[list[int]]:
    """Return the groups of one or two neighbours, greedily from the left (algorithm 1)."""
    groups, row = list[list[int]](), 0
    while row < len(x):
        alike = row + 1 < len(x) and functional.cosine_similarity(x[row], x[row + 1], dim=0) > threshold
        groups.append([row, row + 1] if alike else [row])
        row += len(groups[-1])
    return groups


def cross_layer_attention(
    x: torch.Tensor, summaries: list[torch.Tensor], w: Weights, config: Any, variant: str
) -> torch.Tensor:
    """Attend to earlier groups and to the layers below, and apply the gate (eqs. 22-32)."""
    groups = [[row] for row in range(len(x))] if variant == "off" else pairs(x.detach(), config.atm_threshold)
    first, last = (torch.tensor([group[place] for group in groups]) for place in (0, -1))
    number = torch.tensor([index for index, group in enumerate(groups) for _ in group])  # the group of each row
    mean = (x[first] + x[last]) / 2
    # What attends, and where; what is attended to, and where; whether a row sees its own key instead of its group's.
    rows = torch.arange(len(x)) if variant == "kv_only" else first
    queries = mean if variant == "paper" else x[rows]
    content, places = (x[first], first) if variant == "first" else (mean, first if variant == "paper" else last)
    own = (rows == first[number[rows]]) & (variant in ("avg_causal", "kv_only"))

    def heads(rows: torch.Tensor, name: str) -> torch.Tensor:
        return (rows @ w[f"{name}.weight"].T).unflatten(-1, (-1, config.head_dim))

    def spread(keys: torch.Tensor) -> torch.Tensor:
        """Repeat the keys of groups of heads (..., G, D) for each query head."""
        each = config.num_heads // config.num_kv_heads
        if config.gqa_layout == "interleaved":
            return keys.repeat(*[1] * (keys.ndim - 2), each, 1)
        return keys.repeat_interleave(each, -2)

    q = spiral(heads(queries, "q_proj"), rows, config)
    k = torch.cat([spiral(heads(content, "k_proj"), places, config), spiral(heads(x[rows], "k_proj"), rows, config)])
    v = torch.cat([heads(content, "v_proj"), heads(x[rows], "v_proj")])
    index, mine = torch.arange(len(groups))[None], number[rows][:, None]
    of_groups = (index < mine) | ((index == mine) & ~own[:, None])
    visible = torch.cat([of_groups, own[:, None] & torch.eye(len(rows), dtype=torch.bool)], 1)
    out = attend(q, spread(k), spread(v), visible)
    if summaries:
        context = torch.stack([each[rows] for each in summaries], 1)  # (rows, L, C)
        k, v = spread(heads(context, "k_ctx_proj")), spread(heads(context, "v_ctx_proj"))
        p = (torch.einsum("thd,tlhd->thl", q, k) / math.sqrt(config.head_dim)).softmax(-1)
        beta = w["blend_logit"].sigmoid()
        out = (1 - beta) * out + beta * torch.einsum("thl,tlhd->thd", p, v)
    gated = (queries @ w["gate_proj.weight"].T).sigmoid() * out.flatten(1)
    out = gated @ w["o_proj.weight"].T
    return out if variant == "kv_only" else out[number]
