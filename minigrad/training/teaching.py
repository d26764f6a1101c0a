"""The interface of teaching for a run: lessons in place of a text, and an examination at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from minigrad.data.tokens.source import Source

if TYPE_CHECKING:
    from minigrad.nn.language_model import LanguageModel
    from minigrad.training.run import Run


class Taught(NamedTuple):
    """The result of an examination: a section of the report, figures for minigrad.json, and a sentence."""

    section: str
    figures: dict[str, float]
    verdict: str


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

    def examine(self, run: Run) -> Taught:
        """Compare the model after the last step with the model before the first."""
