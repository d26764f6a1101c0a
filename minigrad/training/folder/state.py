"""The state of a run in a checkpoint, beside weights and moments: what the next step and the next line depend on."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from minigrad.errors import InputError
from minigrad.evaluate.losses import bits_per_byte
from minigrad.formats.typed import read_dataclass
from minigrad.options import REQUIRED, option
from minigrad.training.folder.checkpoint import Checkpoint
from minigrad.typing import PathLike


@dataclass
class Totals:
    """Sums over the steps since the last line of metrics: losses in nats, bytes of the targets, mean losses."""

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


@dataclass(frozen=True)
class Sample:
    """A text that the model generated, and the step after which it did."""

    step: int = option(REQUIRED, "the number of steps taken", at_least=0)
    text: str = option(REQUIRED, "the prompt and its continuation")


@dataclass(frozen=True)
class Best:
    """The evaluation with the lowest loss so far.

    A small text that is read many times is memorised: from some step on the model gets worse on text that it has not
    read, and the last model is not the best.
    """

    step: int = option(REQUIRED, "the number of steps taken", at_least=0)
    bits_per_byte: float = option(REQUIRED, "of the validation text that is read during training")


@dataclass(frozen=True)
class State:
    """The content of state.json, but for the states of guests."""

    updates: int = option(REQUIRED, "updates that AdamW has made", at_least=0, at_most=10**15)
    seconds: float = option(REQUIRED, "used so far by all processes of the run", at_least=0, at_most=1e12)
    since_logged: Totals = field(default_factory=Totals)
    samples: list[Sample] = field(default_factory=list)
    best: Best | None = None  # the best evaluation, if there was one

    def as_dict(self, guests: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the state for a checkpoint, with the states of guests by their names."""
        state = dataclasses.asdict(self)
        best = state.pop("best")
        return state | dict(guests or {}) | ({} if best is None else {"best": best})

    @classmethod
    def read(cls, saved: Checkpoint, folder: PathLike, guests: Collection[str] | None = None) -> State:
        """Return the state of a checkpoint in a run folder.

        Raises InputError if a value is missing or damaged, or if there is a state of a guest other than `guests`; by
        default any guest may have one.
        """
        ours = {each.name for each in dataclasses.fields(cls)}
        others = saved.state.keys() - ours if guests is None else set(guests)
        values = {name: value for name, value in saved.state.items() if name not in others}
        try:
            return read_dataclass(cls, {"best": None} | values, complete=True)
        except InputError as error:
            raise InputError(f"state.json of step {saved.step} in {folder} is damaged: {error}") from None
