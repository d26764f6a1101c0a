"""What was learned and what was forgotten: figures, a sentence and a section of the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from minigrad.evaluate.answers import Answered, Judge, Question, share_exact
from minigrad.finetuning.teaching import Student
from minigrad.pages.page import escape
from minigrad.system.terminal import say
from minigrad.training.run import Finding

_MOST_SHOWN = 40  # questions in the report


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
    *,
    questions: Sequence[Question],
    asked: str,
    reworded: Sequence[Question] = (),
    judge: Judge | None = None,
) -> Finding:
    """Ask the questions again and compare with the answers before the first step; `asked` names the answers.

    `reworded` are the questions in other words, which were not taught.
    """
    answered = student.ask(questions, judge)
    recall = share_exact(answered)
    how = "token for token" if judge is None else "as they must be to be rewarded"
    figures = {"recall": recall}
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
        f"The validation text of the pre-training took {before:.3f} bits per byte before, and takes "
        f"{now:.3f} now ({change}; lower is better)."
    )
    section = f"<h2>What it learned</h2><p>{learned}</p><h2>What it forgot</h2><p>{forgotten}</p>{table}"
    verdict = f"{_verdict('after', figures | {'bits_per_byte': now})} ({change})"
    return Finding(section, figures | {"bits_per_byte_before": before}, verdict)


def _table(title: str, answered: Sequence[Answered]) -> str:
    shown = sorted(answered, key=lambda each: each.exact)[:_MOST_SHOWN]
    rows = (f"<tr><td>{_cell(each.question)}<td>{_cell(each.expected)}<td>{_cell(each.said)}" for each in shown)
    return (
        f"<h2>{title}</h2><p>{len(shown)} of {len(answered)}; different answers "
        "come first.</p><table><tr><th>question<th>taught<th>what it says</tr>" + "".join(rows) + "</table>"
    )


def _verdict(when: str, figures: Mapping[str, float]) -> str:
    """Return the figures in words, those of the text last."""
    words: dict[str, Callable[[float], str]] = {
        "recall": lambda share: f"{100 * share:.1f}% of the answers exact",
        "recall_reworded": lambda share: f"{100 * share:.1f}% to reworded questions",
        "preferred": lambda share: f"{100 * share:.1f}% of the pairs further apart",
        "margin": lambda nats: f"by {nats:.2f} nats",
        "bits_per_byte": lambda bits: f"validation text {bits:.3f} bits per byte",
    }
    return f"{when} the lessons: " + ", ".join(words[name](figures[name]) for name in words if name in figures)


def _cell(text: str) -> str:
    return escape(text).replace("\n", "<br>")
