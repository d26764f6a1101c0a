r"""Rows of single tokens: the part of a frozen embedding that adapters have to change.

Pre-training never reads the tokens between the messages of a conversation. Only the softmax moves their rows, and it
moves all of them alike: they end as the same vector, and each of these tokens is as probable as every other. While the
embedding is frozen, no adapter in the layers can then make the end of an answer the most probable token. So the rows of
a few tokens are learned beside the frozen matrix (PEFT's ``trainable_token_indices``):
$W' = W + E D$ with D (n, C) learned, which begins at 0, and E (V, n) one-hot in the rows of the n tokens, 0 elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad import ops
from minigrad.autograd.graph import is_recording
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layers import Embedding
from minigrad.nn.module import Module, check_sizes
from minigrad.nn.parameter import Init, Parameter
from minigrad.nn.replacing import Wrapper
from minigrad.quantised import QuantisedEmbedding
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


class AdaptedEmbedding(Wrapper, Embedding):
    """An embedding, or a head, with rows of a few tokens that are learned beside its frozen matrix.

    Without a graph, it computes with the merged matrix, as if the rows were a part of it.
    """

    _copy: tuple[Any, Tensor] | None = None  # the merged matrix, and the versions of what it was merged from

    def __init__(self, inner: Embedding, tokens: Sequence[int]) -> None:
        super().__init__(inner)
        self.weight = inner.weight
        self.token_adapter = TokenRows(tokens, inner.weight.shape[1])

    def merged(self) -> Tensor:
        """Return the matrix W' (V, C): a copy, made once for as long as it is the same."""
        versions = [(each.version, each.version.count) for each in (self.weight, self.token_adapter.delta)]
        if self._copy is None or self._copy[0] != versions:
            self._copy = versions, Tensor(self.token_adapter.merged(self.weight))
        return self._copy[1]

    def forward(self, ids: Tensor) -> Tensor:
        """Look up the rows."""
        if not is_recording():
            return ops.embedding(self.merged(), ids)
        self._copy = None  # training is about to change the rows, and needs the memory
        rows: Tensor = self.inner(ids)
        return rows + self.token_adapter(ids)

    def logits(self, x: Tensor) -> Tensor:
        """Return the logits $x W'^T$: x (rows, C) -> (rows, V)."""
        return ops.linear(*self.factors(x)) if is_recording() else ops.linear(x, self.merged())

    def factors(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return the two factors of the logits (see `TokenRows.widen`)."""
        return self.token_adapter.widen(x, self.weight)

    def copied(self) -> int:
        """Return the number of elements of the second factor, which is a copy."""
        return len(self.weight) * (self.weight.shape[1] + len(self.token_adapter.tokens))

    def config_entries(self) -> dict[str, Any]:
        """Raise InputError: no published config.json has such rows."""
        raise InputError(
            "the model has learned rows of tokens: merge them before it is saved as a model (adapters.merge)"
        )


class EmbeddingWithRows(QuantisedEmbedding):
    """A quantised embedding, or a head, that keeps the learned `rows` (n, C) of a few tokens as they were read.

    Its matrix holds them too, but rounded.
    """

    def __init__(self, table: QuantisedEmbedding, tokens: list[int], rows: Array) -> None:
        super().__init__(table.weight)
        self.tokens, self.rows = tokens, rows


def tables_of(model: LanguageModel) -> dict[str, Embedding]:
    """Return the modules of a model whose matrix has a row for each token, by name: the embedding, perhaps a head."""
    tables = model.tables()
    return {name: each for name, module in model.named_modules() for each in tables if module is each}
