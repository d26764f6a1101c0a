"""What was learned and what was forgotten: taught questions are asked again, and validation text is read again."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from minigrad.finetuning.encoding import EncodedConversation
from minigrad.generation.decoding import stream
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from minigrad.pages.page import escape
from minigrad.system.terminal import say
from minigrad.training.evaluate import evaluate
from minigrad.training.run import Run
from minigrad.training.teaching import Taught
from minigrad.typing import Tokenizer

_MOST_ASKED = 500  # questions; of more, some are taken evenly over the lessons
_MOST_SHOWN = 40  # in the report
_TOGETHER = 64  # questions that are answered at once


Judge = Callable[[EncodedConversation, list[int]], bool]
"""Says whether the tokens that the model wrote are the answer to a lesson, which is then called exact."""


class Recalled(NamedTuple):
    """A taught question asked again: what was taught, what the model says, and whether it is the same."""

    question: str
    taught: str
    said: str
    exact: bool


def ask_again(
    model: LanguageModel, tokenizer: Tokenizer, lessons: Sequence[EncodedConversation], judge: Judge | None = None
) -> list[Recalled]:
    """Ask for the answers of the lessons, each after the messages before it, and take the most likely token each time.

    An answer is exact if it has the same tokens, the token that ends it included; or if a judge, who judges the last
    answer of a lesson, says so.
    """
    asked = [(lesson, place, begin, end) for lesson in lessons for place, (begin, end) in enumerate(lesson.answers)]
    count = min(len(asked), _MOST_ASKED)
    asked = [asked[number * len(asked) // count] for number in range(count)]
    asked.sort(key=lambda each: each[3] - each[2])  # answers of one length are written together
    found = []
    for first in range(0, count, _TOGETHER):
        group = asked[first : first + _TOGETHER]
        said: list[list[int]] = [[] for _ in group]
        longest = max(end - begin for _, _, begin, end in group)
        prompts = [lesson.tokens[:begin] for lesson, _, begin, _ in group]
        space = judge is not None  # a right answer may begin with one
        greedy = Sampling(temperature=0, top_p=None, tokens=longest + space)
        for token in stream(model, prompts, greedy, tokenizer=tokenizer):
            said[token.prompt].append(int(token))
        for (lesson, place, begin, end), ids in zip(group, said, strict=True):
            question, taught = _texts(lesson, place - len(lesson.answers))
            exact = ids == lesson.tokens[begin:end] if judge is None else judge(lesson, ids)
            found.append(Recalled(question, taught, tokenizer.decode(ids), exact))
    return found


def _texts(lesson: EncodedConversation, place: int) -> tuple[str, str]:
    """Return the question and the taught text of an answer, given its number from the end, -1 for the last one."""
    messages = lesson.conversation.messages
    number = [number for number, message in enumerate(messages) if message["role"] == "assistant"][place]
    return messages[number - 1]["content"], messages[number]["content"]


def share_of_exact(recalled: Sequence[Recalled]) -> float:
    """Return the share of the questions whose answer is exact."""
    return sum(each.exact for each in recalled) / max(len(recalled), 1)


def measure_text_before(run: Run, **figures: float) -> None:
    """Note in minigrad.json how well the model knows the validation text before the first step, beside other figures.

    What is known already stays.
    """
    if run.step or run.folder.record.before:
        return
    score = evaluate(run.model, run.validation, run.text.byte_lengths, context=run.settings.context)
    run.folder.record.before = {"bits_per_byte": score.bits_per_byte} | figures
    run.folder.write()
    say(_verdict("before", run.folder.record.before))


def measure_before(run: Run, lessons: Sequence[EncodedConversation], judge: Judge | None = None) -> None:
    """Note in minigrad.json how well the model does before the first step, unless that is known."""
    if not run.step and not run.folder.record.before:
        measure_text_before(run, recall=share_of_exact(ask_again(run.model, run.text.tokenizer, lessons, judge)))


def examine(
    run: Run,
    lessons: Sequence[EncodedConversation],
    asked: str,
    reworded: Sequence[EncodedConversation] = (),
    judge: Judge | None = None,
) -> Taught:
    """Ask again, and compare with what was measured before the first step; `asked` says what the answers are.

    `reworded` are lessons with their questions in other words, which were not taught.
    """
    recalled = ask_again(run.model, run.text.tokenizer, lessons, judge)
    recall, before = share_of_exact(recalled), run.folder.record.before
    how = "token for token" if judge is None else "as they must be to be rewarded"
    figures = {"recall": recall}
    learned = (
        f"{round(recall * len(recalled)):,} of {len(recalled):,} {asked} are answered {how} "
        f"({100 * recall:.0f}%; before: {100 * before['recall']:.0f}%), each by the most likely tokens."
    )
    table = _table("Questions and answers", recalled)
    if reworded:
        again = ask_again(run.model, run.text.tokenizer, reworded)
        figures["recall_reworded"] = share_of_exact(again)
        learned += f" Asked in other words, which were not taught, {100 * figures['recall_reworded']:.0f}% are."
        table += _table("Asked in other words", again)
    return with_text(run, learned, table, figures)


def _table(title: str, recalled: Sequence[Recalled]) -> str:
    shown = sorted(recalled, key=lambda each: each.exact)[:_MOST_SHOWN]
    rows = (f"<tr><td>{_cell(each.question)}<td>{_cell(each.taught)}<td>{_cell(each.said)}" for each in shown)
    return (
        f"<h2>{title}</h2><p>{len(shown)} of {len(recalled)}; those that it answers otherwise "
        "come first.</p><table><tr><th>question<th>taught<th>what it says</tr>" + "".join(rows) + "</table>"
    )


def with_text(run: Run, learned: str, table: str, figures: dict[str, float]) -> Taught:
    """Return what was learned, a sentence and a table of HTML, with what was forgotten of the validation text."""
    score, before = run.score or run.evaluate(everything=True), run.folder.record.before["bits_per_byte"]
    change = f"{100 * (score.bits_per_byte / before - 1):+.1f}%"
    forgotten = (
        f"The validation text of the pre-training took {before:.3f} bits per byte before, and takes "
        f"{score.bits_per_byte:.3f} now ({change}; lower is better)."
    )
    section = f"<h2>What it learned</h2><p>{learned}</p><h2>What it forgot</h2><p>{forgotten}</p>{table}"
    verdict = f"{_verdict('after', figures | {'bits_per_byte': score.bits_per_byte})} ({change})"
    return Taught(section, figures | {"bits_per_byte_before": before}, verdict)


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
