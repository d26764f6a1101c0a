"""Sums over the steps since the last line of metrics."""

from __future__ import annotations

from dataclasses import dataclass

from minigrad.evaluate.losses import bits_per_byte
from minigrad.options import option


@dataclass
class Totals:
    """Sums over training steps: losses in nats, the bytes of the targets, and the mean loss of each step."""

    nats: float = option(0.0, "losses of all targets; below 0 where some count against, as answers without a reward do")
    bytes: float = option(0.0, "bytes of the text of all targets", at_least=0)
    loss: float = option(0.0, "mean losses of the steps")
    steps: float = option(0.0, "steps", at_least=0)

    def add_step(self, nats: float, num_bytes: float, loss: float) -> None:
        """Add the sums of one step; `loss` is its mean loss in nats per token."""
        self.nats += nats
        self.bytes += num_bytes
        self.loss += loss
        self.steps += 1

    @property
    def mean_loss(self) -> float:
        """The mean over the steps, in nats per token."""
        return self.loss / self.steps

    @property
    def bits_per_byte(self) -> float:
        """The loss over these steps in bits per byte of the text."""
        return bits_per_byte(self.nats, self.bytes)
