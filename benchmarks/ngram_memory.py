"""What does nano gain from tables of n-grams? A hash of the last tokens indexes a table, whose row is added.

The row is added to the embedding, or to the values of the first and the last layer, times a vector that is learned.
Tables begin at zero. Only the rows of a step are updated, by AdaGrad with one sum of squares a row (Duchi et al. 2011);
the rest is a run of train.py on one thread, without dropout. Checkpoints and generation do not include the tables: this
script measures whether they are worth building in.

    python train.py --size nano --steps 1 --out runs/tokenizer          (the tokenizer of all runs)
    python benchmarks/ngram_memory.py runs/tokenizer runs/memory --where embedding --orders 2 --rows 65536 --seed 0
    python benchmarks/ngram_memory.py runs/tokenizer runs/none --where none --seed 0
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

sys.path.insert(0, str(Path(__file__).parent.parent))

from minigrad import nn, ops
from minigrad.autograd.graph import is_recording
from minigrad.autograd.tensor import Tensor
from minigrad.nn.parameter import Init, Parameter
from minigrad.training.run import Guest, Run
from minigrad.typing import Array
from models import registry
from models.vidya_v2 import VidyaV2, VidyaV2Config
from train import TrainConfig, train

_ODD = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9], np.uint64)  # large odd numbers
_MIX, _LAST = np.uint64(0xFF51AFD7ED558CCD), np.uint64(0xC4CEB9FE1A85EC53)


def keys_of(tokens: Array, layout: nn.Layout, order: int, rows: int) -> Array:
    """Return the row of the n-gram that ends at each token; `rows`, which stays zero, where it would cross a text."""
    ids = tokens.astype(np.uint64) + np.uint64(1)
    key = ids * _ODD[0]
    for back in range(1, order):
        before = np.zeros_like(ids)
        before[back:] = ids[:-back]
        key ^= (before * _ODD[back]) ^ (before >> np.uint64(3))
        key *= _MIX
    key = (key ^ (key >> np.uint64(33))) * _LAST
    found = ((key ^ (key >> np.uint64(33))) % np.uint64(rows)).astype(np.int64)
    found[layout.positions < order - 1] = rows
    return found


class Table:
    """Rows that are looked up, and updated alone."""

    def __init__(self, rows: int, width: int) -> None:
        self.values, self.squares = np.zeros((rows + 1, width), np.float32), np.zeros(rows + 1, np.float32)
        self.read: list[tuple[Array, Tensor]] = []  # in this step

    def look_up(self, keys: Array) -> Tensor:
        """Return the rows of keys (tokens,), (tokens, width)."""
        rows = Tensor(self.values[keys], requires_grad=is_recording())
        if is_recording():
            self.read.append((keys, rows))
        return rows

    def update(self, learning_rate: float) -> None:
        """Move each row that was read against its gradient, divided by the root of its sum of mean squares."""
        for keys, rows in self.read:
            touched, places = np.unique(keys, return_inverse=True)
            gradient = np.zeros((len(touched), self.values.shape[1]), np.float32)
            np.add.at(gradient, places, np.asarray(rows.grad))
            gradient[touched == len(self.values) - 1] = 0  # that which stays zero
            self.squares[touched] += (gradient * gradient).mean(axis=1)
            self.values[touched] -= learning_rate * gradient / (np.sqrt(self.squares[touched])[:, None] + 1e-12)
        self.read.clear()


class Remembered(nn.Module):
    """The rows of the n-grams that the model reads, one table for each order, each times a learned vector."""

    def __init__(self, width: int, asked: argparse.Namespace) -> None:
        self.factors = [Factor(width, asked.begin) for _ in asked.orders]
        self.tables, self.dropped = [Table(asked.rows, width) for _ in asked.orders], asked.drop
        self.draws = np.random.default_rng(asked.seed + 77)

    def forward(self, keys: list[Array]) -> Tensor:
        """Return the sum of the rows; in training those of some tokens are dropped."""
        found = []
        for table, factor, each in zip(self.tables, self.factors, keys, strict=True):
            rows = table.look_up(each)
            if self.training and self.dropped:
                kept = self.draws.random((len(each), 1)) >= self.dropped
                rows = rows * Tensor(kept.astype(np.float32) / (1 - self.dropped))
            found.append(rows * factor.weight)
        return functools.reduce(ops.add, found)


class Factor(nn.Module):
    """A learned vector."""

    def __init__(self, width: int, begin: float) -> None:
        self.weight = Parameter((width,), Init(mean=begin))


class Values(nn.Wrapper):
    """The projection to values, to which the rows of the n-grams are added."""

    keys: list[Array]

    def __init__(self, inner: nn.Linear, asked: argparse.Namespace) -> None:
        super().__init__(inner)
        self.weight, self.remembered = inner.weight, Remembered(inner.weight.shape[0], asked)

    def forward(self, x: Tensor) -> Tensor:
        """Add the rows to the values."""
        return self.inner(x) + self.remembered(self.keys)


class Remembering(VidyaV2):
    """vidya-v2 with tables of n-grams."""

    asked: argparse.Namespace  # what the command line says

    def __init__(self, config: VidyaV2Config) -> None:
        super().__init__(config)
        asked, self.values = self.asked, []
        self.remembered = Remembered(config.width, asked) if asked.where == "embedding" else None
        for layer in (self.model.layers[0], self.model.layers[-1]) if asked.where == "values" else ():
            layer.self_attn.v_proj = Values(layer.self_attn.v_proj, asked)
            self.values.append(layer.self_attn.v_proj)

    def hidden(self, tokens: Tensor, layout: nn.Layout, cache: Any = None) -> Tensor:
        """Run the layers with the rows of the n-grams."""
        keys = [keys_of(tokens.data, layout, order, self.asked.rows) for order in self.asked.orders]
        for each in self.values:
            each.keys = keys
        x, body = self.model.embed_tokens(tokens), self.model
        if self.remembered is not None:
            x = x + self.remembered(keys)
        x = body.embedding_dropout(x)
        for index, layer in enumerate(body.layers):
            x = layer(x, layout, self._angles, cache, index)
        return body.norm(x)


class Updates(Guest):
    """The updates of the tables, at the learning rate of the step."""

    rate = 0.0

    def before_step(self, run: Run) -> None:
        """Note the learning rate."""
        self.rate = run.learning_rate()

    def after_step(self, run: Run, norm: float) -> None:
        """Update the rows that the step read."""
        for _, module in run.model.named_modules():
            for table in module.tables if isinstance(module, Remembered) else ():
                table.update(self.rate)


def main() -> None:
    """Train once; print what the model reaches on the validation text."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tokenizer", help="a run folder with the tokenizer")
    parser.add_argument("out")
    parser.add_argument("--where", choices=("none", "embedding", "values"), default="embedding")
    parser.add_argument("--orders", type=int, nargs="+", choices=(2, 3), default=[2])
    parser.add_argument("--rows", type=int, default=65_536)
    parser.add_argument("--drop", type=float, default=0.0, help="probability of dropping the row of a token")
    parser.add_argument("--begin", type=float, default=1.0, help="of the learned vectors")
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", default="python-docs")
    asked = parser.parse_args()
    family = registry.FAMILIES["vidya-v2"]
    Remembering.asked = asked
    registry.FAMILIES["vidya-v2"] = family if asked.where == "none" else family._replace(model=Remembering)
    never, held_out = 10**8, None if asked.data == "python-docs" else "python-docs"
    result = train(
        TrainConfig(
            size="nano",
            data=asked.data,
            held_out=held_out,
            tokenizer=asked.tokenizer,
            steps=asked.steps,
            seed=asked.seed,
            threads=1,
            dropout=0.0,
            precision="float32",
            out=asked.out,
            set="value_residual=false",  # `Remembering` has none, and the arms are to differ by the tables alone
            save_every=never,
            eval_every=200,
            sample_every=never,
        ),
        guests=[Updates()],
    )
    assert result is not None
    print(describe_machine())
    print(json.dumps(vars(asked) | {"bits_per_byte": result.val_bits_per_byte, "seconds": result.seconds}))


if __name__ == "__main__":
    main()
