"""Language models whose layers are in a row: each gets the rows that the one before it returned, and nothing else."""

from __future__ import annotations

from typing import Any

from minigrad.autograd.tensor import Tensor
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout


class LayeredModel(LanguageModel):
    """The base of families that can be cut between any two layers, and so be divided among processes.

    A family implements `enter`, `pass_layer` and `leave`; `hidden` is all of them, one after the other.
    """

    def enter(self, tokens: Tensor, layout: Layout) -> Tensor:
        """Return what the first layer gets: tokens (rows,) -> (rows, width)."""
        raise TypeError(f"{type(self).__name__} has no embedding of its own")

    def pass_layer(self, index: int, x: Tensor, layout: Layout, cache: Any = None) -> Tensor:
        """Pass rows (rows, width) through the layer of this number."""
        raise TypeError(f"{type(self).__name__} has no layers of its own")

    def leave(self, x: Tensor) -> Tensor:
        """Return what the head gets of what the last layer returned (rows, width)."""
        raise TypeError(f"{type(self).__name__} has no last norm of its own")

    def hidden(self, tokens: Tensor, layout: Layout, cache: Any = None) -> Tensor:
        """Run the layers: tokens (rows,) -> (rows, width)."""
        x = self.enter(tokens, layout)
        for index in range(self.config.num_layers):
            x = self.pass_layer(index, x, layout, cache)
        return self.leave(x)
