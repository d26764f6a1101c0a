"""JSON files that hold one object: read with errors that name the file, written whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from minigrad.errors import InputError
from minigrad.system.files import reason, write_text
from minigrad.typing import PathLike


def as_json(value: Any) -> str:
    """Return `value` as indented JSON; raises ValueError for NaN and infinity, which JSON cannot hold."""
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def write_json(path: PathLike, value: Any) -> None:
    """Replace the file at `path` by `value` as indented JSON; raises RunError if it cannot be written."""
    write_text(path, as_json(value))


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; raises InputError if the file is missing, damaged or holds something else."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged or not JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no JSON object")
    return content
