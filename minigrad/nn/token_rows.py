r"""Rows of single tokens: what adapters have to change of a frozen embedding.

A pre-training never reads the tokens between the messages of a conversation. Nothing but the softmax moves their rows,
and it moves all of them alike: they end as one and the same vector, and each of these tokens is as probable as every
other. While the embedding is frozen, no adapter in the layers can then let the end of an answer be the most probable
token. So the rows of a few tokens are learned beside the frozen matrix (PEFT's ``trainable_token_indices``):
$W' = W + E D$ with D (n, C) learned, which begins at 0, and E (V, n) one-hot in the rows of the n tokens, 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.nn.module import Module, check_sizes
from minigrad.nn.parameter import Init, Parameter
from minigrad.typing import Array


class TokenRows(Module):
    """Additions to the rows of a few tokens in a matrix (V, C) that has a row for each token.

    Shapes: ids (...) integers -> (..., C), 0 for all other tokens.
    """

    def __init__(self, tokens: Sequence[int], width: int) -> None:
        check_sizes(self, width=width)
        self.tokens = np.array(tokens, np.int64)
        self.delta = Parameter((len(tokens), width), Init())

    def forward(self, ids: Tensor) -> Tensor:
        """Look up the additions to the rows of an embedding."""
        return self._one_hot(ids.data) @ self.delta

    def widen(self, x: Tensor, weight: Parameter) -> tuple[Tensor, Tensor]:
        r"""Return two factors of the logits $x W'^T$: $[x, x D^T]$ and $[W, E]$, so $x W^T + x D^T E^T$.

        A loss that multiplies by one matrix then needs no second one, and W gets no gradient.
        Shapes: x (rows, C), weight (V, C) -> (rows, C + n), (V, C + n).
        """
        one_hot = self._one_hot(np.arange(len(weight)))
        wider = Tensor(np.concatenate([weight.data, one_hot.data], axis=1))
        return ops.concatenate(x, ops.linear(x, self.delta), axis=1), wider

    def merged(self, weight: Parameter) -> Array:
        """Return the matrix W' (V, C), a copy."""
        matrix = np.array(weight.data)
        matrix[self.tokens] += self.delta.data
        return matrix

    def _one_hot(self, ids: Array) -> Tensor:
        return Tensor((ids[..., None] == self.tokens).astype(self.delta.dtype))
