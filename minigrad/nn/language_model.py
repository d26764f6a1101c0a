"""The base of all language models: tokens in, logits of the next token out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minigrad import ops
from minigrad.autograd.graph import is_recording, no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.constants import IGNORE
from minigrad.errors import InputError
from minigrad.formats.huggingface import write_folder
from minigrad.formats.weights import rename_published
from minigrad.nn.cache import KeyValueCache, refuse_gradient
from minigrad.nn.checkpointing import CheckpointedLayer
from minigrad.nn.config import ModelConfig
from minigrad.nn.inputs import check_target_weights, check_targets, check_tokens
from minigrad.nn.layers import Embedding
from minigrad.nn.layout import Layout
from minigrad.nn.loss_pass import LossPass, computing
from minigrad.nn.module import Module, arrays_of, entries_of
from minigrad.nn.parameter import Parameter
from minigrad.typing import Array


class LanguageModel(Module):
    """The base class of every model family.

    A family sets `config` and, if the head is not the embedding, `lm_head`; it implements `embedding` and `hidden`.
    """

    config: ModelConfig
    lm_head: Embedding | None = None
    learns_positions = False  # whether the weights contain a row per position, so that the context cannot change
    published_prefix = ""  # what published names have before the names of the weights
    can_generate = True  # whether a text can be continued: no layer needs the whole of it at once
    shifts_keys = False  # whether half of each key is that of the token before, see `ops.key_shift`
    cache_format = "float32"  # of keys and values in new caches, one of `minigrad.kernels.decoding.kept.FORMATS`
    end_ids: tuple[int, ...] = ()  # tokens that end a text beside the end_of_text_id of the config
    added_loss = 0.0  # the part of the last loss that modules added (see `minigrad.nn.loss_pass`)

    def embedding(self) -> Embedding:
        """Return the embedding module."""
        raise TypeError(f"{type(self).__name__} has no embedding of its own")

    def hidden(self, tokens: Tensor, layout: Layout, cache: Any = None) -> Tensor:
        """Run the layers: tokens (rows,) -> (rows, width)."""
        raise TypeError(f"{type(self).__name__} has no layers of its own")

    def head(self) -> Parameter:
        """Return the matrix (vocab_size, width) that computes logits: the embedding unless there is an `lm_head`."""
        return self.tables()[-1].weight

    def tables(self) -> list[Embedding]:
        """Return the modules whose matrix has a row for each token: the embedding, and last the one of the logits."""
        return [self.embedding()] if self.lm_head is None else [self.embedding(), self.lm_head]

    def logits(self, rows: Tensor) -> Tensor:
        """Return the logits of rows of the last layer: (rows, width) -> (rows, V)."""
        return self.tables()[-1].logits(rows)

    def new_cache(self, batch_size: int = 1, max_length: int | None = None) -> KeyValueCache:
        """Return an empty cache for `batch_size` sequences of up to `max_length` tokens (by default the context).

        Keys and values are kept in the `cache_format` of the model.  Raises InputError for sizes below 1.
        """
        config, length = self.config, self.config.context_length if max_length is None else max_length
        shape = config.num_layers, batch_size, length, config.num_kv_heads, config.head_dim
        return KeyValueCache(*shape, self.head().dtype, key_shift=self.shifts_keys).in_format(self.cache_format)

    def rename_weights(self, weights: dict[str, Array]) -> dict[str, Array]:
        """Return published weights under this model's names, without entries that are not weights."""
        return rename_published(weights, self.published_prefix, dict(self.named_parameters()))

    def measurements(self) -> dict[str, list[float]]:
        """Return what to log about the last training pass beside the loss: the figures of all modules, in order.

        Numbers of the same name become one list. Lists stay separate, and the number of the module is added to the
        name.
        """
        found: dict[str, list[Any]] = {}
        for _, module in self.named_modules():
            for name, value in module.figures().items():
                found.setdefault(name, []).append(value)
        numbers = {name: values for name, values in found.items() if not isinstance(values[0], list)}
        lists = {name: values for name, values in found.items() if name not in numbers}
        return numbers | {f"{name}_{index}": each for name, many in lists.items() for index, each in enumerate(many)}

    def recompute_layers(self, on: bool = True) -> None:
        """Switch activation checkpointing of the layers on or off (see `CheckpointedLayer`)."""
        for _, module in self.named_modules():
            if isinstance(module, CheckpointedLayer):
                module.recomputed = on

    def macs_per_token(self, context: float) -> float:
        """Return the multiply-adds of one forward pass per token, in sequences of `context` tokens.

        Each element of a matrix counts one, unless it is idle, or an embedding's that is only looked up. Attention adds
        queries times keys and probabilities times values, over the half of the context that a token sees on average.
        """
        config = self.config
        matrices = sum(each.size for each in self.multiplied())
        return matrices + 2 * config.num_layers * config.num_heads * config.head_dim * (context / 2)

    def multiplied(self) -> list[Parameter]:
        """Return the matrices by which a token's row is multiplied: none that is idle or only looked up."""
        head = self.head()
        tables = [module.weight for _, module in self.named_modules() if isinstance(module, Embedding)]
        unused = {id(each) for each in [*(table for table in tables if table is not head), *self.all_idle()]}
        return [each for each in self.parameters() if each.ndim == 2 and id(each) not in unused]

    def forward(
        self,
        tokens: ArrayLike | Tensor,
        cache: KeyValueCache | None = None,
        *,
        layout: Layout | None = None,
        last: int | None = None,
    ) -> Tensor:
        """Return the logits of the next token at every position, or only at the `last` n, as generation needs them.

        Shapes: tokens (B, T) integers -> (B, T, V), or (B, n, V).  With a cache, the tokens continue its sequences, and
        backward() raises GraphError.  With a layout, sequences of any lengths are packed one after the other: tokens
        (rows,) -> (rows, V), or (sequences with rows, n, V); with both, it says how many rows continue each sequence.
        Raises InputError for ids out of range or more tokens than the context, ShapeError for other shapes.
        """
        ids, layout = check_tokens(tokens, self.config.context_length, cache, layout)
        ends, lengths = layout.offsets[1:][layout.lengths > 0], layout.lengths[layout.lengths > 0]
        most = int(lengths.min(initial=ids.shape[-1]))
        if last is not None and not 0 <= last <= most:
            raise InputError(f"last takes a whole number from 0 to {most}, the number of positions, not {last}")
        rows, shape = self._rows(ids, layout, cache), ids.shape
        if last is not None:
            rows, shape = rows[(ends[:, None] - np.arange(last, 0, -1)).reshape(-1)], (len(ends), last)
        return self.logits(rows).reshape(*shape, self.config.vocab_size)

    def loss(
        self,
        tokens: ArrayLike | Tensor,
        targets: ArrayLike,
        *,
        layout: Layout | None = None,
        weights: ArrayLike | None = None,
        objective: Callable[..., Tensor] | None = None,
    ) -> Tensor:
        """Return the mean cross-entropy in nats per target, or another `objective`; targets of -100 do not count.

        In training mode, the losses that modules add are part of it; `added_loss` is then their sum. With `weights`, of
        the shape of the targets, the loss of each is multiplied by its own; the sum is still divided by their number.
        Shapes: tokens (B, T), targets (B, T) integers -> (); with a layout, tokens (rows,), targets (rows,) -> ().
        Raises ShapeError if these differ, InputError for ids or targets out of range.
        """
        ids, layout = check_tokens(tokens, self.config.context_length, layout=layout)
        labels = check_targets(targets, ids)
        by_target, flat = check_target_weights(weights, labels), labels.reshape(-1)
        current = LossPass(layout, flat != IGNORE) if self.training else None
        with computing(current):
            x, head = self.tables()[-1].factors(self._rows(ids, layout, None))
        loss, self.added_loss = (objective or ops.linear_cross_entropy)(x, head, flat, by_target), 0.0
        for added in current.added if current else ():
            loss, self.added_loss = loss + added, self.added_loss + float(added.item())
        return loss

    def losses(self, tokens: ArrayLike | Tensor, targets: ArrayLike, *, layout: Layout | None = None) -> Tensor:
        """Return the cross-entropy of each target in nats, in their shape; 0 where it is -100.  Errors: as `loss`."""
        ids, layout = check_tokens(tokens, self.config.context_length, layout=layout)
        labels = check_targets(targets, ids)
        x, head = self.tables()[-1].factors(self._rows(ids, layout, None))
        return ops.linear_losses(x, head, labels.reshape(-1)).reshape(*labels.shape)

    def save(self, folder: str | Path, weights: Mapping[str, Array] | None = None) -> None:
        """Write config and weights in the published format, so that other programs can open the folder.

        With `weights`, these are written in the place of the model's own, by the same names. Raises RunError if writing
        fails, InputError if a module cannot be saved in this format (see `Module.config_entries`).
        """
        config = self.config.published() | {"torch_dtype": str(self.head().dtype)} | entries_of(self)
        write_folder(Path(folder), config, arrays_of(self) if weights is None else weights, self.end_ids)

    def _rows(self, ids: Tensor, layout: Layout, cache: KeyValueCache | None) -> Tensor:
        if cache is None:
            return self.hidden(ids.reshape(-1), layout)
        with no_grad():  # no graph is needed, and a layer that is recomputed must not store its keys twice
            rows = self.hidden(ids.reshape(-1), layout, cache)
        cache.advance(layout.lengths)
        return refuse_gradient(rows, *self.parameters()) if is_recording() else rows
