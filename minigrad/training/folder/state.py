"""The state of a run in a checkpoint, beside weights and moments: what the next step and the next line depend on."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from minigrad.adaptive.context import AdaptiveContext
from minigrad.errors import InputError
from minigrad.formats.typed import read_dataclass
from minigrad.options import REQUIRED, option
from minigrad.training.best import Best
from minigrad.training.folder.checkpoint import Checkpoint
from minigrad.training.totals import Totals
from minigrad.typing import PathLike


@dataclass(frozen=True)
class Sample:
    """A text that the model generated, and the step after which it did."""

    step: int = option(REQUIRED, "the number of steps taken", at_least=0)
    text: str = option(REQUIRED, "the prompt and its continuation")


@dataclass(frozen=True)
class State:
    """The content of state.json."""

    updates: int = option(REQUIRED, "updates that AdamW has made", at_least=0, at_most=10**15)
    seconds: float = option(REQUIRED, "used so far by all processes of the run", at_least=0, at_most=1e12)
    since_logged: Totals = field(default_factory=Totals)
    samples: list[Sample] = field(default_factory=list)
    context: AdaptiveContext | None = None  # of a run whose context adapts
    best: Best | None = None  # the best evaluation, if there was one

    def as_dict(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        state = dataclasses.asdict(self)
        return {name: value for name, value in state.items() if value is not None}

    @classmethod
    def read(cls, saved: Checkpoint, folder: PathLike) -> State:
        """Return the state of a checkpoint in a run folder; raises InputError if a value is missing or damaged."""
        try:
            return read_dataclass(cls, {"context": None, "best": None} | saved.state, complete=True)
        except InputError as error:
            raise InputError(f"state.json of step {saved.step} in {folder} is damaged: {error}") from None
