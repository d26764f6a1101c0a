"""Growth: a trained model becomes wider and computes the same output.

New weights must leave the output unchanged and must receive a gradient. New rows of matrices that *read* the residual
stream, and their new columns, are drawn at random; new rows and columns of matrices that *write* into it are zero. So
the new elements of the stream are zero, and new heads and units add nothing to it. The output depends on products of a
new random weight and a new zero weight. The derivative with respect to the zero weight is the random one, so the zero
weights receive a gradient in the first step, and the random ones from the second step on. (A tied head reads new
elements of the stream from the second step on, so the new rows of the last feed-forward block receive a gradient from
then on too.)

RMSNorm divides by the mean over a wider row: with r = d / d' its weights are multiplied by sqrt(r), and its eps by r.
Without the latter the logits change in the third digit.

Heads are appended at the end in whole groups, and a head keeps its size, so the grouping of the old heads stays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from minigrad.errors import InputError
from minigrad.nn.language_model import LanguageModel
from minigrad.typing import Array

WIDTHS = ("width", "num_heads", "num_kv_heads", "feed_forward")
"""The fields of a config that growing makes larger."""

_WRITERS = ("embed_tokens.weight", "o_proj.weight", "down_proj.weight")


def widened(old: Any, target: Any) -> Any:
    """Return the config of the `old` model with the widths of the `target` size.

    Raises InputError, naming what differs, unless depth, head size and grouping are equal and no width gets smaller.
    """
    for name in ("num_layers", "head_dim"):
        if getattr(old, name) != getattr(target, name):
            raise InputError(
                f"a model grows in width only: {name} is {getattr(old, name)}, but the wanted size has "
                f"{getattr(target, name)}"
            )
    if old.num_heads * target.num_kv_heads != target.num_heads * old.num_kv_heads:
        raise InputError(
            f"a model grows by whole groups of heads: it has {old.num_heads} query heads to {old.num_kv_heads} "
            f"key/value heads, but the wanted size {target.num_heads} to {target.num_kv_heads}"
        )
    widths = {name: getattr(target, name) for name in WIDTHS}
    narrower = [
        f"{name} from {getattr(old, name)} to {new}" for name, new in widths.items() if new < getattr(old, name)
    ]
    if narrower:
        raise InputError(f"a model cannot grow narrower: {', '.join(narrower)}")
    return replace(old, **widths, init_std=target.init_std, norm_eps=old.norm_eps * old.width / target.width)


def describe(old: Any, new: Any) -> str:
    """Return the fields that grow from one config to another, as in "width 576 to 768, num_heads 9 to 12"."""
    pairs = {name: (getattr(old, name), getattr(new, name)) for name in WIDTHS}
    return ", ".join(f"{name} {before:,} to {after:,}" for name, (before, after) in pairs.items() if before != after)


def widen_weights(model: LanguageModel, old: Mapping[str, Array], old_width: int) -> None:
    """Copy the weights of a narrower model into a newly initialised wider one, so that both compute the same logits."""
    ratio = old_width / model.config.width
    for name, parameter in model.named_parameters():
        new, known = parameter.data.copy(), old[name]
        if parameter.ndim == 1:
            new[len(known) :] = 1
            new[: len(known)] = known * math.sqrt(ratio)
        else:
            if name.endswith(_WRITERS):
                new[...] = 0
            new[: known.shape[0], : known.shape[1]] = known
        parameter.data = new


def widen_moments(model: LanguageModel, old: Mapping[str, Array], old_width: int) -> dict[str, Array]:
    """Return the moments (``name.m``, ``name.v``) for a wider model: those of new elements are zero.

    A norm's weight was multiplied by sqrt(r), so its gradient is divided by sqrt(r), and its squared gradient by r.

    New elements share the old count of updates, so AdamW does not correct their moments for being zero at first. Their
    first update is (1 - beta1) / sqrt(1 - beta2) learning rates: 0.45 with betas of 0.9 and 0.95, 1 with 0.9 and 0.99,
    but 3.16 with 0.9 and 0.999, where the learning rate should warm up again.
    """
    ratio, found = old_width / model.config.width, dict[str, Array]()
    for name, parameter in model.named_parameters():
        for kind, power in (("m", 0.5), ("v", 1.0)):
            known = old.get(f"{name}.{kind}")
            if known is None:  # the optimizer keeps none
                continue
            new = np.zeros(parameter.shape, known.dtype)
            new[tuple(slice(length) for length in known.shape)] = known
            found[f"{name}.{kind}"] = new / new.dtype.type(ratio**power) if parameter.ndim == 1 else new
    return found
