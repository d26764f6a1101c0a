"""The console of generate.py: prompts and messages in; texts, their speed and their probabilities out."""

from __future__ import annotations

import contextlib
import io
import os
import re
import stat
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from minigrad.errors import InputError
from minigrad.system.terminal import say

if TYPE_CHECKING:  # the command line is read before NumPy is imported
    from minigrad.generation.continuation import Token
    from minigrad.typing import Tokenizer

STANDARD_INPUT = "-"

_END = "Ctrl-Z and Enter" if os.name == "nt" else "Ctrl-D"


def read_prompts(given: Sequence[str]) -> tuple[str, ...]:
    """Return the `given` prompts, with the text of standard input in the place of "-".

    Without a prompt, a pipe or a file on standard input is one, as in `echo Once | generate.py RUN`; otherwise the
    prompt is empty. Raises InputError if standard input is closed or named twice.
    """
    if not given:
        return (_read_standard_input() if _is_piped() else "",)
    if given.count(STANDARD_INPUT) > 1:
        raise InputError(f"standard input holds one prompt: give --prompt {STANDARD_INPUT} once")
    return tuple(_read_standard_input() if each == STANDARD_INPUT else each for each in given)


def check_text(flag: str, given: Sequence[str]) -> None:
    """Raise InputError if a value of a flag is not UTF-8 text."""
    for each in given:
        if wrong := re.search("[\ud800-\udfff]", each):  # Python's form of a byte that is not part of a character
            place = f"its character {wrong.start() + 1:,} is 0x{ord(wrong[0]) & 0xFF:02x}"
            raise InputError(f"--{flag} is not UTF-8 text: {place}")


def read_messages() -> Iterator[str]:
    """Yield the messages of standard input, one a line; a line that ends with \\ continues in the next.

    A terminal shows where to type. Raises InputError if a pipe or a file is not UTF-8 text.
    """
    message = ""
    for line in _typed_lines() if is_terminal() else _piped_lines():
        message += line
        if message.endswith("\\"):
            message = message[:-1] + "\n"
        else:
            yield message
            message = ""
    if message:
        yield message.removesuffix("\n")


def _typed_lines() -> Iterator[str]:
    """Yield the lines typed in a terminal, until its end."""
    with contextlib.suppress(ImportError):
        import readline  # noqa: F401  (its import lets `input` edit lines and remember them)
    if isinstance(sys.stdin, io.TextIOWrapper):  # a byte that is not UTF-8 must not end the conversation
        with contextlib.suppress(io.UnsupportedOperation):  # a caller has read from it
            sys.stdin.reconfigure(errors="surrogateescape")
    while True:
        if not sys.stdout.isatty():  # the answers go elsewhere, without the prompt sign
            say("> ", sys.stderr, end="")
        try:
            line = input("> " if sys.stdout.isatty() else "")
        except EOFError:
            say(stream=sys.stderr)
            return
        yield line.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _piped_lines() -> Iterator[str]:
    """Yield the lines of a pipe or a file as they arrive; none without standard input."""
    if sys.stdin is None or sys.stdin.closed:
        return
    for number, data in enumerate(sys.stdin.buffer, start=1):
        try:
            yield data.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
        except UnicodeDecodeError as error:
            raise InputError(f"standard input is not UTF-8 text: line {number:,}, {_broken(data, error)}") from None


def is_terminal() -> bool:
    """Whether standard input is a terminal."""
    return sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()


def _is_piped() -> bool:
    """Whether standard input is a pipe or a file, and not a terminal, a null device, or nothing."""
    try:
        mode = os.fstat(sys.stdin.fileno()).st_mode
    except (AttributeError, OSError, ValueError):  # closed, or replaced by an object that is not a file
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISREG(mode)


def _read_standard_input() -> str:
    """Return the text of standard input without its last line break, which `echo` and editors add."""
    if sys.stdin is None or sys.stdin.closed:
        raise InputError("there is no standard input to read the prompt from")
    if sys.stdin.isatty():
        say(f"[type the prompt, then end it with {_END} on a line of its own]", sys.stderr)
    data = sys.stdin.buffer.read()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"standard input is not UTF-8 text: its {_broken(data, error)}") from None
    return text.replace("\r\n", "\n").removesuffix("\n")


def _broken(data: bytes, error: UnicodeDecodeError) -> str:
    """Return which byte is broken; Python counts from after a byte order mark, which it removes first."""
    place = len(data) - len(error.object) + error.start
    return f"byte {place + 1:,} is 0x{data[place]:02x}"


def in_turn(tokens: Iterable[Token], samples: int) -> Iterator[tuple[int, str, bool]]:
    """Yield (number, text, whether it ends), all of one text before the next, even though they are written together.

    Texts are numbered in the order of their prompts, with `samples` of each. The first is shown as it is written; each
    other waits for the one before.
    """
    shown, waiting, ended = 0, dict[int, list[str]](), set[int]()
    for token in tokens:
        number = token.prompt * samples + token.sample
        waiting.setdefault(number, []).append(token.text)
        if token.ended:
            ended.add(number)
        while shown in waiting:
            yield shown, "".join(waiting.pop(shown)), shown in ended
            if shown not in ended:
                break
            shown += 1


def alternatives(tokens: Iterable[Token], tokenizer: Tokenizer) -> str:
    """Return a table of the tokens and the most likely ones in their places, with their log-probabilities.

    A model may have more rows than its tokenizer has tokens: these have no text.
    """
    lines, before = list[str](), None
    for token in sorted(tokens, key=lambda token: (token.prompt, token.sample, token.position)):
        text = token.prompt, token.sample
        if before not in (None, text):
            lines.append("---")
        before = text
        pairs = [(int(token), token.log_probability or 0.0), *token.alternatives]
        named = [(_text_of(each, tokenizer), chance) for each, chance in pairs]
        lines.append("   ".join(f"{chance:7.3f} {text!r:<12}" for text, chance in named).rstrip())
    return "\n".join(lines)


def _text_of(token: int, tokenizer: Tokenizer) -> str:
    return tokenizer.decode_bytes([token]).decode("utf-8", "replace") if token < tokenizer.vocab_size else ""


class Speed:
    """The speed of generation: the time until the first tokens, then tokens per second."""

    def __init__(self) -> None:
        self.started = self.first = self.newest = time.perf_counter()
        self.count = self.firsts = self.texts = self.drafted = 0
        self.contexts = list[str]()  # of the first text
        self._watched: tuple[int, int] | None = None
        self._context = 0

    def note(self, token: Token) -> None:
        """Count a token that has just arrived."""
        self.newest = time.perf_counter()
        if token.position == 0 and self.firsts == self.count:
            self.first, self.firsts = self.newest, self.firsts + 1
        self.count, self.texts = self.count + 1, self.texts + bool(token.ended)
        self.drafted += token.drafted
        text, context = (token.prompt, token.sample), token.context or 0
        self._watched = self._watched or text
        if text == self._watched and context not in (0, self._context):
            self.contexts.append(f"{context:,} from token {token.position:,} on")
            self._context = context

    def summary(self) -> str:
        """Return the measured speed as a sentence, or "" where each text has one token."""
        if self.count == self.firsts or self.newest == self.first:
            return ""
        rate = (self.count - self.firsts) / (self.newest - self.first)
        texts = f"{self.texts:,} texts, " if self.texts > 1 else ""
        drafted = f"; {self.drafted / self.count:.0%} of them proposed by the draft" if self.drafted else ""
        which = "context of the first" if self.texts > 1 else "context"
        drafted += f"; {which}: {', '.join(self.contexts)}" if self.contexts else ""
        wait = self.first - self.started
        return f"{texts}{self.count:,} tokens, {rate:,.0f} tokens/s, after {wait:.2f} s for the first{drafted}"
