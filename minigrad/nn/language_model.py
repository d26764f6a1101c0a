"""The base of all language models: tokens in, logits of the next token out."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from minigrad import ops
from minigrad.autograd.graph import is_recording, no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.constants import IGNORE
from minigrad.errors import InputError, RunError, ShapeError
from minigrad.formats.json_files import write_json
from minigrad.formats.safetensors import save_tensors
from minigrad.nn.cache import Cache, KeyValueCache, refuse_gradient
from minigrad.nn.checkpointing import CheckpointedLayer
from minigrad.nn.config import ModelConfig
from minigrad.nn.layers import Embedding
from minigrad.nn.layout import Layout
from minigrad.nn.loss_pass import LossPass, computing
from minigrad.nn.module import Module
from minigrad.nn.panels import Panel
from minigrad.nn.parameter import Parameter
from minigrad.nn.programs import Program, Register
from minigrad.nn.trace import Trace
from minigrad.typing import Array, Teaching


class LanguageModel(Module):
    """The base class of every model family.

    A family sets `config` and, if the head is not the embedding, `lm_head`. It implements `embedding`, and `hidden`,
    which computes the rows of the last layer from packed tokens.
    """

    config: ModelConfig
    lm_head: Embedding | None = None
    learns_positions = False  # whether the weights contain a row per position, so that the context cannot change
    published_prefix = ""  # what published names have before the names of the weights
    shifts_keys = False  # whether half of each key is that of the token before, see `ops.key_shift`
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

    def named_tables(self) -> dict[str, Embedding]:
        """Return the modules of `tables` by name."""
        modules, tables = self.named_modules(), self.tables()
        return {name: table for name, module in modules for table in tables if module is table}

    def logits(self, rows: Tensor) -> Tensor:
        """Return the logits of rows of the last layer: (rows, width) -> (rows, V)."""
        return self.tables()[-1].logits(rows)

    def factors(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the two factors of the logits of rows of the last layer, for losses that never hold all logits."""
        return self.tables()[-1].factors(rows)

    def new_cache(self, batch_size: int = 1, max_length: int | None = None) -> Cache:
        """Return an empty cache for `batch_size` sequences of up to `max_length` tokens (by default the context)."""
        config, dtype = self.config, self.head().dtype
        length = config.context_length if max_length is None else max_length
        shape = config.num_layers, batch_size, length, config.num_kv_heads, config.head_dim
        return KeyValueCache(*shape, dtype, key_shift=self.shifts_keys)

    def write_program(self, program: Program) -> Register | None:
        """Describe the pass over one token as a program; return the register of the last norm.

        None, if the family has no such program: then the model itself is called to write.
        """
        return None

    def rename_weights(self, weights: dict[str, Array]) -> dict[str, Array]:
        """Return published weights under this model's names, without entries that are not weights."""
        return weights

    def active_parameters(self) -> int:
        """Return the number of parameters that take part in the computation of one token."""
        idle = (parameter for _, module in self.named_modules() for parameter in module.idle())
        return self.num_parameters() - sum(math.prod(parameter.shape) for parameter in idle)

    def measurements(self) -> dict[str, list[float]]:
        """Return what to log about the last training step in addition to the loss: the figures of all modules.

        Numbers of the same name become one list; of lists, each module's has its number in its name.
        """
        found: dict[str, list[Any]] = {}
        for _, module in self.named_modules():
            for name, value in module.figures().items():
                found.setdefault(name, []).append(value)
        numbers = {name: values for name, values in found.items() if not isinstance(values[0], list)}
        lists = {name: values for name, values in found.items() if name not in numbers}
        return numbers | {f"{name}_{index}": each for name, many in lists.items() for index, each in enumerate(many)}

    def panels(self, trace: Trace) -> list[Panel]:
        """Return what only this family can show of a text that it read, given its trace with all gates."""
        return []

    def recompute_layers(self, on: bool = True) -> None:
        """Switch activation checkpointing of the layers on or off (see `CheckpointedLayer`)."""
        for _, module in self.named_modules():
            if isinstance(module, CheckpointedLayer):
                module.recomputed = on

    def macs_per_token(self, context: float) -> float:
        """Return the multiply-adds of one forward pass per token, in sequences of `context` tokens.

        Each element of a matrix counts one, unless it is idle; an embedding counts none unless it is the head as well,
        because its rows are looked up. Attention adds queries times keys and probabilities times values, over half the
        context on average, because a token attends only to earlier ones.
        """
        config, head = self.config, self.head()
        tables = [module.weight for _, module in self.named_modules() if isinstance(module, Embedding)]
        unused = {id(table) for table in tables if table is not head}
        unused |= {id(parameter) for _, module in self.named_modules() for parameter in module.idle()}
        matrices = sum(math.prod(p.shape) for p in self.parameters() if p.ndim == 2 and id(p) not in unused)
        return matrices + 2 * config.num_layers * config.num_heads * config.head_dim * (context / 2)

    def forward(
        self,
        tokens: ArrayLike | Tensor,
        cache: Cache | None = None,
        *,
        layout: Layout | None = None,
        last: int | None = None,
    ) -> Tensor:
        """Return the logits of the next token at every position, or only at the `last` n of them.

        Shapes: tokens (B, T) integers -> (B, T, V), or (B, n, V): generation needs the logits of one position of
        a prompt; the logits of all would take more time than a layer.  With a cache, the tokens continue its sequences;
        backward() is then refused with a GraphError, because a cache stores no gradients.  With a layout, sequences of
        any lengths are packed one after the other: tokens (rows,) -> (rows, V), or (sequences with rows, n, V). With
        both, the layout says how many of the rows continue which sequence of the cache, some perhaps none; their
        positions follow from the cache.
        Raises InputError for ids out of range or more tokens than the context, ShapeError for other shapes.
        """
        ids, layout = self.check_tokens(tokens, cache, layout)
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
        teaching: Teaching | None = None,
    ) -> Tensor:
        """Return the mean cross-entropy in nats per target; targets of -100 do not count.

        In training mode, the losses that modules add are part of it; `added_loss` is then their sum.

        With `weights`, of the shape of the targets, the loss of each target is multiplied by its weight; the sum is
        divided by the number of targets all the same. With `teaching` it is the loss of a student (see
        `ops.linear_distillation`).
        Shapes: tokens (B, T), targets (B, T) integers -> (); with a layout, tokens (rows,), targets (rows,) -> ().
        Raises ShapeError if these differ, InputError for ids or targets out of range.

        >>> import models
        >>> model = models.build("vidya-v2", size="nano")
        >>> packed = model.loss([5, 6, 7, 8, 9], [6, 7, -100, 9, 10], layout=Layout.packed([3, 2]))
        >>> padded = model.loss([[5, 6, 7], [8, 9, 0]], [[6, 7, -100], [9, 10, -100]])
        >>> abs(packed.item() - padded.item()) < 1e-5
        True
        """
        ids, labels, layout = self._checked(tokens, targets, layout)
        flat = labels.reshape(-1)
        current = LossPass(layout, flat != IGNORE) if self.training else None
        with computing(current):
            rows = self._rows(ids, layout, None)
        by_row = None if weights is None else np.asarray(weights, rows.dtype)
        if by_row is not None and by_row.shape != labels.shape:
            raise ShapeError(f"a loss needs one weight per target: targets {labels.shape}, weights {by_row.shape}")
        by_row = None if by_row is None else by_row.reshape(-1)
        if teaching is not None:
            loss = ops.linear_distillation(*self.factors(rows), flat, by_row, teaching=teaching)
        else:
            loss = ops.linear_cross_entropy(*self.factors(rows), flat, by_row)
        self.added_loss = 0.0
        for added in current.added if current else ():
            loss, self.added_loss = loss + added, self.added_loss + float(added.item())
        return loss

    def losses(self, tokens: ArrayLike | Tensor, targets: ArrayLike, *, layout: Layout | None = None) -> Tensor:
        """Return the cross-entropy of each target in nats, 0 where it is -100.

        Shapes and errors: like `loss`, but the result has the shape of the targets.
        """
        ids, labels, layout = self._checked(tokens, targets, layout)
        losses = ops.linear_losses(*self.factors(self._rows(ids, layout, None)), labels.reshape(-1))
        return losses.reshape(*labels.shape)

    def _checked(
        self, tokens: ArrayLike | Tensor, targets: ArrayLike, layout: Layout | None
    ) -> tuple[Array, Array, Layout]:
        ids, layout = self.check_tokens(tokens, None, layout)
        labels = np.asarray(targets)
        if labels.shape != ids.shape:
            raise ShapeError(f"a loss needs one target per token: tokens {ids.shape}, targets {labels.shape}")
        return ids, labels, layout

    def save(self, folder: str | Path, weights: Mapping[str, Array] | None = None) -> None:
        """Write config and weights in the published format, so that other programs can open the folder.

        With `weights`, these are written in the place of the model's own, by the same names.
        Raises RunError if writing fails; a file that existed before is then unchanged. Raises InputError if a module
        cannot be saved in this format (see `Module.config_entries`).
        """
        config = self.config.published() | {"torch_dtype": str(self.head().dtype)}
        for _, module in self.named_modules():
            config |= module.config_entries()
        folder = Path(folder)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(f"cannot make the folder {folder}: {error.strerror}") from error
        ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id") if key in config}
        write_json(folder / "config.json", config)
        write_json(folder / "generation_config.json", ids)
        if weights is None:
            stored = ((name, parameter.stored()) for name, parameter in self.named_parameters())
            weights = {name + suffix: array for name, arrays in stored for suffix, array in arrays.items()}
        save_tensors(folder / "model.safetensors", weights)

    def _rows(self, ids: Array, layout: Layout, cache: Cache | None) -> Tensor:
        if cache is None:
            return self.hidden(Tensor(ids.reshape(-1)), layout)
        with no_grad():  # no graph is needed, and a layer that is recomputed must not store its keys twice
            rows = self.hidden(Tensor(ids.reshape(-1)), layout, cache)
        cache.advance(layout.lengths)
        return refuse_gradient(rows, *self.parameters()) if is_recording() else rows

    def check_tokens(
        self, tokens: ArrayLike | Tensor, cache: Cache | None, layout: Layout | None = None
    ) -> tuple[Array, Layout]:
        """Return the ids as an array, and their layout: the given one, or that of a rectangular batch.

        With a cache, positions are those after its tokens.
        Raises InputError or ShapeError if the model cannot take them.
        """
        ids = np.asarray(tokens.data if isinstance(tokens, Tensor) else tokens)
        if layout is not None and ids.shape != layout.positions.shape:
            raise ShapeError(f"a layout of {len(layout.positions)} rows needs as many tokens (rows,), not {ids.shape}")
        if layout is None and ids.ndim != 2:
            raise ShapeError(
                f"a model takes tokens of shape (batch, time), not {ids.shape}; wrap one sequence as [ids]"
            )
        if ids.dtype.kind not in "iu":
            raise InputError(f"tokens are integers, not {ids.dtype}")
        layout = layout or Layout.rectangular(*ids.shape)
        if cache is not None:
            layout = _continued(layout, cache)
        longest = int(layout.positions.max(initial=-1)) + 1
        if longest > self.config.context_length:
            raise InputError(
                f"{longest} tokens are more than the model's context of {self.config.context_length}; "
                "shorten the sequence, or build the model with a larger context_length"
            )
        return ids, layout


def _continued(layout: Layout, cache: Cache) -> Layout:
    """Return a layout of new tokens with their positions after those in a cache; raises InputError for no room."""
    cache.check_capacity(layout.lengths)
    return Layout.packed(layout.lengths, past=cache.lengths)
