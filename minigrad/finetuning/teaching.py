"""Lessons in place of a text: what they must offer, and the guest that attaches them to a run."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from minigrad.data.tokens.source import Source
from minigrad.nn.language_model import LanguageModel
from minigrad.training.run import Finding, Guest, Note, Run


class Reward(NamedTuple):
    """The rewards of the answers of one step: their mean, and whether any answer was better than another one."""

    mean: float
    differs: bool


class Lessons(Source, Protocol):
    """The data that teaches a trained model, in place of a text."""

    def summary(self) -> str:
        """Describe the data, in words."""

    def fingerprint(self) -> str:
        """Return a hash of everything that is taught."""

    @property
    def reward(self) -> Reward | None:
        """The rewards of the last step, if answers are rewarded."""

    @property
    def teacher(self) -> LanguageModel | None:
        """The frozen model that reads every batch too, if there is one."""

    def begin(self, run: Run) -> None:
        """Take the model of a run; note in its folder how well it does before the first step, unless that is known."""

    def examine(self, run: Run) -> Finding:
        """Compare the model after the last step with the model before the first."""


class Teaching(Guest):
    """The guest that begins lessons, tells their rewards, and examines the model in the end."""

    def __init__(self, lessons: Lessons) -> None:
        self.lessons = lessons

    def begin(self, run: Run) -> None:
        """Begin the lessons."""
        self.lessons.begin(run)

    def note(self, run: Run) -> Note:
        """Return the mean reward of the answers, if there is one."""
        if (reward := self.lessons.reward) is None:
            return Note({})
        equal = "" if reward.differs else ": all answers to a question are equally good, so no weight changes"
        return Note({"reward": reward.mean}, [f"reward: {reward.mean:.2f} on average{equal}"])

    def examine(self, run: Run) -> Finding:
        """Compare what the model knows with what it knew before the first step."""
        return self.lessons.examine(run)
