"""The base of all language models: tokens in, logits of the next token out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minigrad import ops
from minigrad.autograd.graph import is_recording, no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError, RunError, ShapeError
from minigrad.formats.json_files import write_json
from minigrad.formats.safetensors import save_tensors
from minigrad.nn.cache import Cache, KeyValueCache, refuse_gradient
from minigrad.nn.checkpointing import CheckpointedLayer
from minigrad.nn.config import ModelConfig
from minigrad.nn.layers import Embedding, Linear
from minigrad.nn.layout import Layout
from minigrad.nn.module import Module
from minigrad.nn.parameter import Parameter
from minigrad.nn.programs import Program, Register
from minigrad.typing import Array


class LanguageModel(Module):
    """The base class of every model family.

    A family sets `config` and, if the head is not the embedding, `lm_head`. It implements `embedding`, and `hidden`,
    which computes the rows of the last layer from packed tokens.
    """

    config: ModelConfig
    lm_head: Linear | None = None
    learns_positions = False  # whether the weights contain a row per position, so that the context cannot change

    def embedding(self) -> Embedding:
        """Return the embedding module."""
        raise TypeError(f"{type(self).__name__} has no embedding of its own")

    def hidden(self, tokens: Tensor, layout: Layout, cache: Any = None) -> Tensor:
        """Run the layers: tokens (rows,) -> (rows, width)."""
        raise TypeError(f"{type(self).__name__} has no layers of its own")

    def head(self) -> Parameter:
        """Return the matrix (vocab_size, width) that computes logits: the embedding unless there is an `lm_head`."""
        return self.embedding().weight if self.lm_head is None else self.lm_head.weight

    def new_cache(self, batch_size: int = 1, max_length: int | None = None) -> Cache:
        """Return an empty cache for `batch_size` sequences of up to `max_length` tokens (by default the context)."""
        config, dtype = self.config, self.head().dtype
        length = config.context_length if max_length is None else max_length
        return KeyValueCache(config.num_layers, batch_size, length, config.num_kv_heads, config.head_dim, dtype)

    def write_program(self, program: Program) -> Register | None:
        """Describe the pass over one token as a program; return the register of the last norm.

        None, if the family has no such program: then the model itself is called to write.
        """
        return None

    def rename_weights(self, weights: dict[str, Array]) -> dict[str, Array]:
        """Return published weights under this model's names, without entries that are not weights."""
        return weights

    def measurements(self) -> dict[str, list[float]]:
        """Return what to log about the last training step, besides the loss."""
        return {}

    def recompute_layers(self, on: bool = True) -> None:
        """Switch activation checkpointing of the layers on or off (see `CheckpointedLayer`)."""
        for _, module in self.named_modules():
            if isinstance(module, CheckpointedLayer):
                module.recomputed = on

    def macs_per_token(self, context: int) -> float:
        """Return the multiply-adds of one forward pass per token, in sequences of `context` tokens.

        Each element of a matrix counts one; an embedding counts none unless it is the head as well, because its rows
        are looked up. Attention adds queries times keys and probabilities times values, over half the context on
        average, because a token attends only to earlier ones.
        """
        config, head = self.config, self.head()
        tables = [module.weight for _, module in self.named_modules() if isinstance(module, Embedding)]
        looked_up = {id(table) for table in tables if table is not head}
        matrices = sum(math.prod(p.shape) for p in self.parameters() if p.ndim == 2 and id(p) not in looked_up)
        return matrices + 2 * config.num_layers * config.num_heads * config.head_dim * (context / 2)

    def forward(self, tokens: ArrayLike, cache: Cache | None = None, *, last: int | None = None) -> Tensor:
        """Return the logits of the next token at every position, or only at the `last` n of them.

        Shapes: tokens (B, T) integers -> (B, T, V), or (B, n, V): who writes needs the logits of one position of a
        prompt, and those of all would take more time than a layer.  With a cache, the tokens continue its sequences;
        backward() is then refused with a GraphError, because a cache stores no gradients.
        Raises InputError for ids out of range or more tokens than the context, ShapeError for other shapes.
        """
        ids = self.check_tokens(tokens, cache)
        batch_size, length = ids.shape
        if last is not None and not 0 <= last <= length:
            raise InputError(f"last takes a whole number from 0 to {length}, the number of positions, not {last}")
        rows = self._rows(ids, cache)
        if last is not None and last < length:
            width = rows.shape[1]
            rows = rows.reshape(batch_size, length, width)[:, length - last :].reshape(batch_size * last, width)
            length = last
        return ops.linear(rows, self.head()).reshape(batch_size, length, self.config.vocab_size)

    def loss(self, tokens: ArrayLike, targets: ArrayLike) -> Tensor:
        """Return the mean cross-entropy in nats per target; targets of -100 do not count.

        Shapes: tokens (B, T), targets (B, T) integers -> ().  Raises ShapeError if these differ, InputError for ids or
        targets out of range.
        """
        ids, labels = self.check_tokens(tokens, None), np.asarray(targets)
        if labels.shape != ids.shape:
            raise ShapeError(f"loss needs one target per token: tokens {ids.shape}, targets {labels.shape}")
        return ops.linear_cross_entropy(self._rows(ids, None), self.head(), labels.reshape(-1))

    def save(self, folder: str | Path) -> None:
        """Write config and weights in the published format, so that other programs can open the folder.

        Raises RunError if writing fails; a file that existed before is then unchanged.
        """
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make the folder {folder}: {error.strerror}") from error
        config = self.config.published() | {"torch_dtype": str(self.head().dtype)}
        ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id") if key in config}
        write_json(folder / "config.json", config)
        write_json(folder / "generation_config.json", ids)
        save_tensors(folder / "model.safetensors", self.state_dict())

    def _rows(self, ids: Array, cache: Cache | None) -> Tensor:
        batch_size, length = ids.shape
        layout = Layout.rectangular(batch_size, length, cache.length if cache is not None else 0)
        if cache is None:
            return self.hidden(Tensor(ids.reshape(-1)), layout)
        with no_grad():  # no graph is needed, and a layer that is recomputed must not store its keys twice
            rows = self.hidden(Tensor(ids.reshape(-1)), layout, cache)
        cache.advance(length)
        return refuse_gradient(rows, *self.parameters()) if is_recording() else rows

    def check_tokens(self, tokens: ArrayLike, cache: Cache | None) -> Array:
        """Return tokens (B, T) as an array; raises InputError or ShapeError if the model cannot take them."""
        ids = np.asarray(tokens.data if isinstance(tokens, Tensor) else tokens)
        if ids.ndim != 2:
            raise ShapeError(
                f"a model takes tokens of shape (batch, time), not {ids.shape}; wrap one sequence as [ids]"
            )
        if ids.dtype.kind not in "iu":
            raise InputError(f"tokens are integers, not {ids.dtype}")
        past, limit = (cache.length if cache is not None else 0), self.config.context_length
        if past + ids.shape[1] > limit:
            raise InputError(
                f"{past + ids.shape[1]} tokens are more than the model's context of {limit}; "
                "shorten the sequence, or build the model with a larger context_length"
            )
        if cache is not None:
            cache.check_capacity(*ids.shape)
        return ids
