"""The run folder: begun once, never overwritten, and continued only with its own settings.

minigrad.json keeps apart what was asked for (`settings`) and what the program decided (`chosen`), so that a run can be
continued, and repeated, with the numbers it had.
"""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import platform
import shlex
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from minigrad import checkpoint, hardware
from minigrad.config import validate
from minigrad.data import TokenFile
from minigrad.errors import InputError, RunError
from minigrad.optim.schedules import decay_start
from minigrad.settings import TrainConfig

RECORD = "minigrad.json"
_LIMITS = ("steps", "tokens", "minutes")
_NOT_STORED = ("resume", "plan", "profile", "out")


def refuse_existing(folder: Path) -> None:
    """Raise InputError if something is there already: a run is never overwritten."""
    if folder.is_dir() and any(folder.iterdir()):
        way_out = f"continue it with --resume {folder}, or " if (folder / RECORD).exists() else ""
        raise InputError(f"{folder} exists and is left as it is: {way_out}choose another --out")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"--out {folder} is a file; name a folder")
    above = next((parent for parent in folder.parents if parent.exists()), None)
    if above is not None and not above.is_dir():
        raise InputError(f"--out {folder} cannot be made, because {above} is a file")


def begin(folder: Path, tokenizer: Any, record: Mapping[str, Any]) -> None:
    """Make a new run folder with a tokenizer and minigrad.json, from which on the run can be continued.

    Raises InputError if something is there or no folder can have that name, RunError if the disk refuses.
    """
    refuse_existing(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        tokenizer.save(folder)
    except OSError as error:
        kind = InputError if error.errno == errno.ENAMETOOLONG else RunError
        raise kind(f"cannot write the folder {folder}: {error.strerror or error}") from error
    write_record(folder, record)


def write_record(folder: Path, record: Mapping[str, Any]) -> None:
    """Replace minigrad.json."""
    checkpoint.write_json(folder / RECORD, dict(record))


def read_record(folder: Path) -> dict[str, Any]:
    """Return minigrad.json of a run folder; raises InputError if the folder holds no run of ours."""
    if not folder.is_dir():
        raise InputError(f"there is no run folder {folder}")
    if not (folder / RECORD).exists():
        raise InputError(f"{folder} is no run folder of train.py: it has no {RECORD}")
    record = checkpoint.read_json(folder / RECORD)
    if not isinstance(record.get("settings"), dict) or not isinstance(record.get("chosen"), dict):
        raise InputError(f"{folder / RECORD} has no settings: it was not written by train.py")
    return record


def new_record(asked: TrainConfig, settings: TrainConfig, **facts: Any) -> dict[str, Any]:
    """Return what minigrad.json says about a new run: what was `asked`, and what was chosen on top of it."""
    record = {
        "family": settings.model,
        "size": settings.size,
        "data": settings.data,
        "seed": settings.seed,
        **facts,
        "settings": stored(asked),
        "chosen": {},
        **environment(),
    }
    note_choices(record, settings)
    return record


def note_choices(record: dict[str, Any], settings: TrainConfig) -> None:
    """Remember in minigrad.json what `settings` have that was not asked for."""
    asked = record["settings"]
    record["chosen"] |= {name: value for name, value in stored(settings).items() if value != asked.get(name)}


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


def fingerprint(tokens: TokenFile) -> str:
    """Return a hash of a text as the model sees it: it changes with the text and with the tokenizer."""
    return hashlib.blake2b(tokens.tokens.tobytes(), digest_size=16).hexdigest()


def check_text(record: Mapping[str, Any], tokens: TokenFile, folder: Path) -> None:
    """Raise InputError if a run would go on with another text than it began with."""
    if record.get("text") != fingerprint(tokens):
        raise InputError(
            f"the text of {record.get('data')} or the tokenizer is not the one that {folder} began with, so the run "
            f"cannot continue as if it had never stopped. Start a new one from its weights: --init {folder} --out DIR"
        )


def stored(settings: TrainConfig) -> dict[str, Any]:
    """Return the settings that decide what a run computes, as they stand in minigrad.json."""
    values = dataclasses.asdict(settings)
    return {name: value for name, value in values.items() if name not in _NOT_STORED}


def explicit_names(given: TrainConfig, explicit: Collection[str] | None = None) -> Collection[str]:
    """Return the names of the settings that were given, by default those that differ from their defaults."""
    if explicit is not None:
        return explicit
    return {field.name for field in dataclasses.fields(given) if getattr(given, field.name) != field.default}


def open_settings(
    given: TrainConfig, explicit: Collection[str] | None = None
) -> tuple[Path | None, dict[str, Any], TrainConfig]:
    """Return (folder, minigrad.json, settings) of the run to continue, or (None, {}, settings) for a new one.

    `explicit` names the settings that were given, by default those that differ from their defaults. A new run that is
    not limited otherwise gets ten minutes.
    """
    explicit = explicit_names(given, explicit)
    if given.resume is not None:
        family = given.model if "model" in explicit else None
        folder = Path(given.resume or given.out or newest(Path("runs"), family))
        record = read_record(folder)
        return folder, *continued(given, explicit, record, folder)
    if given.steps is None and given.tokens is None and given.minutes is None:
        given = dataclasses.replace(given, minutes=10.0)
    if given.init is not None and not Path(given.init).is_dir():
        raise InputError(f"--init {given.init} is no folder; name a run folder, or a Hugging Face folder")
    if given.init is not None and given.tokenizer is None:
        given = dataclasses.replace(given, tokenizer=given.init)
    return None, {}, given


def newest(root: Path, family: str | None = None) -> Path:
    """Return the run folder under `root`, of one `family` or of any, that was written last."""
    found = [path.parent for path in root.glob(f"*/{RECORD}")]
    if family is not None:
        found = [folder for folder in found if read_record(folder).get("family") == family]
    if not found:
        what = f"run of {family}" if family else "run"
        raise InputError(f"there is no {what} under {root}/ to continue; name its folder: --resume DIR")
    return max(found, key=lambda folder: (folder / RECORD).stat().st_mtime)


def continued(
    given: TrainConfig, explicit: Collection[str], record: Mapping[str, Any], folder: Path
) -> tuple[dict[str, Any], TrainConfig]:
    """Return minigrad.json and the settings of a run to continue: its own, but a larger limit counts.

    Raises InputError listing every difference that is refused.
    """
    asked, used = record["settings"], record["settings"] | record["chosen"]
    refused, larger = [], {}
    for name in explicit:
        value = getattr(given, name)
        if name in _NOT_STORED or value in (asked.get(name), used.get(name)):
            continue
        if name in _LIMITS and used.get(name) is not None and value > used[name]:
            larger[name] = value
        else:
            before = "none" if used.get(name) is None else used[name]
            refused.append(f"--{name.replace('_', '-')} {value} (the run has {before})")
    if refused:
        raise InputError(
            f"{folder} was started with other settings: {', '.join(sorted(refused))}. Leave these flags out to "
            "continue it; only a larger --steps, --tokens or --minutes can be given. Another setting needs a run of "
            "its own (--out)."
        )
    record = extended(record, larger, folder) if larger else dict(record)
    known = {field.name for field in dataclasses.fields(given)}
    used = {name: value for name, value in (record["settings"] | record["chosen"]).items() if name in known}
    settings = dataclasses.replace(given, **used)
    try:
        validate(settings)
    except InputError as error:
        raise InputError(f"{folder / RECORD} is damaged: {error}") from None
    return record, settings


def extended(record: Mapping[str, Any], larger: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return minigrad.json of a run that gets a larger limit.

    A run that is finished goes on behind its end, which is remembered in `stages`: to repeat it takes one command
    more. Within the fall of the learning rate a run cannot be extended, because no run with the new limit has such a
    step. Raises InputError then.
    """
    saved, steps = checkpoint.steps(folder), (record["settings"] | record["chosen"]).get("steps")
    step, stages = saved[-1] if saved else 0, list(record.get("stages", []))
    if steps is not None and decay_start(steps) < step < steps:
        raise InputError(
            f"{folder} is at step {step:,} of {steps:,}, and its learning rate has begun to fall. Finish it first "
            f"(--resume {folder}), then continue with a larger limit."
        )
    if step == steps:
        stages.append(steps)
    # The limit takes the place of the one before, and of the number of steps that followed from it.
    asked = record["settings"] | dict.fromkeys(_LIMITS) | dict(larger)
    chosen = {name: value for name, value in record["chosen"].items() if name not in ("steps", "decay_start")}
    return {**record, "settings": asked, "chosen": chosen, "stages": stages}


def repeat_command(settings: TrainConfig, folder: Path, stages: Collection[int] = ()) -> str:
    """Return the command that repeats a run of `settings.steps` steps in a folder beside it.

    It spells out every setting that is not its default; a run that was continued behind its end (`stages`) takes one
    command for each part.
    """
    first, *later = [*stages, settings.steps]
    out = _quoted(f"{folder}-again")
    words = ["python train.py"]
    for field in dataclasses.fields(settings):
        value = first if field.name == "steps" else getattr(settings, field.name)
        if field.name in (*_NOT_STORED, "minutes", "tokens"):
            continue
        if value != field.default or field.name in ("model", "size"):
            flag = "--" + field.name.replace("_", "-")
            words.append(flag if value is True else f"{flag} {_quoted(value)}")
    again = [f"python train.py --resume {out} --steps {steps}" for steps in later]
    return " && ".join([" ".join([*words, f"--out {out}"]), *again])


def _quoted(value: Any) -> str:
    text = f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
    return shlex.quote(text)
