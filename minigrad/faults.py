"""What can go wrong outside the program, put into words: a full disk, a closed file, a package that is missing."""

from __future__ import annotations

import errno
import sys

from minigrad.errors import InputError, RunError


def explain_system_error(error: OSError) -> InputError | RunError:
    """Return what the operating system refused as one of our errors, naming the file where it is known.

    A name that is too long for any file can only have been given, so it is bad input.

    >>> explain_system_error(OSError(28, "No space left on device", "runs/a"))
    RunError('No space left on device: runs/a')
    """
    reason = error.strerror or str(error) or type(error).__name__
    message = reason if error.filename is None else f"{reason}: {error.filename}"
    return InputError(message) if error.errno == errno.ENAMETOOLONG else RunError(message)


def explain_missing_package(error: ModuleNotFoundError, program: str) -> RunError:
    """Return the error for a package that is not installed, with the command that installs it."""
    return RunError(f"{error}; in the folder of {program}, run: {sys.executable} -m pip install -e .")
