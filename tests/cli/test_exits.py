"""Errors of the operating system become one sentence."""

from __future__ import annotations

import ctypes
import errno

import pytest

from minigrad.cli.exits import exit_code, explain_missing_package, explain_system_error
from minigrad.errors import InputError, RunError


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
    found = explain_missing_package(ModuleNotFoundError("No module named 'regex'"), "train.py")
    assert str(found).startswith("No module named 'regex'; in the folder of train.py, run: ")
    assert str(found).endswith(" -m pip install -e .")


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
