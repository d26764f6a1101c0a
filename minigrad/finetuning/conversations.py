"""Conversations from files, in one of three forms, with errors that name the line.

    {"messages": [{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello."}]}    JSON, one a line;
                     with "reworded": ["Hello!", "Hey."], other words for the last question, which are never taught

    <|user|> Hi! <|assistant|> Hello. <|user|> ...                 the lines of Vidya, one conversation each

    Q: What is a tuple?                                             a book: questions and answers,
    A: A sequence that cannot be changed.                           each pair a conversation

The markers of a line are cut out before anything is encoded: what the model reads are special tokens, given by id.
"""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from minigrad.data.text_files import is_json_lines, open_text, text_in
from minigrad.errors import InputError
from minigrad.formats.json_files import parse_object
from minigrad.options import shown, unknown
from minigrad.system.files import reason

ROLES = ("system", "user", "assistant")
FORMS = (
    'lines {"messages": [{"role": "user", "content": "..."}, ...]}, lines '
    "<|user|> ... <|assistant|> ..., or a book of questions and answers, Q: ... and A: ..."
)

Message = Mapping[str, str]

_MARKER = re.compile(r"<\|(user|assistant|system)\|>")
_PAIR = re.compile(r"(Q|A):[ \t]*")


@dataclass(frozen=True)
class Conversation:
    """Messages with their roles, at least one of them an answer."""

    messages: tuple[Message, ...]
    place: str  # where they were written
    reworded: tuple[str, ...] = ()  # other words for the last question: was the answer learned, or the words?

    def checked(self) -> Self:
        """Return the conversation; raises InputError, with its place, if it cannot be taught."""
        if problem := _problem(self.messages):
            raise InputError(f"{self.place}: {problem}")
        return self


Lines = Sequence[tuple[str, str]]  # each with its place


def conversations_in(path: str | Path) -> list[Callable[[], Conversation]]:
    """Return a function for each conversation in a file, so that a reader may skip broken ones.

    Each function raises InputError, with line and reason, for a conversation that cannot be taught. Raises InputError
    if the file cannot be read, is empty, is in none of the three forms (the first line decides), or is a book whose Q:
    and A: do not take turns.
    """
    name = Path(path)
    every = _lines(name)
    if not (lines := _filled(every)):
        raise InputError(f"{name} holds no conversation; expected {FORMS}")
    place, first = lines[0]
    if is_json_lines(name.name) or first.lstrip().startswith("{"):
        return [functools.partial(_of_object, *line) for line in lines]
    if _MARKER.match(first.lstrip()):
        return [functools.partial(_of_marked_line, *line) for line in lines]
    if _PAIR.match(first):
        return [conversation.checked for conversation in _of_book(every[every.index(lines[0]) :])]
    raise InputError(f"{place} begins no conversation ({shown(first)}); expected {FORMS}")


def _lines(path: Path) -> Lines:
    """Return the lines of a file, each with its place."""
    try:
        with open_text(path) as file:
            text = text_in(file, str(path))
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}.") from error
    numbered = enumerate(text.split("\n"), start=1)
    return [(f"{path}, line {number:,}", line) for number, line in numbered]


def _filled(lines: Lines) -> Lines:
    """Return the lines that are not blank."""
    return [(place, line) for place, line in lines if line.strip()]


def _of_object(place: str, line: str) -> Conversation:
    record = _json_object(place, line)
    reworded = record.get("reworded", [])
    if not isinstance(reworded, list) or not all(isinstance(each, str) and each.strip() for each in reworded):
        raise InputError(f'{place}: "reworded" is {shown(reworded)}; expected other words for the last question')
    return Conversation(messages_in(record, place), place, tuple(reworded)).checked()


def json_objects(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the objects in a file of JSON lines, each with its place; raises InputError for a line that is not one."""
    for place, line in _filled(_lines(path)):
        yield place, _json_object(place, line)


def _json_object(place: str, line: str) -> dict[str, Any]:
    try:
        return parse_object(line.encode())
    except InputError as error:
        raise InputError(f"{place} is not a JSON object: {error}") from None


def messages_in(record: dict[str, Any], place: str) -> tuple[Message, ...]:
    """Return the messages of an object; raises InputError if it has none."""
    messages = record.get("messages")
    if not isinstance(messages, list) or not all(map(_is_message, messages)):
        raise InputError(
            f'{place} has no messages (its field "messages" is {shown(messages)}): expected '
            '{"messages": [{"role": "user", "content": "..."}, {"role": "assistant", "content": "..."}]}'
        )
    return tuple({"role": each["role"], "content": each["content"]} for each in messages)


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(value.get("role"), str) and isinstance(value.get("content"), str)


def _of_marked_line(place: str, line: str) -> Conversation:
    before, *parts = _MARKER.split(line)
    if before.strip() or not parts:
        raise InputError(f"{place} does not begin with <|user|>: {shown(line)}")
    pairs = zip(parts[::2], parts[1::2], strict=True)
    messages = tuple({"role": role, "content": content.strip()} for role, content in pairs)
    return Conversation(messages, place).checked()


def _of_book(lines: Lines) -> Iterator[Conversation]:
    """Join the lines of each question and of each answer; a line without Q: or A: continues the one before it.

    Lines that continue keep their indentation, but for what all of them have; blank lines between them stay.
    """
    pairs: list[tuple[str, dict[str, list[str]]]] = []  # the place, and the lines of question and answer
    speaks = ""
    for place, line in lines:
        if (begun := _PAIR.match(line)) is None:
            pairs[-1][1][speaks].append(line)
            continue
        if begun[1] == (speaks or "A"):
            expected = "Q:" if begun[1] == "A" else f"A:, the answer to {pairs[-1][0]},"
            raise InputError(f"{place} is {shown(line)}, where {expected} is expected")
        speaks = begun[1]
        if speaks == "Q":
            pairs.append((place, {"Q": [], "A": []}))
        pairs[-1][1][speaks].append(line[begun.end() :].strip())
    for place, spoken in pairs:
        asked, said = (_joined(*spoken[speaker]) for speaker in "QA")
        messages = {"role": "user", "content": asked}, {"role": "assistant", "content": said}
        yield Conversation(messages, place)


def _joined(first: str = "", *later: str) -> str:
    return "\n".join([first, textwrap.dedent("\n".join(map(str.rstrip, later)))]).strip("\n")


def _problem(messages: tuple[Message, ...]) -> str:
    """Return the fault in the messages of a conversation, or "" if they can be taught."""
    for number, (before, message) in enumerate(zip(("", *(each["role"] for each in messages)), messages, strict=False)):
        role, which = message["role"], f"message {number + 1}"
        if role not in ROLES:
            return f"{which}: {unknown('role', role, ROLES)}"
        if not message["content"].strip():
            return f"{which}, of the {role}, is empty"
        if role == before:
            return f"{which} is a second one of the {role} in a row; join the two"
        if role == "system" and number:
            return f"{which} is of the system, which speaks only at the beginning"
        if role == "assistant" and before != "user":
            return f"{which} is an answer, and no question stands before it"
    return "" if any(each["role"] == "assistant" for each in messages) else "it has no answer to learn"
