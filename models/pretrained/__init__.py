"""The trained models that come with minigrad. Each has a folder here, with a card (README.md), and goes by its name.

    python generate.py vidya-v2-nano --prompt "The list type"
    model, tok = models.load("vidya-v2-nano"), tokenizer.load("vidya-v2-nano")

Programs that take a run folder take a name as well: `find_runs` replaces the names by the folders, so no code after
it sees a name. A user's folder with the same name comes first.
"""

from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path
from typing import Any, TypeVar

from minigrad.errors import InputError
from minigrad.formats.folders import CONFIG, did_you_mean
from minigrad.options import options
from minigrad.system.terminal import say

FOLDER = Path(__file__).parent

Settings = TypeVar("Settings")


def names() -> list[str]:
    """Return the names of the models, in alphabetical order."""
    return sorted(file.parent.name for file in FOLDER.glob(f"*/{CONFIG}"))


def find_run(run: str | Path) -> Path:
    """Return the folder of a run: `run` itself if there is such a folder or file, or that of the model of this name.

    A path with more than a name is returned as it is. Raises InputError, listing the models, for any other name.
    """
    path = Path(run)
    if str(run) != path.name or os.path.exists(path):  # noqa: PTH110  (False for a name that no file can have)
        return path
    if path.name not in names():
        known, hint = ", ".join(names()), did_you_mean(path, CONFIG, names())
        raise InputError(f"{run} is not a run folder, nor a model that comes with minigrad ({known}){hint}")
    folder, here = FOLDER / path.name, Path.cwd()
    return folder.relative_to(here) if folder.is_relative_to(here) else folder


def find_runs(settings: Settings) -> Settings:
    """Return the settings of a program with the folder of each run in place of its name.

    The runs are the options whose values are called RUN. Prints a note if a user's folder has the name of a model.
    Raises InputError for a name that neither has.
    """
    changes: dict[str, Any] = {}
    for each in options(type(settings)):
        given = getattr(settings, each.name)
        if each.value == "RUN" and given is not None:
            changes[each.name] = tuple(map(_found, given)) if each.many else _found(given)
    return dataclasses.replace(settings, **changes)  # type: ignore[type-var]


def _found(run: str) -> str:
    folder = find_run(run)
    if str(run) in names() and folder == Path(run) and folder.resolve() != (FOLDER / run).resolve():
        say(f"[{run} is the folder here, not the model of that name that comes with minigrad]", sys.stderr)
    return str(folder)
