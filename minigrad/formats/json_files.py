"""JSON files with one object: read with errors that name the file, written completely or not at all."""

from __future__ import annotations

import json
import math
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minigrad.errors import InputError
from minigrad.system.files import flush, read_bytes, read_start, write_text

if TYPE_CHECKING:  # which imports NumPy
    from minigrad.typing import PathLike

_DEEPEST = 64  # levels of nesting; files of models and runs have fewer than ten
_LARGEST = 1 << 26  # bytes; a larger file is damaged or something else


def with_null(value: Any) -> Any:
    """Return a value as JSON can hold it, which has no NaN and no infinity: these become null.

    >>> with_null({"loss": math.nan, "each": [1.5, math.inf]})
    {'loss': None, 'each': [1.5, None]}
    """
    if isinstance(value, dict):
        return {name: with_null(item) for name, item in value.items()}
    if isinstance(value, list):
        return [with_null(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def as_json(value: Any) -> str:
    """Return `value` as indented JSON; raises ValueError for NaN and infinity, which JSON cannot hold."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def write_json(path: PathLike, value: Any) -> None:
    """Replace the file at `path` by `value` as indented JSON; raises RunError if it cannot be written."""
    write_text(path, as_json(value))


def parse_json(text: bytes | str) -> Any:
    """Return the value of a JSON text from outside; raises InputError if it is not JSON or is nested too deeply."""
    try:
        return json.loads(text)
    except RecursionError:
        raise InputError(f"it is nested deeper than {_DEEPEST} levels") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(str(error)) from None
    except ValueError:  # Python's limit, against numbers that take minutes to read
        raise InputError(f"it holds a whole number of more than {sys.get_int_max_str_digits():,} digits") from None


def parse_object(text: bytes | str) -> dict[str, Any]:
    """Return the object of a JSON text from outside.

    Raises InputError if it is not a JSON object, is nested too deeply, or holds a number that is not finite.
    """
    content = parse_json(text)
    if not isinstance(content, dict):
        raise InputError("it holds no JSON object")
    level = list(content.items())
    for _ in range(_DEEPEST):
        for path, each in level:
            if isinstance(each, float) and not math.isfinite(each):
                raise InputError(f"{path} = {each} is not JSON, whose numbers are finite")
        level = [
            (f"{path}.{name}", inner)
            for path, each in level
            if isinstance(each, dict | list)
            for name, inner in (each.items() if isinstance(each, dict) else enumerate(each))
        ]
        if not level:
            return content
    raise InputError(f"it is nested deeper than {_DEEPEST} levels")


def check_lines(path: Path, key: str) -> None:
    """Raise InputError unless lines of JSON can be added to a file: it is new, or empty, or holds such lines.

    The first line of a file must be an object with this `key`, so that a file of another kind is never changed.
    """
    if not path.parent.is_dir():
        raise InputError(f"cannot write {path}: there is no folder {path.parent}")
    if path.is_symlink() or path.exists():
        first, _, _ = read_start(path, _LARGEST).partition(b"\n")
        is_line = not path.stat().st_size
        with suppress(InputError):
            is_line = is_line or key in parse_object(first)
        if not is_line:
            raise InputError(
                f"nothing is added to {path}: its first line is not a JSON object with {key!r}; name another file"
            )
    if not os.access(path if path.exists() else path.parent, os.W_OK):
        raise InputError(f"cannot write {path}: it may not be written to")


def add_line(path: Path, line: str) -> None:
    """Add a line to a file, and wait until it is on the disk; raises OSError, and then no part of the line stays."""
    with path.open("a+b", buffering=0) as file:
        size = file.tell()
        if size:
            file.seek(-1, os.SEEK_END)
            line = line if file.read() == b"\n" else "\n" + line
        left = memoryview(f"{line}\n".encode())
        try:
            while left:  # the system may take a part, as much as the disk has room for
                left = left[file.write(left) :]
            flush(file.fileno())
        except OSError:
            file.truncate(size)  # half a line would stay for ever
            raise


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raises InputError if the file is missing, damaged or holds something else."""
    content = read_bytes(path, at_most=_LARGEST)
    try:
        return parse_object(content)
    except InputError as error:
        raise InputError(f"{path} is damaged or not JSON: {error}") from None
