"""A teacher at the keyboard: the model offers answers, the person takes one or types a better one, a journal keeps it.

The journal is a file of conversations, one a line, to train on later (`--objective sft --data journal.jsonl`). The
weights are not changed right after each choice: the author of Vidya tried eight variants of that, and all failed ("Why
RL broke at 50M", 2026), while the curated answers, trained on as a book, were learned.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from minigrad.errors import RunError
from minigrad.formats.json_files import add_line, check_lines
from minigrad.generation.commands import messages
from minigrad.system.files import reason
from minigrad.system.units import plural

HELP = (
    "type a question; then the number of the best answer, or a better answer (=7 if that is a number); an empty line "
    "skips, /exit ends"
)


class Journal:
    """A file to which lines are only ever added; added lines survive a crash."""

    def __init__(self, path: Path) -> None:
        """Raise InputError if the file is not a journal, or cannot become one."""
        check_lines(path, "messages")
        self.path = path

    def add(self, question: str, answer: str, offered: Sequence[str]) -> None:
        """Add a conversation, and the answers among which it was chosen, on a line of its own; raises RunError."""
        messages = [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        try:
            add_line(self.path, json.dumps({"messages": messages, "offered": list(offered)}, ensure_ascii=False))
        except OSError as error:
            raise RunError(f"cannot write {self.path}: {reason(error)}") from error


@dataclass(frozen=True)
class TeachingSession:
    """The loop of `generate.py --teach`: each question is a conversation of its own, as earlier ones distract."""

    journal: Journal
    offer: Callable[[str, int], Iterable[str]]  # returns answers to a question, given its number, from 0
    fits: Callable[[str, str], bool]  # whether the context has room for a question and an answer
    tell: Callable[[str], None]  # prints a remark

    def run(self, inputs: Iterable[str]) -> Iterator[str]:
        """Yield the text to show; the inputs are a question and a choice in turn, until a command ends them."""
        lines, turn, kept = messages(inputs, HELP, self.tell, {}), 0, 0
        for question in lines:
            if not question.strip():
                continue
            if not self.fits(question, ""):
                self.tell("the question is longer than the context of the model: ask a shorter one")
                continue
            offered = list(dict.fromkeys(text for text in map(str.strip, self.offer(question, turn)) if text))
            yield "".join(f"  {number}  {text}\n" for number, text in enumerate(offered, start=1))
            turn += 1
            if not offered:
                self.tell("the model wrote no answer: type one, or an empty line to leave the question out")
            if answer := self._chosen(question, lines, offered):
                self.journal.add(question.strip(), answer, offered)
                kept += 1
        self.tell(f"{plural(kept, 'answer')} {'was' if kept == 1 else 'were'} added to {self.journal.path}")

    def _chosen(self, question: str, lines: Iterator[str], offered: Sequence[str]) -> str:
        """Return the answer that was picked or typed, or nothing."""
        for line in lines:
            text = line.strip()
            is_number = text.startswith("=") and _number(text[1:]) is not None  # the answer itself is one
            number = None if is_number or not offered else _number(text)
            if number is not None and not 1 <= number <= len(offered):
                self.tell(
                    f"there are answers 1 to {len(offered)}: type one of these numbers, ={text} if {text} itself is "
                    "the answer, or an answer of your own; an empty line leaves the question out"
                )
                continue
            typed = text[1:] if is_number else text
            answer = typed if number is None else offered[number - 1]
            if not answer or self.fits(question, answer):
                return answer
            self.tell("question and answer are longer than the context of the model: give a shorter answer")
        return ""


def _number(text: str) -> int | None:
    """Return the number that was typed, 0 for one of many digits, which Python may refuse to read; None for words."""
    if not text.isdecimal():
        return None
    return int(text) if len(text) < 10 else 0
