"""Layers in plain PyTorch, as their formulas are written: rows of one text in, rows out."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.nn import functional

Weights = dict[str, torch.Tensor]


class Routing(NamedTuple):
    """What the router of a layer computed: probabilities (T, experts), and the experts that were chosen (T, k)."""

    probabilities: torch.Tensor
    chosen: torch.Tensor


def part(weights: Weights, prefix: str) -> Weights:
    """Return the weights below a name, with the rest of their names."""
    return {name.removeprefix(f"{prefix}."): each for name, each in weights.items() if name.startswith(f"{prefix}.")}


# Attention: queries (T, H, D), keys and values (U, H, D).


def attend(q: Any, k: Any, v: Any, visible: Any, bias: Any = 0.0) -> torch.Tensor:
    """Attend where `visible` (T, U) or (H, T, U) is true, with a bias added to the scores."""
    scores = torch.einsum("thd,uhd->htu", q, k) / math.sqrt(q.shape[-1]) + bias
    return torch.einsum("htu,uhd->thd", scores.masked_fill(~visible, -math.inf).softmax(-1), v)


def causal(length: int) -> torch.Tensor:
    return torch.ones(length, length, dtype=torch.bool).tril()


def attend_in_pattern(q: Any, k: Any, v: Any, pattern: Any, logits: Any = None) -> torch.Tensor:
    """Attend in one of the patterns of VSLA; a learned one mixes its candidates in each head."""
    if logits is not None:
        shares = logits.reshape(q.shape[1], -1).softmax(-1)[None, :, :, None]  # (1, H, candidates, 1)
        return (torch.stack([attend_in_pattern(q, k, v, each) for each in pattern.candidates], 2) * shares).sum(2)
    t, u = torch.arange(len(q))[:, None], torch.arange(len(q))[None]
    if pattern.kind == "full":
        return attend(q, k, v, u <= t)
    if pattern.kind == "local":
        return attend(q, k, v, (u <= t) & (u > t - pattern.window))
    if pattern.kind == "sparse":
        scores = torch.einsum("thd,uhd->htu", q, k).detach().masked_fill(u > t, -math.inf)
        rank = torch.sort(scores, dim=-1, descending=True, stable=True).indices.argsort(-1)
        return attend(q, k, v, (rank < pattern.top_k) & (u <= t))
    blocks = (t + 1 - pattern.window).clamp(min=0) // pattern.block  # complete ones before the window
    near = (u <= t) & (u >= blocks * pattern.block)
    if pattern.kind == "adaptive":
        scores = torch.einsum("thd,uhd->htu", q, k) / math.sqrt(q.shape[-1])
        p = scores.masked_fill(~near, -math.inf).softmax(-1)
        entropy = -torch.xlogy(p, p).sum(-1).mean(0) / near.sum(1).clamp(min=2).to(p).log()
        blocks = torch.where(entropy[:, None] > pattern.entropy, blocks, 0)
    count = len(q) // pattern.block
    means = [x[: count * pattern.block].reshape(count, pattern.block, *x.shape[1:]).mean(1) for x in (k, v)]
    visible = torch.cat([near, torch.arange(count)[None] < blocks], dim=1)
    bias = torch.zeros(len(q) + count, dtype=q.dtype)
    bias[len(q) :] = math.log(pattern.block)  # a far key stands for as many keys
    return attend(q, torch.cat([k, means[0]]), torch.cat([v, means[1]]), visible, bias)


# Feed-forward blocks and their experts.


def gelu_block(x: torch.Tensor, w: Weights) -> torch.Tensor:
    hidden = functional.gelu(x @ w["c_fc.weight"] + w["c_fc.bias"], approximate="tanh")
    return hidden @ w["c_proj.weight"] + w["c_proj.bias"]


def swiglu_block(x: torch.Tensor, w: Weights) -> torch.Tensor:
    hidden = functional.silu(x @ w["gate_proj.weight"].T) * (x @ w["up_proj.weight"].T)
    return hidden @ w["down_proj.weight"].T


def feed_forward(x: Any, w: Weights, block: Callable[..., Any], config: Any, routings: list[Routing]) -> torch.Tensor:
    """Apply a block, or the experts that a router chooses for each row."""
    if not getattr(config, "experts", 0):
        return block(x, w)
    probabilities = (x @ w["gate.weight"].T).softmax(-1)
    gates, chosen = probabilities.topk(config.experts_per_token)
    if config.experts_per_token > 1:
        gates = gates / gates.sum(-1, keepdim=True)
    routings.append(Routing(probabilities, chosen))
    outputs = torch.stack([block(x, part(w, f"experts.{number}")) for number in range(config.experts)])
    return (gates[..., None] * outputs[chosen.T, torch.arange(len(x))].swapaxes(0, 1)).sum(1)


# Norms and positions.


def layer_norm(x: torch.Tensor, w: Weights, name: str, eps: float) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], w[f"{name}.weight"], w[f"{name}.bias"], eps)


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return weight * x * (x * x).mean(-1, keepdim=True).add(eps).rsqrt()


def rotate(x: Any, angles: Any, scale: Any = 1.0, interleaved: bool = False) -> torch.Tensor:
    """Rotate the pairs (j, j + D/2) of heads (..., T, H, D), or (2j, 2j + 1), by angles (T, D/2), times a scale."""
    cosine, sine = (scale * angles.cos())[:, None], (scale * angles.sin())[:, None]
    a, b = (x[..., ::2], x[..., 1::2]) if interleaved else x.chunk(2, -1)
    turned = a * cosine - b * sine, a * sine + b * cosine
    return torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)


def rope(config: Any, x: torch.Tensor) -> tuple[torch.Tensor, float]:
    """Return the angles (T, D/2) of a config with or without a scaling, and the factor of queries and keys."""
    size, factor, kind = config.head_dim, getattr(config, "rope_factor", 1.0), getattr(config, "rope_scaling", None)
    theta = config.rope_theta * (factor ** (size / (size - 2)) if kind == "ntk" else 1)
    frequencies, scale = theta ** (-torch.arange(0, size, 2, dtype=torch.float64) / size), 1.0
    if kind == "linear":
        frequencies = frequencies / factor
    elif kind == "yarn":

        def pair_of(rotations: float) -> float:
            return size * math.log(config.rope_original_context / (2 * math.pi * rotations)) / (2 * math.log(theta))

        low, high = max(math.floor(pair_of(config.rope_beta_fast)), 0), math.ceil(pair_of(config.rope_beta_slow))
        ramp = ((torch.arange(size // 2) - low) / max(min(high, size - 1) - low, 1e-3)).clamp(0, 1)
        frequencies = frequencies * (1 - ramp) + frequencies / factor * ramp
        scale = config.rope_attention_factor or 0.1 * math.log(factor) + 1
    return torch.outer(torch.arange(len(x), dtype=torch.float64), frequencies).to(x), scale


def shift_keys(k: torch.Tensor) -> torch.Tensor:
    """Replace the slower half of the pairs of each key by those of the key before it."""
    half = k.shape[-1] // 2
    is_shifted = torch.arange(k.shape[-1]) % half >= half // 2
    return torch.where(is_shifted, torch.cat([torch.zeros_like(k[:1]), k[:-1]]), k)
