"""Errors of the operating system become one sentence."""

from __future__ import annotations

import ctypes
import errno
import re
import subprocess
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from minigrad.cli.exits import exit_code, explain_system_error
from minigrad.errors import InputError, RunError
from minigrad.system.signals import Stopped
from minigrad.system.terminal import installation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "a/b"), RunError, "No space left on device: a/b"),
        (OSError(errno.EIO, "Input/output error"), RunError, "Input/output error"),
        (OSError("the library says no"), RunError, "the library says no"),
        (OSError(), RunError, "OSError"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "xxx"), InputError, "File name too long: xxx"),
    ],
)
def test_an_error_of_the_system_names_the_file_where_it_is_known(error, kind, message):
    found = explain_system_error(error)
    assert type(found) is kind
    assert str(found) == message


def test_a_missing_package_comes_with_the_command_that_installs_it():
    told, work = Mock(), Mock(side_effect=ModuleNotFoundError("No module named 'regex'"))
    assert exit_code("a program", work, interrupted="", less_memory="", tell=told) == 1
    assert f"No module named 'regex'; run: {installation()}" in told.call_args.args[0]


class WrongInputError(ValueError):
    is_bad_input = True


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (Stopped(143, 7, Path("run")), 143, "stopped after step 7 and saved; continue with: "),
        (InputError("a wrong flag"), 2, "train.py: a wrong flag"),
        (RunError("a fault"), 1, "train.py: a fault"),
        (WrongInputError("a wrong text"), 2, "train.py: a wrong text"),
        (MemoryError(), 1, "train.py: this computer's memory is full; close something"),
        (KeyboardInterrupt("saved"), 130, "saved"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_each_end_has_its_code_and_its_sentence(error, code, message):
    said, hook = [], sys.unraisablehook
    work = Mock(side_effect=error)
    found = exit_code("train.py", work, interrupted="interrupted", less_memory="close something", tell=said.append)
    assert found == code
    assert len(said) == 1
    assert said[0].startswith(message)
    assert sys.unraisablehook is hook


def test_any_other_value_error_is_a_bug():
    with pytest.raises(ValueError, match="a bug"):
        exit_code("train.py", Mock(side_effect=ValueError("a bug")), interrupted="", less_memory="")


def test_an_interrupt_that_is_lost_in_a_callback_ends_the_program_at_the_error_that_it_causes(capsys):
    @ctypes.CFUNCTYPE(None)
    def interrupted():
        raise KeyboardInterrupt

    def compile_a_kernel():
        interrupted()  # which returns as if nothing had happened
        raise RuntimeError("no compiled object yet")

    assert exit_code("train.py", compile_a_kernel, interrupted="interrupted", less_memory="") == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_an_error_without_an_interrupt_is_raised():
    def fail():
        raise RuntimeError("a mistake in the program")

    with pytest.raises(RuntimeError, match="a mistake"):
        exit_code("train.py", fail, interrupted="", less_memory="")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux that is always full")
@pytest.mark.parametrize("program", ["train.py", "generate.py"])
@pytest.mark.parametrize(
    ("arguments", "redirected", "code", "said"),
    [
        ("--help", ">/dev/full", 1, r"[a-z]+\.py: No space left on device\n"),
        ("--stepz", "2>/dev/full", 2, ""),
        ("--help", ">&-", 0, ""),
        ("--stepz", ">&-", 2, r"[a-z]+\.py: (unknown flag --stepz|RUN is missing).*\n"),
        ("--stepz", ">&- 2>&-", 2, ""),
    ],
)
def test_output_that_takes_nothing_gives_no_traceback(program, arguments, redirected, code, said):
    command = f'exec "$0" {program} {arguments} {redirected}'
    done = subprocess.run(["sh", "-c", command, sys.executable], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == code
    assert re.fullmatch(said, done.stderr)


def test_an_error_moves_no_cursor(capsys):
    def fail():
        raise RunError("cannot download it (HTTP Error 404: \x1b[2J\x9b31mgone\x07)")

    assert exit_code("train.py", fail, interrupted="", less_memory="") == 1
    assert capsys.readouterr().err == "train.py: cannot download it (HTTP Error 404: \ufffd[2J\ufffd31mgone\ufffd)\n"
