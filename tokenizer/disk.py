"""Files on disk: writing that never leaves half a file under the final name, and reading with clear errors."""

from __future__ import annotations

import errno
import json
import os
import select
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from tokenizer.errors import TokenizerError

Value = TypeVar("Value")
Json = dict[str, Any]

PATIENCE = 60  # seconds, for the first bytes of a pipe
SHIPPED = Path(__file__).parents[1] / "models" / "pretrained"  # the models that come with minigrad, with tokenizers


def located(path: str | Path) -> Path:
    """Return a path, or the folder of the model of this name in `models.pretrained` if there is no such file or folder.

    `models.pretrained.find_run` is its twin for programs that need minigrad. Raises TokenizerError, listing the models,
    for a single name that is neither.
    """
    name = Path(path).name
    try:
        is_here = bool(Path(path).stat())
    except (OSError, ValueError) as error:  # what reads the path says what is wrong with any other
        is_here = not isinstance(error, FileNotFoundError)
    if str(path) != name or is_here:
        return Path(path)
    known = sorted(file.parent.name for file in SHIPPED.glob("*/tokenizer.json"))
    if name not in known and not Path(name).suffix:
        raise TokenizerError(
            f"{name} is not a file or folder, nor a model that comes with minigrad ({', '.join(known)})."
        )
    return SHIPPED / name if name in known else Path(path)


def write_file(path: Path, data: bytes) -> None:
    """Write a file atomically: a reader finds the old file or the complete new one.

    Raises OSError, naming the file, if it cannot be written: a fault of the disk, not of the input.
    """
    # Renaming is atomic. The bytes must be on disk before it (fsync): otherwise a power cut could leave an empty file
    # under the final name. Two processes never share a temporary file, because its name holds the process.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.unlink(missing_ok=True)  # it may be a link to a file elsewhere
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def read_file(path: Path, *, may_be_pipe: bool = False) -> bytes:
    """Return the bytes of a file; raises TokenizerError if it cannot be read.

    Only regular files are read unless it `may_be_pipe`: a pipe in the place of a file may never end.
    """
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode) and not may_be_pipe:
            raise OSError(0, "it is a folder" if stat.S_ISDIR(mode) else "it is not a regular file")
        with open_file(path) as file:
            return file.read()
    except OSError as error:
        raise TokenizerError(f"cannot read {path}: {error.strerror}.") from error
    except ValueError as error:  # a name that no file can have, such as one with a NUL
        raise TokenizerError(f"cannot read {str(path)!r}: {error}.") from error


def open_file(path: Path) -> BinaryIO:
    """Open a file, a terminal, or a pipe into which another program writes; raises OSError.

    To open a pipe is to wait for that program, perhaps for ever: here one that stays empty is an error after a minute.
    So is a device, which may never end.
    """
    mode = path.stat().st_mode
    file = open(path, "rb", opener=_open_pipe if stat.S_ISFIFO(mode) else None)  # noqa: SIM115  (is returned)
    if stat.S_ISCHR(mode) and not file.isatty() and not path.samefile(os.devnull):
        file.close()
        raise OSError(errno.EINVAL, "it is a device, which may never end")
    return file


def _open_pipe(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not select.select([descriptor], [], [], PATIENCE)[0]:
        os.close(descriptor)
        raise OSError(errno.ETIMEDOUT, f"it is a pipe, and no program wrote into it for {PATIENCE} seconds")
    os.set_blocking(descriptor, True)
    return descriptor


def write_json(path: Path, document: Json) -> None:
    """Write a JSON file as readable UTF-8."""
    write_file(path, (json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())


def read_json(path: Path) -> Json:
    """Return the JSON object in a file; raises TokenizerError naming the file if there is none."""
    data = read_file(path)
    try:
        document = json.loads(data.decode())
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path} is not JSON text, or is cut short: {error}.") from error
    if not isinstance(document, dict):
        raise TokenizerError(f"{path} holds a {type(document).__name__}, expected a JSON object.")
    return document


def field(document: Json, name: str, kind: type[Value], *, within: str = "") -> Value:
    """Return the value at a dotted name; raises TokenizerError if it is missing or of another type.

    `within` is the name of the object itself, for the message.

    >>> field({"model": {"type": "BPE"}}, "model.type", str)
    'BPE'
    """
    value: Any = document
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if type(value) is not kind:
        full = f"{within}.{name}" if within else name
        found = "missing" if value is None else f"{value!r:.60}"
        raise TokenizerError(f"field {full} is {found}, expected {kind.__name__}.")
    return value
