"""A conversation with a model: messages in, answers out, and commands between them."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from minigrad.errors import InputError
from minigrad.formats.json_files import add_line, check_lines
from minigrad.generation.commands import messages
from minigrad.generation.continuation import Token
from minigrad.system.signals import stop_requests

HELP = (
    "/reset begins anew, /save FILE keeps the conversation, /exit ends it; Ctrl-C ends an answer; "
    "a line that ends with \\ continues"
)
_INTERRUPTED = "interrupted"
_CUT = {
    "length": "it reached --tokens",
    _INTERRUPTED: "Ctrl-C was pressed; pressed again now, it ends the conversation",
}
DEFAULT_FILE = "conversation.jsonl"


@dataclass
class Chat:
    """The loop of `generate.py --chat`.

    `encode` returns the token ids of messages and of the beginning of an answer; `answer` returns the tokens of an
    answer, given token ids and the number of the turn, from 0; `tell` prints a remark. Of a conversation of more than
    `room` tokens the oldest messages are left out, but never the newest, which may be longer by itself. Ctrl-C ends an
    answer after its current token; the text so far stays in the conversation.
    """

    encode: Callable[[Sequence[dict[str, str]]], list[int]]
    room: int
    answer: Callable[[list[int], int], Iterable[Token]]
    tell: Callable[[str], None]
    messages: list[dict[str, str]] = field(default_factory=list)
    turn: int = 0
    _left_out: int = 0

    def add(self, role: str, content: str) -> None:
        """Add a message to the conversation."""
        self.messages.append({"role": role, "content": content})

    def ids(self) -> tuple[list[int], int]:
        """Return the token ids to read and the number of messages left out; the newest message always stays."""
        kept = self.messages
        while True:
            ids = self.encode(kept)
            if len(ids) <= self.room or len(kept) == 1:
                return ids, len(self.messages) - len(kept)
            kept = kept[2:]  # without the oldest question and its answer

    def save(self, path: Path) -> int:
        """Append the messages to a file of training text, as one line of JSON; return their number.

        An empty answer teaches nothing, so it is left out with its question. Raises OSError if the file cannot be
        written, InputError if it holds something else or there is no answer.
        """
        turns = zip(self.messages[::2], self.messages[1::2], strict=True)
        saved = [message for turn in turns if turn[1]["content"].strip() for message in turn]
        if not saved:
            raise InputError("there is no answer to save yet")
        check_lines(path, "messages")
        add_line(path, json.dumps({"messages": saved}, ensure_ascii=False))
        return len(saved)

    def run(self, inputs: Iterable[str]) -> Iterator[str]:
        """Yield the text of the answers in parts, and obey commands, until one ends the conversation."""
        for text in messages(inputs, HELP, self.tell, {"/reset": self._reset, "/save": self._save_in}):
            if text.strip():
                yield from self._reply(text)

    def _reply(self, text: str) -> Iterator[str]:
        self.add("user", text)
        ids, left_out = self.ids()
        if left_out > self._left_out:
            fit = f"the {self.room:,} tokens that fit beside an answer"
            self.tell(f"the conversation takes more than {fit}: its first {left_out} messages are left out")
        if len(ids) > self.room:
            fits = f"more than the {self.room:,} that fit beside an answer"
            self.tell(f"the message takes {len(ids):,} tokens, {fits}: the model may not see all of it")
        self._left_out = left_out
        parts, ended = list[str](), ""
        with stop_requests([signal.SIGINT]) as request:
            for token in self.answer(ids, self.turn):
                parts.append(token.text)
                ended = token.ended or (_INTERRUPTED if request.code else "")
                yield token.text + "\n" if ended else token.text
                if ended == _INTERRUPTED:
                    break
        if ended in _CUT:
            self.tell(f"the answer was cut: {_CUT[ended]}")
        self.add("assistant", "".join(parts))
        self.turn += 1

    def _reset(self, _: str) -> None:
        self.messages.clear()
        self._left_out = 0
        self.tell("the conversation begins anew")

    def _save_in(self, name: str) -> None:
        path = Path(os.path.expanduser(name or DEFAULT_FILE))  # noqa: PTH111  (leaves the name of an unknown user)
        try:
            self.tell(f"saved {self.save(path)} messages as a line of {path}")
        except InputError as error:
            self.tell(str(error))
        except (OSError, ValueError) as error:  # an impossible name is a ValueError
            self.tell(f"cannot write {path}: {getattr(error, 'strerror', None) or error}")
