"""The prompt: from its flag, or from standard input."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from minigrad.errors import InputError
from minigrad.generation.console import check_text, is_terminal, read_messages, read_prompts

ROOT = Path(__file__).parents[2]


def piped(given: tuple[str, ...], data: bytes) -> tuple[str, str]:
    """Return what a process reads from a pipe, or the error that it prints."""
    script = (
        "import sys\nfrom minigrad.errors import InputError\nfrom minigrad.generation.console import read_prompts\n"
        f"try: sys.stdout.buffer.write('|'.join(read_prompts({given!r})).encode())\n"
        "except InputError as error: sys.exit(str(error))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, input=data, capture_output=True, check=False)
    return done.stdout.decode(), done.stderr.decode()


def test_a_prompt_that_is_given_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"not read")))
    for given in (("The list\n",), ("",), ("a", "b")):
        assert read_prompts(given) == given


@pytest.mark.parametrize("given", [("-",), ()])
def test_a_pipe_is_read_without_its_last_line_break(given: tuple[str, ...]) -> None:
    assert piped(given, "Die Liste für\r\n\n".encode()) == ("Die Liste für\n", "")
    assert piped(given, b"") == ("", "")
    assert piped(("The list", *given), b"of") == ("The list|of" if given else "The list", "")


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "story.txt").write_text("Once upon a time", encoding="utf-8")
    script = "from minigrad.generation.console import read_prompts; print(*read_prompts(()))"
    with (tmp_path / "story.txt").open("rb") as file:
        done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, stdin=file, capture_output=True, check=True)
    assert done.stdout.split() == b"Once upon a time".split()


def test_without_a_flag_a_null_device_or_a_closed_input_is_no_prompt(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path(os.devnull).open(encoding="utf-8") as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert read_prompts(()) == ("",)
    assert read_prompts(()) == ("",)  # closed
    monkeypatch.setattr(sys, "stdin", None)
    assert read_prompts(()) == ("",)
    with pytest.raises(InputError, match="there is no standard input to read the prompt from"):
        read_prompts(["-"])
    with pytest.raises(InputError, match="standard input holds one prompt: give --prompt - once"):
        read_prompts(["-", "a", "-"])


def test_what_is_not_utf8_is_refused_with_its_place() -> None:
    for data, place in (
        (b"list\xff", "byte 5 is 0xff"),
        (b"caf\xc3\xff", "byte 4 is 0xc3"),
        (b"\xef\xbb\xbflist\xff", "byte 8 is 0xff"),
    ):
        assert piped("-", data)[1].strip() == f"standard input is not UTF-8 text: its {place}"
    with pytest.raises(InputError, match="--prompt is not UTF-8 text: its character 4 is 0xe9"):
        check_text("prompt", ["fine", os.fsdecode(b"caf\xe9s")])


def test_a_terminal_is_told_how_to_end_the_prompt(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"The list\n")))
    assert read_prompts(["-"]) == ("The list",)
    assert "type the prompt, then end it with" in capsys.readouterr().err


def messages(data: bytes) -> list[str]:
    """Return the messages that a process reads from a pipe, or the error that it prints."""
    script = (
        "import json\nfrom minigrad.errors import InputError\nfrom minigrad.generation.console import read_messages\n"
        "try: print(json.dumps(list(read_messages())))\n"
        "except InputError as error: print(json.dumps([str(error)]))"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, input=data, capture_output=True, check=True)
    found: list[str] = json.loads(done.stdout)
    return found


def test_each_line_of_a_pipe_is_a_message_and_a_backslash_continues_it() -> None:
    assert messages("\ufeffHé\r\nfirst\\\nsecond\\\n\nlast".encode()) == ["Hé", "first\nsecond\n", "last"]
    assert messages(b"cut \\\n") == ["cut "]
    assert messages(b"") == []
    assert messages(b"fine\ncaf\xe9\n") == ["standard input is not UTF-8 text: line 2, byte 4 is 0xe9"]
    assert messages(b"\xef\xbb\xbfcaf\xe9\n") == ["standard input is not UTF-8 text: line 1, byte 7 is 0xe9"]


def test_a_terminal_shows_where_to_type(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"one\ntwo\\\nthree\n")))
    assert list(read_messages()) == ["one", "two\nthree"]
    said = capsys.readouterr()
    assert said.err.count("> ") == 4  # standard output is not a terminal, and holds the answers alone
    assert said.out == ""


def test_a_byte_that_is_not_utf8_becomes_a_character_of_its_own_and_ends_no_conversation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Terminal(io.TextIOWrapper):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(io.BytesIO(b"caf\xe9\nnext\n"), encoding="utf-8", errors="strict"))
    assert list(read_messages()) == ["caf\ufffd", "next"]


def test_without_standard_input_there_are_no_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert not is_terminal()
    assert list(read_messages()) == []
