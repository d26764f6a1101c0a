"""Lessons in place of a text: what they offer, and the guest that attaches them to a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from minigrad.data.tokens.source import Source
from minigrad.evaluate import losses
from minigrad.evaluate.answers import Answered, Judge, Question, ask
from minigrad.finetuning.encoding import ChatForm
from minigrad.nn.language_model import LanguageModel
from minigrad.training.run import Finding, Guest, Note, Run
from minigrad.training.validation import evaluate
from minigrad.typing import Tokenizer


@dataclass(frozen=True)
class Student:
    """A model that is taught, with its tokenizer; `bits_per_byte` measures any model on the validation text."""

    model: LanguageModel
    tokenizer: Tokenizer
    bits_per_byte: Callable[[LanguageModel], float]

    def ask(self, questions: Sequence[Question], judge: Judge | None = None) -> list[Answered]:
        """Return the answers of the model."""
        return ask(self.model, self.tokenizer, questions, judge)


class Reward(NamedTuple):
    """The rewards of the answers of one step: their mean, and whether the answers to any question differ."""

    mean: float
    differs: bool


class Lessons(Source, Protocol):
    """What a model is taught in place of a text."""

    @property
    def form(self) -> ChatForm | None:
        """The form of the conversations, which the run folder keeps; None if none are taught."""

    @property
    def reward(self) -> Reward | None:
        """The rewards of the last step, if answers are rewarded."""

    @property
    def teacher(self) -> LanguageModel | None:
        """The frozen model that reads every batch too, if there is one."""

    def summary(self) -> str:
        """Describe the lessons, in words."""

    def fingerprint(self) -> str:
        """Return a hash of all lessons."""

    def begin(self, model: LanguageModel) -> None:
        """Prepare to teach a model, before the first step of a process."""

    def measure(self, student: Student) -> dict[str, float]:
        """Measure the student before the first step of the run."""

    def examine(self, student: Student, before: Mapping[str, float], bits_per_byte: float) -> Finding:
        """Compare the student with the measurements before; `bits_per_byte` is its own on the validation text now."""


class Teaching(Guest):
    """The guest that begins lessons, reports their rewards, and examines the model in the end."""

    def __init__(self, lessons: Lessons) -> None:
        self.lessons = lessons

    def begin(self, run: Run) -> None:
        """Begin the lessons; before the first step, note in minigrad.json how well the model does."""
        record, form = run.folder.record, self.lessons.form
        self.lessons.begin(run.model)
        if form is not None and run.world.rank == 0:
            form.save(run.folder.path)
        if not run.step and not record.before:
            record.before = self.lessons.measure(_student(run))
            run.folder.write()

    def note(self, run: Run) -> Note:
        """Return the mean reward of the answers, if there is one."""
        if (reward := self.lessons.reward) is None:
            return Note({})
        equal = "" if reward.differs else ": all answers to a question are equally good, so no weight changes"
        return Note({"reward": reward.mean}, [f"reward: {reward.mean:.2f} on average{equal}"])

    def examine(self, run: Run) -> Finding:
        """Compare the model with the measurements before the first step."""
        score = run.score or evaluate(run, everything=True)
        return self.lessons.examine(_student(run), run.folder.record.before, score.bits_per_byte)


def _student(run: Run) -> Student:
    def bits_per_byte(model: LanguageModel) -> float:
        text = run.validation, run.text.byte_lengths
        return losses.evaluate(model, *text, context=run.settings.context).bits_per_byte

    return Student(run.model, run.text.tokenizer, bits_per_byte)
