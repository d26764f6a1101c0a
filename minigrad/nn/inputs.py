"""Checks of what a language model is given: tokens, targets and weights of targets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError, ShapeError
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.layout import Layout
from minigrad.typing import Array


def check_tokens(
    tokens: ArrayLike | Tensor, longest: int, cache: KeyValueCache | None = None, layout: Layout | None = None
) -> tuple[Tensor, Layout]:
    """Return the ids, and their layout: the given one, or that of a rectangular batch.

    With a cache, the positions continue after its tokens. Raises InputError or ShapeError for tokens that a model with
    sequences of at most `longest` tokens cannot take.
    """
    ids = tokens if isinstance(tokens, Tensor) else Tensor(tokens)
    if layout is not None and ids.shape != layout.positions.shape:
        raise ShapeError(f"a layout of {len(layout.positions)} rows needs as many tokens (rows,), not {ids.shape}")
    if layout is None and ids.ndim != 2:
        raise ShapeError(f"a model takes tokens of shape (batch, time), not {ids.shape}; wrap one sequence as [ids]")
    if ids.dtype.kind not in "iu":
        raise InputError(f"tokens are integers, not {ids.dtype}")
    layout = layout or Layout.rectangular(*ids.shape)
    if cache is not None:
        cache.check_capacity(layout.lengths)
        layout = Layout.packed(layout.lengths, past=cache.lengths)
    count = int(layout.positions.max(initial=-1)) + 1
    if count > longest:
        raise InputError(
            f"{count} tokens are more than the model's context of {longest}; "
            "shorten the sequence, or build the model with a larger context_length"
        )
    return ids, layout


def check_targets(targets: ArrayLike, ids: Tensor) -> Array:
    """Return the targets as an array; raises ShapeError unless each token has one."""
    labels = np.asarray(targets)
    if labels.shape != ids.shape:
        raise ShapeError(f"a loss needs one target per token: tokens {ids.shape}, targets {labels.shape}")
    return labels


def check_target_weights(weights: ArrayLike | None, labels: Array) -> Array | None:
    """Return the weights of targets in one row; raises ShapeError unless each target has one."""
    if weights is None:
        return None
    by_target = np.asarray(weights)
    if by_target.shape != labels.shape:
        raise ShapeError(f"a loss needs one weight per target: targets {labels.shape}, weights {by_target.shape}")
    return by_target.reshape(-1)
