"""What is printed: phases with their duration, and text as it is shown."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.system import terminal
from minigrad.system.terminal import (
    command,
    fold_blank_lines,
    installation,
    phase,
    prepare_output,
    printable,
    quoted,
    say,
)
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


@given(st.text(alphabet="a \n"))
def test_folded_text_says_how_many_blank_lines_it_leaves_out(text):
    shown = fold_blank_lines(text)
    counts = re.sub(r"\[(\d+) blank lines\]", lambda found: "\n" * (int(found[1]) - 1), shown)
    assert re.sub(r"(?m)^ +$", "", counts) == re.sub(r"(?m)^ +$", "", text.removesuffix("\n"))
    assert not re.search(r"^ *\n *$", shown, re.MULTILINE)


@pytest.mark.parametrize("word", ["runs/a", "my runs/a", "C:\\my runs\\a", 'say "no"', "a'b", ""])
def test_a_quoted_word_is_read_back_by_the_shell(word):
    assert command_words(f"python {quoted(word)}") == ["python", word]


@pytest.mark.parametrize("extra", ["", "[serve]"])
def test_the_command_that_installs_names_the_folder_of_pyproject(extra):
    *start, folder = command_words(installation(extra))
    assert start == [sys.executable, "-m", "pip", "install", "-e"]
    assert folder.endswith(extra)
    assert (Path(folder.removesuffix(extra)) / "pyproject.toml").is_file()


def test_words_are_in_double_quotes_on_windows(monkeypatch):
    monkeypatch.setattr("minigrad.system.terminal.os.name", "nt")
    assert (quoted("C:\\my runs\\a"), quoted("C:\\runs")) == ('"C:\\my runs\\a"', "C:\\runs")


def test_a_folder_is_not_taken_for_a_flag():
    assert command_words(f"python {quoted(Path('-runs') / 'a')}") == ["python", "./-runs/a"]
    assert quoted("-x") == "-x"


def test_a_character_that_the_encoding_lacks_is_replaced(monkeypatch):
    out, error = (io.TextIOWrapper(io.BytesIO(), encoding="ascii") for _ in range(2))
    monkeypatch.setattr("sys.stdout", out)
    monkeypatch.setattr("sys.stderr", error)
    prepare_output()
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


@pytest.mark.skipif(os.name == "nt", reason="folders are written with slashes")
@pytest.mark.parametrize(
    ("python", "path", "here", "expected"),
    [
        ("/home/ada/minigrad/.venv/bin/python", "/usr/bin", "/home/ada/minigrad", ".venv/bin/python"),
        ("/home/ada/minigrad/.venv/bin/python", "/usr/bin", "/home/ada", "minigrad/.venv/bin/python"),
        ("/home/ada/minigrad/.venv/bin/python", "/usr/bin", "/", "home/ada/minigrad/.venv/bin/python"),
        ("/opt/my python/bin/python3", "/usr/bin", "/home", "'/opt/my python/bin/python3'"),
        ("", "/usr/bin", "/home", "python"),
    ],
)
def test_a_command_names_the_python_that_runs(monkeypatch, python, path, here, expected):
    monkeypatch.setattr(sys, "executable", python)
    monkeypatch.setattr(sys, "argv", ["-c"])
    monkeypatch.setattr(terminal.shutil, "which", lambda name: f"{path}/{name}")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "cwd", lambda: Path(here))
        shown = command("train.py", "--resume", "runs/a b")
    assert shown == f"{expected} train.py --resume 'runs/a b'"


def test_a_command_names_a_python_that_the_shell_finds_by_its_name(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["-c"])
    for name in ("python", "python3"):
        monkeypatch.setattr(terminal.shutil, "which", {name: sys.executable}.get)
        assert command("train.py") == f"{name} train.py"


def test_a_command_names_the_program_beside_the_running_one(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").touch()
    (tmp_path / "generate.py").touch()
    monkeypatch.setattr(sys, "argv", [str(tmp_path / "train.py")])
    assert command("generate.py", "runs/a").endswith(f"{tmp_path / 'generate.py'} runs/a")
    monkeypatch.setattr(sys, "argv", ["train.py"])
    assert command("generate.py").endswith(" generate.py")
    monkeypatch.setattr(sys, "argv", ["pytest.py"])
    assert command("missing.py").endswith(" missing.py")


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("\x1b\x07\x9b\x08\r\x7f")))
def test_what_is_said_moves_no_cursor(text):
    stream = io.StringIO()
    say(text, stream, end="")
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", stream.getvalue())
    assert len(stream.getvalue()) == len(text)


@pytest.mark.skipif(os.name == "nt", reason="no shell that closes files")
def test_output_that_was_closed_takes_everything_and_its_number_goes_to_no_other_file(tmp_path):
    script = (
        "import os, sys; from minigrad.system.terminal import prepare_output, say\n"
        "prepare_output()\n"
        "with open(sys.argv[1], 'w') as file:\n"
        "    say('lost'); say('lost', sys.stderr); os.write(1, b'lost'); os.write(2, b'lost')\n"
        "    file.write(f'{file.fileno() > 2}')"
    )
    for closed in (">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"):
        command = f'exec "$0" -c "$1" "$2" {closed}'
        done = subprocess.run(["sh", "-c", command, sys.executable, script, tmp_path / "file"], capture_output=True)
        assert done.returncode == 0
        assert (tmp_path / "file").read_text(encoding="utf-8") == "True"
