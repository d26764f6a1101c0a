"""The run folder: begun once, never overwritten, and continued only with its own settings."""

from __future__ import annotations

import dataclasses
import platform
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

from minigrad import checkpoint, hardware
from minigrad.errors import InputError, RunError

Settings = TypeVar("Settings")

RECORD = "minigrad.json"
_EXTENDABLE = ("steps", "minutes", "tokens")
_NOT_STORED = ("resume", "plan", "out")


def refuse_existing(folder: Path) -> None:
    """Raise InputError if something is there already: a run is never overwritten."""
    if folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} exists and is left as it is: continue it with --resume {folder}, or choose another --out"
        )
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; name a folder")


def begin(folder: Path) -> None:
    """Make a new run folder; raises InputError if something is there, RunError if the disk refuses."""
    refuse_existing(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {folder}: {error.strerror}") from error


def newest(root: Path, family: str) -> Path:
    """Return the run folder of `family` under `root` that was written last."""
    found = [path.parent for path in root.glob(f"*/{RECORD}")]
    found = [folder for folder in found if checkpoint.read_json(folder / RECORD).get("family") == family]
    if not found:
        raise InputError(f"there is no run of {family} under {root} to continue; name its folder: --resume DIR")
    return max(found, key=lambda folder: (folder / RECORD).stat().st_mtime)


def read_record(folder: Path) -> dict[str, Any]:
    """Return minigrad.json of a run folder; raises InputError if the folder holds no run of ours."""
    if not folder.is_dir():
        raise InputError(f"there is no run folder {folder}")
    record = checkpoint.read_json(folder / RECORD)
    if not isinstance(record.get("settings"), dict):
        raise InputError(f"{folder / RECORD} has no settings: it was not written by train.py")
    return record


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Replace minigrad.json."""
    checkpoint.write_json(folder / RECORD, dict(record))


def stored(settings: Any) -> dict[str, Any]:
    """Return the settings that decide what a run computes, as they stand in minigrad.json."""
    values = dataclasses.asdict(settings)
    return {name: value for name, value in values.items() if name not in _NOT_STORED}


def continued(given: Settings, record: Mapping[str, Any], folder: Path) -> Settings:
    """Return the settings of a resumed run: those of its folder, but a larger --steps, --tokens or --minutes counts.

    A setting was given if it differs from its default. Raises InputError listing every difference that is refused.
    """
    old, refused, changed = record["settings"], [], {}
    for field in dataclasses.fields(given):  # type: ignore[arg-type]
        name, value = field.name, getattr(given, field.name)
        if name in _NOT_STORED or value == field.default or value == old.get(name):
            continue
        before = old.get(name)
        if name in _EXTENDABLE and before is not None and value > before:
            changed[name] = value
            continue
        flag = "--" + name.replace("_", "-")
        refused.append(f"{flag} {value} (the run has {before})")
    if refused:
        raise InputError(
            f"{folder} was started with other settings: {', '.join(refused)}. Leave these flags out to continue it; "
            "only a larger --steps, --tokens or --minutes can be given. Another setting needs a run of its own (--out)."
        )
    known = {field.name for field in dataclasses.fields(given)}  # type: ignore[arg-type]
    kept = {name: value for name, value in old.items() if name in known}
    return dataclasses.replace(given, **{**kept, **changed})  # type: ignore[type-var]


def open_settings(given: Any) -> tuple[Path | None, dict[str, Any], Any]:
    """Return (folder, minigrad.json, settings) of the run to continue, or (None, {}, settings) for a new one.

    A run that is not limited otherwise gets ten minutes.
    """
    if given.resume is not None:
        folder = Path(given.resume or given.out or newest(Path("runs"), given.model))
        record = read_record(folder)
        return folder, record, continued(given, record, folder)
    if given.steps is None and given.tokens is None and given.minutes is None:
        given = dataclasses.replace(given, minutes=10.0)
    if given.init is not None and given.tokenizer is None:
        given = dataclasses.replace(given, tokenizer=given.init)
    return None, {}, given


def environment() -> dict[str, Any]:
    """Return what a run should remember of the machine and the versions it ran with."""
    import numba
    import numpy

    return {
        "versions": {
            "python": platform.python_version(),
            "numpy": numpy.__version__,
            "numba": numba.__version__,
        },
        "threads": hardware.threads(),
        "hardware": hardware.describe(),
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def repeat_command(settings: Any, skip: tuple[str, ...] = ("minutes", "tokens")) -> str:
    """Return the command that repeats a run: every setting that is not its default, in flags."""
    words = ["python train.py"]
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if field.name in (*_NOT_STORED, *skip) or (value == field.default and field.name not in ("model", "size")):
            continue
        flag = "--" + field.name.replace("_", "-")
        words.append(flag if value is True else f"{flag} {_quoted(value)}")
    return " ".join(words)


def _quoted(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
    return shlex.quote(text)
