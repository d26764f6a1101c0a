"""The examination after teaching: the model answers the taught questions, and reads the validation text again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from minigrad.evaluate.answers import Answered, Judge, Question, ask, share_exact
from minigrad.evaluate.losses import evaluate
from minigrad.pages.page import escape
from minigrad.system.terminal import say
from minigrad.training.run import Finding, Run
from minigrad.training.validation import evaluate as evaluate_run

_MOST_SHOWN = 40  # questions in the report


def measure_text_before(run: Run, **figures: float) -> None:
    """Note in minigrad.json how well the model knows the validation text before the first step, beside other figures.
    Known figures stay.
    """
    if run.step or run.folder.record.before:
        return
    score = evaluate(run.model, run.validation, run.text.byte_lengths, context=run.settings.context)
    run.folder.record.before = {"bits_per_byte": score.bits_per_byte} | figures
    run.folder.write()
    say(_verdict("before", run.folder.record.before))


def measure_before(run: Run, questions: Sequence[Question], judge: Judge | None = None) -> None:
    """Note in minigrad.json how well the model does before the first step, unless that is known."""
    if not run.step and not run.folder.record.before:
        measure_text_before(run, recall=share_exact(ask(run.model, run.text.tokenizer, questions, judge)))


def examine(
    run: Run,
    questions: Sequence[Question],
    asked: str,
    reworded: Sequence[Question] = (),
    judge: Judge | None = None,
) -> Finding:
    """Ask again, and compare with the measurement before the first step; `asked` says what the answers are.

    `reworded` are lessons with their questions in other words, which were not taught.
    """
    recalled = ask(run.model, run.text.tokenizer, questions, judge)
    recall, before = share_exact(recalled), run.folder.record.before
    how = "token for token" if judge is None else "as they must be to be rewarded"
    figures = {"recall": recall}
    learned = (
        f"{round(recall * len(recalled)):,} of {len(recalled):,} {asked} are answered {how} "
        f"({100 * recall:.0f}%; before: {100 * before['recall']:.0f}%), each by the most likely tokens."
    )
    table = _table("Questions and answers", recalled)
    if reworded:
        again = ask(run.model, run.text.tokenizer, reworded)
        figures["recall_reworded"] = share_exact(again)
        learned += f" Asked in other words, which were not taught, {100 * figures['recall_reworded']:.0f}% are."
        table += _table("Asked in other words", again)
    return with_text(run, learned, table, figures)


def _table(title: str, recalled: Sequence[Answered]) -> str:
    shown = sorted(recalled, key=lambda each: each.exact)[:_MOST_SHOWN]
    rows = (f"<tr><td>{_cell(each.question)}<td>{_cell(each.expected)}<td>{_cell(each.said)}" for each in shown)
    return (
        f"<h2>{title}</h2><p>{len(shown)} of {len(recalled)}; other answers than the taught "
        "ones come first.</p><table><tr><th>question<th>taught<th>what it says</tr>" + "".join(rows) + "</table>"
    )


def with_text(run: Run, learned: str, table: str, figures: dict[str, float]) -> Finding:
    """Return a sentence and a table of HTML on the answers learned, and the loss on validation text."""
    score, before = run.score or evaluate_run(run, everything=True), run.folder.record.before["bits_per_byte"]
    change = f"{100 * (score.bits_per_byte / before - 1):+.1f}%"
    forgotten = (
        f"The validation text of the pre-training took {before:.3f} bits per byte before, and takes "
        f"{score.bits_per_byte:.3f} now ({change}; lower is better)."
    )
    section = f"<h2>What it learned</h2><p>{learned}</p><h2>What it forgot</h2><p>{forgotten}</p>{table}"
    verdict = f"{_verdict('after', figures | {'bits_per_byte': score.bits_per_byte})} ({change})"
    return Finding(section, figures | {"bits_per_byte_before": before}, verdict)


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
