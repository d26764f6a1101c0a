"""What is printed: phases with their duration, and text without control characters."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.system.terminal import forgive_encoding, phase, printable, quoted
from tests.command_words import command_words


def test_a_phase_is_announced_before_it_runs_and_timed_after(capsys):
    with phase("compiling kernels"):
        assert capsys.readouterr().out == "compiling kernels ... "
    assert re.fullmatch(r"\d+\.\d s\n", capsys.readouterr().out)


def test_a_phase_that_fails_ends_its_line():
    stream = io.StringIO()
    with pytest.raises(KeyError), phase("reading text", stream):
        raise KeyError
    assert re.fullmatch(r"reading text \.\.\. stopped after \d+\.\d s\n", stream.getvalue())


@given(st.text())
def test_printable_text_has_no_control_characters_and_keeps_everything_else(text):
    shown = printable(text)
    assert len(shown) == len(text)
    for before, after in zip(text, shown, strict=True):
        is_kept = before in "\t\n" or unicodedata.category(before) not in ("Cc", "Cs")
        assert after == (before if is_kept else "\ufffd")


@pytest.mark.parametrize("word", ["runs/a", "my runs/a", "C:\\my runs\\a", 'say "no"', "a'b", ""])
def test_a_quoted_word_is_read_back_by_the_shell(word):
    assert command_words(f"python {quoted(word)}") == ["python", word]


def test_words_are_in_double_quotes_on_windows(monkeypatch):
    monkeypatch.setattr("minigrad.system.terminal.os.name", "nt")
    assert (quoted("C:\\my runs\\a"), quoted("C:\\runs")) == ('"C:\\my runs\\a"', "C:\\runs")


def test_a_character_that_the_encoding_lacks_is_replaced(monkeypatch):
    out, error = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2))
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", error)
    forgive_encoding()
    for stream in (out, error):
        stream.write("naïve")
        stream.flush()
    assert out.buffer.getvalue() == b"na?ve"
    assert error.buffer.getvalue() == b"na\\xefve"


def test_closed_output_is_no_error_at_exit():
    script = (
        "import os, sys; from minigrad.system.terminal import close_output\n"
        "sys.stdin.read()\n"
        "try: print('x' * 100, flush=True)\n"
        "except BrokenPipeError: close_output()\n"
        "print('y' * 100)"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.close()
    process.stdout = None
    _, error = process.communicate(b"")
    assert (process.returncode, error) == (0, b"")
