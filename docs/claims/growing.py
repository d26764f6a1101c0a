"""What claims of grown models compute: whether a wider or deeper one says the same, and whether its new parts learn."""

from __future__ import annotations

from typing import Any

import numpy as np

import models
from minigrad import no_grad
from models.growth import widen_weights


def grown(naive: bool) -> tuple[float, float]:
    """Return the largest change of the logits when a tiny model is widened, and the share of new heads that is dead.

    Naive is the published way: matrices into the corner of zeros, new weights of norms 1. (The new columns of the
    embedding, which it draws with a deviation of 0.01, are zeros here, so the change is only that of the norms.) A head
    is dead if none of its weights has a gradient.
    """
    narrow: Any = {
        "vocab_size": 40,
        "num_layers": 2,
        "width": 64,
        "num_heads": 2,
        "num_kv_heads": 1,
        "head_dim": 32,
        "feed_forward": 96,
    }
    wide: Any = narrow | {"width": 128, "num_heads": 4, "num_kv_heads": 2, "feed_forward": 192}
    old = models.build("vidya-v2", "nano", dtype="float64", **narrow)
    eps = old.config.norm_eps if naive else old.config.norm_eps * 64 / 128
    new = models.build("vidya-v2", "nano", dtype="float64", **wide, norm_eps=eps)
    if naive:
        for name, parameter in new.named_parameters():
            known = old.state_dict()[name]
            values = np.full(parameter.shape, float(parameter.ndim == 1))
            values[tuple(slice(length) for length in known.shape)] = known
            parameter.data = values
    else:
        widen_weights(new, old.state_dict(), 64)
    ids = np.arange(24)[None] % 40
    with no_grad():
        change = np.abs(new(ids).data - old(ids).data).max()
    new.loss(ids, (ids * 7 + 1) % 40).backward()
    gradient = {name: parameter.grad for name, parameter in new.named_parameters()}
    attention = "model.layers.0.self_attn."
    by_head = [gradient[f"{attention}q_proj.weight"], gradient[f"{attention}o_proj.weight"].T]  # (heads * 32, ...)
    dead = [not any(each[32 * head : 32 * head + 32].any() for each in by_head) for head in (2, 3)]
    return float(change), sum(dead) / 2


def deepened() -> tuple[bool, bool]:
    """Return whether a new layer leaves the logits of a tiny model as they are, and whether each matrix of it learns.

    Its matrices into the residual stream begin at zero. Whatever feeds them has no gradient until they have left zero,
    after the first step.
    """
    shape: Any = {"vocab_size": 40, "width": 32, "num_heads": 2, "num_kv_heads": 1, "feed_forward": 48}
    old = models.build("vidya-v2", "nano", dtype="float64", num_layers=2, **shape)
    new = models.build("vidya-v2", "nano", dtype="float64", num_layers=3, **shape)
    known = old.state_dict()
    writers = [f"model.layers.2.{name}.weight" for name in ("self_attn.o_proj", "mlp.down_proj")]
    for name, parameter in new.named_parameters():
        if name in known:
            parameter.data = known[name]
        elif name in writers:
            parameter.data = np.zeros(parameter.shape)
    ids = np.arange(24)[None] % 40
    with no_grad():
        change = float(np.abs(new(ids).data - old(ids).data).max())
    layer = {name: parameter for name, parameter in new.named_parameters() if "layers.2." in name}
    for _ in range(2):
        new.loss(ids, (ids * 7 + 1) % 40).backward()
        for name in writers:
            layer[name].data = layer[name].data - 0.1 * layer[name].grad
    return change < 1e-12, all(bool(np.any(parameter.grad)) for parameter in layer.values())
