"""Losses that modules add to the loss of their model, such as a price on the size of their outputs.

A module adds one in its `forward`, while the model computes its loss in training mode:

    if (current := loss_pass()) is not None:
        current.add(0.01 * (x * x).mean())
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from minigrad.autograd.tensor import Tensor
from minigrad.nn.layout import Layout
from minigrad.typing import Array


@dataclass
class LossPass:
    """The computation of one loss: its rows, and what modules have added to it so far."""

    layout: Layout
    counted: Array  # (rows,): which rows have a target
    added: list[Tensor] = field(default_factory=list)

    def add(self, loss: Tensor) -> None:
        """Add a loss, a tensor of shape (), to that of the model; it is not part of the loss that is reported."""
        self.added.append(loss)


class _Current(threading.local):
    value: LossPass | None = None


_current = _Current()


def loss_pass() -> LossPass | None:
    """Return the loss that the model computes in this thread; None in evaluation mode, and outside `model.loss`."""
    return _current.value


@contextlib.contextmanager
def computing(new: LossPass | None) -> Iterator[None]:
    """Let `loss_pass` return a pass inside the block."""
    before, _current.value = _current.value, new
    try:
        yield
    finally:
        _current.value = before
