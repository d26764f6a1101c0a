"""The command that repeats a run."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection
from pathlib import Path
from typing import Any

from minigrad.distributed.world import ALONE, World, mpiexec
from minigrad.system.terminal import command
from minigrad.training.folder.record import NOT_STORED
from minigrad.training.settings import TrainConfig


def repeat_command(
    settings: TrainConfig,
    folder: Path,
    stages: Collection[int] = (),
    decays: Collection[str] = (),
    world: World = ALONE,
) -> str:
    """Return the shell command that repeats the run in `folder`, of `settings.steps` steps, in `{folder}-again`.

    It gives the model, the size and every other setting that is not its default; `--tokens` and `--minutes` are
    replaced by the number of steps. `stages` are the steps at which the run had ended before it was extended, `decays`
    the courses of the decay before these ends: each extension adds a `--resume` command, joined by `&&`. A batch that
    its processes cannot share evenly, as after a change of their number, is repeated in one.
    """
    processes = 1 if (settings.batch or 0) % world.size else world.size
    start = mpiexec(world) if processes > 1 else ""
    (first, decay), *later = itertools.zip_longest([*stages, settings.steps], [*decays, settings.decay], fillvalue="")
    out, words = f"{folder}-again", list[str]()
    for field in dataclasses.fields(TrainConfig):
        batch = settings.batch and settings.batch // processes
        changed = {"steps": first, "decay": decay or None, "batch": batch}
        value = changed.get(field.name, getattr(settings, field.name))
        if field.name in (*NOT_STORED, "minutes", "tokens") or (field.name == "pipeline" and processes == 1):
            continue
        if value != field.default or field.name in ("model", "size"):
            flag = "--" + field.name.replace("_", "-")
            words += [flag] if value is True else [flag, _exact(value)]
    again = [
        start + command("train.py", "--resume", out, "--steps", steps, *(["--decay", decay] if decay else []))
        for steps, decay in later
    ]
    return " && ".join([start + command("train.py", *words, "--out", out), *again])


def _exact(value: Any) -> str:
    """Return a value of a flag as the shortest text that is read as the same value."""
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)
