"""What all language models have in common: tokens in, a score for every possible next token out."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from minigrad import checkpoint, ops
from minigrad.errors import InputError, RunError, ShapeError
from minigrad.nn.layers import Embedding
from minigrad.nn.module import Module, Parameter
from minigrad.nn.positions import Layout
from minigrad.nn.recompute import Layer
from minigrad.tensor import Tensor

Array = NDArray[Any]


class LanguageModel(Module):
    """The frame around a family's own layers.

    A family sets `config` (with `vocab_size` and `context_length`) and writes `hidden`, which turns packed tokens into
    the last layer's rows, `head`, the matrix that turns a row into scores, and `new_cache`.
    """

    config: Any
    learns_positions = False  # whether the weights hold a row per position, so that the context cannot change

    def hidden(self, tokens: Tensor, layout: Layout, cache: Any = None) -> Tensor:
        """Run the layers: tokens (rows,) -> (rows, width)."""
        raise TypeError(f"{type(self).__name__} has no layers of its own")

    def head(self) -> Parameter:
        """Return the matrix (vocab_size, width) that scores the tokens."""
        raise TypeError(f"{type(self).__name__} has no head of its own")

    def new_cache(self, batch_size: int = 1, max_length: int | None = None) -> Any:
        """Return an empty cache for generating `batch_size` texts of up to `max_length` tokens."""
        raise TypeError(f"{type(self).__name__} has no cache of its own")

    def adopt(self, weights: dict[str, Array]) -> dict[str, Array]:
        """Return published weights under this model's names, without what is no weight; families override it."""
        return weights

    def measurements(self) -> dict[str, Any]:
        """Return what a family wants logged about its last training step, besides the loss; families override it."""
        return {}

    def recompute_layers(self, on: bool = True) -> None:
        """Keep only the layers' inputs for the backward pass and compute the rest again there, or not (see `Layer`)."""
        for _, module in self.named_modules():
            if isinstance(module, Layer):
                module.recomputed = on

    def products_per_token(self, context: int) -> float:
        """Return the multiplications with an addition that one forward pass takes per token, in texts of `context`.

        One per number of each matrix; an embedding is looked up, not multiplied, unless it is the head as well. And
        queries against keys, probabilities against values, of which causality leaves half the context.
        """
        config, head = self.config, self.head()
        tables = [module.weight for _, module in self.named_modules() if isinstance(module, Embedding)]
        looked_up = {id(table) for table in tables if table is not head}
        matrices = sum(math.prod(p.shape) for p in self.parameters() if p.ndim == 2 and id(p) not in looked_up)
        return matrices + 2 * config.num_layers * config.num_heads * config.head_dim * (context / 2)

    def forward(self, tokens: ArrayLike, cache: Any = None) -> Tensor:
        """Score every possible next token at every position.

        Shapes: tokens (B, T) whole numbers -> (B, T, V).  With a cache, the tokens continue the texts it holds.
        Raises InputError for ids out of range or a text longer than the context, ShapeError for other shapes.
        """
        ids = self._check(tokens, cache)
        rows = self._rows(ids, cache)
        return ops.linear(rows, self.head()).reshape(*ids.shape, self.config.vocab_size)

    def loss(self, tokens: ArrayLike, targets: ArrayLike) -> Tensor:
        """Return the average cross-entropy in nats per target; targets of -100 do not count.

        Shapes: tokens (B, T), targets (B, T) whole numbers -> ().
        """
        ids, wanted = self._check(tokens, None), np.asarray(targets)
        if wanted.shape != ids.shape:
            raise ShapeError(f"loss needs one target per token: tokens {ids.shape}, targets {wanted.shape}")
        return ops.linear_cross_entropy(self._rows(ids, None), self.head(), wanted.reshape(-1))

    def save(self, folder: str | Path) -> None:
        """Write config and weights in the published format, so that other programs open the folder as it is.

        Raises RunError if the disk refuses; a file that was there before is then unchanged.
        """
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make the folder {folder}: {error.strerror}") from error
        config = self.config.published() | {"torch_dtype": str(self.head().dtype)}
        ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id") if key in config}
        checkpoint.write_json(folder / "config.json", config)
        checkpoint.write_json(folder / "generation_config.json", ids)
        checkpoint.save_tensors(folder / "model.safetensors", self.state_dict())

    def _rows(self, ids: Array, cache: Any) -> Tensor:
        batch_size, length = ids.shape
        layout = Layout.rectangular(batch_size, length, cache.length if cache is not None else 0)
        rows = self.hidden(Tensor(ids.reshape(-1)), layout, cache)
        if cache is not None:
            cache.advance(length)
        return rows

    def _check(self, tokens: ArrayLike, cache: Any) -> Array:
        ids = np.asarray(tokens.data if isinstance(tokens, Tensor) else tokens)
        if ids.ndim != 2:
            raise ShapeError(f"a model takes tokens of shape (batch, time), not {ids.shape}; wrap one text as [ids]")
        if ids.dtype.kind not in "iu":
            raise InputError(f"tokens are whole numbers, not {ids.dtype}")
        past, limit = (cache.length if cache is not None else 0), self.config.context_length
        if past + ids.shape[1] > limit:
            raise InputError(
                f"{past + ids.shape[1]} tokens are more than the model's context of {limit}; "
                "shorten the text, or build the model with a larger context_length"
            )
        if cache is not None:
            cache.check_room(*ids.shape)
        return ids
