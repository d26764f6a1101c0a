"""Every family as a plain PyTorch function of its weights, one text at a time, as its formulas are written.

PyTorch differentiates it, and it shares nothing with minigrad but the names of weights and the settings of a config.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional

from minigrad.constants import IGNORE
from tests.peers.torch_layers import (
    Routing,
    Weights,
    attend,
    attend_in_pattern,
    causal,
    feed_forward,
    gelu_block,
    layer_norm,
    part,
    rms_norm,
    rope,
    rotate,
    shift_keys,
    swiglu_block,
)
from tests.peers.torch_wiola import wiola

torch.set_num_threads(1)

Hidden = tuple[torch.Tensor, list[Routing]]


# GPT-2 and VSLA.


def gpt2(config: Any, w: Weights, ids: torch.Tensor) -> Hidden:
    """Compute GPT-2, perhaps with rotary positions in place of the table, or VSLA with the pattern of each layer."""
    x, routings, is_rotary = w["wte.weight"][ids], list[Routing](), "wpe.weight" not in w
    x = x if is_rotary else x + w["wpe.weight"][: len(ids)]
    for number in range(config.num_layers):
        layer = part(w, f"h.{number}")
        qkv = layer_norm(x, layer, "ln_1", config.norm_eps) @ layer["attn.c_attn.weight"] + layer["attn.c_attn.bias"]
        q, k, v = qkv.reshape(len(ids), 3, config.num_heads, -1).unbind(1)
        if is_rotary:
            q, k = (rotate(each, *rope(config, x)) for each in (q, k))
        if hasattr(config, "pattern"):
            attended = attend_in_pattern(q, k, v, config.pattern(number), layer.get("attn.pattern.logits"))
        else:
            attended = attend(q, k, v, causal(len(ids)))
        x = x + attended.flatten(1) @ layer["attn.c_proj.weight"] + layer["attn.c_proj.bias"]
        normed = layer_norm(x, layer, "ln_2", config.norm_eps)
        x = x + feed_forward(normed, part(layer, "mlp"), gelu_block, config, routings)
    return layer_norm(x, w, "ln_f", config.norm_eps), routings


# Vidya.


def vidya(config: Any, weights: Weights, ids: torch.Tensor) -> Hidden:
    """Compute Vidya v1, whose pairs are interleaved and whose embedding is normed, or v2."""
    is_first = "model.embed_norm.weight" in weights
    w, routings, first_values = part(weights, "model"), list[Routing](), list[torch.Tensor]()
    x = w["embed_tokens.weight"][ids]
    x = rms_norm(x, w["embed_norm.weight"], config.norm_eps) if is_first else x
    angles, scale = rope(config, x)
    for number in range(config.num_layers):
        layer = part(w, f"layers.{number}")
        normed = rms_norm(x, layer["input_layernorm.weight"], config.norm_eps)
        of_q, of_k, of_v = (normed @ layer[f"self_attn.{name}_proj.weight"].T for name in "qkv")
        if getattr(config, "value_residual", False):
            first_values = [*first_values, of_v][:1]
            of_v = of_v if number == 0 else of_v + first_values[0]
        q, k, v = (rows.reshape(len(ids), -1, config.head_dim) for rows in (of_q, of_k, of_v))
        q, k = rotate(q, angles, scale, is_first), rotate(k, angles, scale, is_first)
        k = shift_keys(k) if getattr(config, "key_shift", False) else k
        k, v = (each.repeat_interleave(q.shape[1] // each.shape[1], 1) for each in (k, v))
        x = x + attend(q, k, v, causal(len(ids))).flatten(1) @ layer["self_attn.o_proj.weight"].T
        normed, mlp = rms_norm(x, layer["post_attention_layernorm.weight"], config.norm_eps), part(layer, "mlp")
        if is_first:
            x = x + functional.gelu(normed @ mlp["fc1.weight"].T, approximate="tanh") @ mlp["fc2.weight"].T
        else:
            x = x + feed_forward(normed, mlp, swiglu_block, config, routings)
    return rms_norm(x, w["norm.weight"], config.norm_eps), routings


FAMILIES = {
    "GPT2": gpt2,
    "VSLA": gpt2,
    "VidyaV1": vidya,
    "VidyaV2": vidya,
    "Wiola": wiola,
}
EMBEDDINGS = {
    **dict.fromkeys(("GPT2", "VSLA"), "wte.weight"),
    **dict.fromkeys(("VidyaV1", "VidyaV2", "Wiola"), "model.embed_tokens.weight"),
}


def loss(config: Any, weights: Weights, texts: list[tuple[torch.Tensor, torch.Tensor]], merges: bool) -> torch.Tensor:
    """Return the mean loss of the targets of all texts, and what balances experts: the loss of a training pass."""
    family = type(config).__name__.removesuffix("Config")
    counted = sum(int((targets != IGNORE).sum()) for _, targets in texts)
    total = torch.zeros((), dtype=next(iter(weights.values())).dtype)
    for ids, targets in texts:
        options = {"merges": merges} if family == "Wiola" else {}
        rows, routings = FAMILIES[family](config, weights, ids, **options)
        logits = rows @ weights.get("lm_head.weight", weights[EMBEDDINGS[family]]).T
        total = total + functional.cross_entropy(logits, targets, ignore_index=IGNORE, reduction="sum") / counted
        is_real = targets != IGNORE
        for probabilities, chosen in routings:
            picks = functional.one_hot(chosen[is_real], config.experts).sum((0, 1)) / chosen.shape[1]
            shares = (picks.to(total) * probabilities[is_real].sum(0)).sum() / max(int(is_real.sum()), 1)
            total = total + config.expert_balance * config.experts * shares / counted
    return total
