"""Lessons in place of a text: what they offer, their guest in a run, and what was learned and what was forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from minigrad.errors import InputError
from minigrad.evaluate import losses
from minigrad.evaluate.answers import Answered, Judge, Question, ask, share_exact
from minigrad.finetuning.encoding import TaughtForm, end_of_answers
from minigrad.formats.folders import RECORD
from minigrad.nn.language_model import LanguageModel
from minigrad.pages.page import escape
from minigrad.system.terminal import say
from minigrad.training.planning.plan import Taught
from minigrad.training.run import Finding, Guest, Note, Run
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
    """The rewards of the answers of one step: their mean, and whether those of any question differ."""

    mean: float
    differs: bool


class Lessons(Taught, Protocol):
    """What a model is taught in place of a text."""

    form: TaughtForm | None = None  # of the conversations, which the run folder keeps
    reward: Reward | None = None  # of the last step, if answers are rewarded
    measured: Sequence[str] = ("bits_per_byte",)  # the names of what `measure` returns

    def fingerprint(self) -> str:
        """Return a hash of all lessons."""

    def begin(self, model: LanguageModel) -> None:
        """Prepare to teach a model, before the first step of a process."""
        return  # nothing, by default

    def measure(self, student: Student) -> dict[str, float]:
        """Measure the student before the first step of the run."""

    def examine(self, student: Student, before: Mapping[str, float], bits_per_byte: float) -> Finding:
        """Compare the student with the measurements before; `bits_per_byte` is its own on the validation text now."""


class Teaching(Guest):
    """The guest that begins lessons, reports their rewards, and examines the model at the end."""

    def __init__(self, lessons: Lessons) -> None:
        self.lessons = lessons

    def begin(self, run: Run) -> None:
        """Begin the lessons; before the first step, note in minigrad.json how well the model does.

        From then on, the model is saved with the token that ends its answers.
        """
        record = run.folder.record
        is_new = not run.step and not record.before
        if not is_new and (missing := [name for name in self.lessons.measured if name not in record.before]):
            raise InputError(
                f"{run.folder.path / RECORD} is damaged: its `before`, how well the model did before it was taught, "
                f"lacks {' and '.join(missing)}; restore the file, or begin the run again"
            )
        if self.lessons.form is not None:
            run.model.end_ids = (end_of_answers(self.lessons.form),)
        self.lessons.begin(run.model)
        if is_new:
            record.before = self.lessons.measure(_student(run))
            run.folder.write()

    def note(self, run: Run) -> Note:
        """Return the mean reward of the answers, if there is one."""
        if (reward := self.lessons.reward) is None:
            return Note({})
        equal = "" if reward.differs else ": for every question all answers are equally good, so no weight changes"
        return Note({"reward": reward.mean}, [f"reward: {reward.mean:.2f} on average{equal}"])

    def examine(self, run: Run) -> Finding:
        """Compare the model with the measurements before the first step."""
        assert run.score is not None  # `finish` evaluates before any guest examines
        return self.lessons.examine(_student(run), run.folder.record.before, run.score.bits_per_byte)


def _student(run: Run) -> Student:
    def bits_per_byte(model: LanguageModel) -> float:
        text = run.validation, run.text.byte_lengths
        return losses.evaluate(model, *text, context=run.settings.context, world=run.world).bits_per_byte

    return Student(run.model, run.text.tokenizer, bits_per_byte)


_MOST_SHOWN = 40  # questions in the report


OF_ANSWERS = ("bits_per_byte", "recall")
"""The names of what `measure_answers` returns."""


def measure(student: Student, **figures: float) -> dict[str, float]:
    """Return figures from before the first step, with those of the validation text, and print them."""
    found = {"bits_per_byte": student.bits_per_byte(student.model)} | figures
    say(_verdict("before", found))
    return found


def measure_answers(student: Student, questions: Sequence[Question], judge: Judge | None = None) -> dict[str, float]:
    """Return and print the figures of `measure`, with the share of the questions answered right."""
    return measure(student, recall=share_exact(student.ask(questions, judge)))


def examine_answers(
    student: Student,
    before: Mapping[str, float],
    bits_per_byte: float,
    questions: Sequence[Question],
    asked: str,
    *,
    reworded: Sequence[Question] = (),
    judge: Judge | None = None,
) -> Finding:
    """Ask the questions again, also `reworded`, and compare with the first answers, which `asked` names."""
    answered = student.ask(questions, judge)
    recall = share_exact(answered)
    how = "token for token" if judge is None else "as they must be to be rewarded"
    figures = {"recall": recall}
    if len(answered) < len(questions):
        asked += f", chosen among {len(questions):,},"
    learned = (
        f"{round(recall * len(answered)):,} of {len(answered):,} {asked} are answered {how} "
        f"({100 * recall:.0f}%; before: {100 * before['recall']:.0f}%), each by the most likely tokens."
    )
    table = _table("Questions and answers", answered)
    if reworded:
        again = student.ask(reworded)
        figures["recall_reworded"] = share_exact(again)
        learned += f" Asked in other words, which were not taught, {100 * figures['recall_reworded']:.0f}% are."
        table += _table("Asked in other words", again)
    return finding(learned, figures, before["bits_per_byte"], bits_per_byte, table)


def finding(learned: str, figures: dict[str, float], before: float, now: float, table: str = "") -> Finding:
    """Return what was learned, with the bits per byte of the validation text before and now."""
    change = f"{100 * (now / before - 1):+.1f}%"
    forgotten = (
        f"The model needed {before:.3f} bits per byte for the validation text of the pre-training before, and needs "
        f"{now:.3f} now ({change}; lower is better)."
    )
    section = f"<h2>What it learned</h2><p>{learned}</p><h2>What it forgot</h2><p>{forgotten}</p>{table}"
    verdict = f"{_verdict('after', figures | {'bits_per_byte': now})} ({change})"
    return Finding(section, figures | {"bits_per_byte_before": before}, verdict)


def _table(title: str, answered: Sequence[Answered]) -> str:
    shown = sorted(answered, key=lambda each: each.exact)[:_MOST_SHOWN]
    lines = ("".join(f"<td>{escape(text)}" for text in each[:3]).replace("\n", "<br>") for each in shown)
    head = f"<h2>{title}</h2><p>{len(shown)} of {len(answered)}; different answers come first.</p>"
    rows = "".join(f"<tr>{line}" for line in lines)
    return f"{head}<table><tr><th>question<th>taught<th>what it says</tr>{rows}</table>"


def _verdict(when: str, figures: Mapping[str, float]) -> str:
    """Return the figures in words, those of the text last."""
    words: dict[str, Callable[[float], str]] = {
        "recall": lambda share: f"{100 * share:.1f}% of the answers exact",
        "recall_reworded": lambda share: f"{100 * share:.1f}% to reworded questions",
        "preferred": lambda share: f"{100 * share:.1f}% of the pairs further apart",
        "margin": lambda nats: f"{nats:+.2f} nats on average",
        "bits_per_byte": lambda bits: f"validation text {bits:.3f} bits per byte",
    }
    return f"{when} the lessons: " + ", ".join(words[name](figures[name]) for name in words if name in figures)
