"""Errors of the operating system become one sentence."""

from __future__ import annotations

import errno

import pytest

from minigrad.cli.exits import explain_missing_package, explain_system_error
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
