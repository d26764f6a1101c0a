"""How a program ends: every error becomes one paragraph on standard error and an exit code.

0: done. 1: a fault while running. 2: bad input. 129, 130, 143: stopped by SIGHUP of a terminal that closes, by Ctrl-C,
by SIGTERM. 141: the output was closed.
"""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Callable, Iterator

from minigrad.errors import InputError, RunError
from minigrad.system.signals import BROKEN_PIPE, INTERRUPTED, Stopped
from minigrad.system.terminal import close_output, flush_output, installation, to_standard_error


def exit_code(
    program: str,
    work: Callable[[], object],
    *,
    interrupted: str,
    less_memory: str,
    tell: Callable[[str], object] = to_standard_error,
) -> int:
    """Do the `work` of a program and return its exit code; `tell` gets the explanation of any error.

    A ValueError with a true attribute `is_bad_input` is bad input; any other is a bug, and is raised. `interrupted` is
    printed after Ctrl-C, unless the KeyboardInterrupt says more, and `less_memory` is the advice when memory is full.
    """
    try:
        with noticing_lost_interrupts():
            work()
    except Stopped as stopped:
        tell(str(stopped))
        return stopped.code
    except (InputError, RunError) as error:
        return complain(program, error, tell)
    except ValueError as error:
        if not getattr(error, "is_bad_input", False):
            raise
        return complain(program, InputError(error), tell)
    except ModuleNotFoundError as error:
        return complain(program, RunError(f"{error}; run: {installation()}"), tell)
    except MemoryError:
        return complain(program, RunError(f"this computer's memory is full; {less_memory}"), tell)
    except BrokenPipeError:  # the reader closed the pipe (generate.py calls that a success)
        close_output()
        return BROKEN_PIPE
    except OSError as error:
        return complain(program, explain_system_error(error), tell)
    except KeyboardInterrupt as interrupt:
        tell(str(interrupt) or interrupted)
        return INTERRUPTED
    finally:
        flush_output()
    return 0


@contextlib.contextmanager
def noticing_lost_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt for an error that Ctrl-C caused in a callback of compiled code.

    Python cannot raise through such a callback: it reports the KeyboardInterrupt and goes on. The compiler of the
    kernels then lacks the callback's result, and soon fails with a RuntimeError.
    """
    lost, before = list[type[BaseException]](), sys.unraisablehook

    def note(found: sys.UnraisableHookArgs) -> None:
        if issubclass(found.exc_type, KeyboardInterrupt):
            lost.append(found.exc_type)
        else:
            before(found)

    sys.unraisablehook = note
    try:
        yield
    except RuntimeError as error:
        if lost and type(error) is RuntimeError:
            raise KeyboardInterrupt from None
        raise
    finally:
        sys.unraisablehook = before


def complain(program: str, error: Exception, tell: Callable[[str], object] = to_standard_error) -> int:
    """Report an error as one paragraph and return the exit code: 2 for bad input, otherwise 1."""
    tell(f"{program}: {error}")
    return 2 if isinstance(error, InputError) else 1


def explain_system_error(error: OSError) -> InputError | RunError:
    """Return an error of the operating system as one of ours, with the file if it is known.

    A name that is too long came from the user, so it is bad input.
    """
    reason = error.strerror or str(error) or type(error).__name__
    message = reason if error.filename is None else f"{reason}: {error.filename}"
    return InputError(message) if error.errno == errno.ENAMETOOLONG else RunError(message)
