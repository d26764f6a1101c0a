"""Folders of models and of runs: which one holds a model, and which one a mistyped path was meant for.

Names in a command are checked before NumPy and Numba are loaded, so only the standard library is needed here.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from minigrad.errors import InputError
from minigrad.options import nearest

RUNS = Path("runs")
"""The folder of the run folders that get no name of their own (--out)."""

RECORD = "minigrad.json"
"""The file with which a run begins, before it has weights."""

CONFIG, ADAPTERS = "config.json", "adapter_config.json"


def check_folder(folder: Path) -> None:
    """Raise InputError for a folder without a model or adapters, with the folders that may have been meant."""
    config = folder / CONFIG
    if config.exists() or (folder / ADAPTERS).exists():
        return
    if config.is_symlink():
        raise InputError(f"{config} is a link to {config.readlink()}, where there is no file")
    if (folder / RECORD).exists():
        raise InputError(f"{folder} has no weights yet: its training has not reached the first checkpoint")
    inside = " or ".join(str(found.parent) for found in sorted(folder.glob(f"*/{CONFIG}"))[:5])
    hint = f"; did you mean {inside}?" if inside else did_you_mean(folder, CONFIG)
    if not folder.exists():
        way_out = "train.py makes such folders, and vidya-v2-nano comes with minigrad"
        raise InputError(f"there is no folder {folder}{hint or f'; {way_out}'}")
    raise InputError(f"{folder} is not a run folder: it has no {CONFIG}{hint}")


def did_you_mean(folder: Path, file: str, names: Iterable[str] = ()) -> str:
    """Return "; did you mean runs/nano?" for a folder without a `file`, or "" if no other could be meant.

    That is the run folder around it; else a folder of a similar name, which has a `file` and is beside it or in `RUNS`,
    or is one of `names`.
    """
    if (run := next((place for place in folder.parents if (place / RECORD).is_file()), None)) is not None:
        return f"; did you mean {run}?"
    known = {name: Path(name) for name in names}
    for place in (RUNS, folder.parent):
        known |= {found.parent.name: found.parent for found in place.glob(f"*/{file}")}
    closest = nearest(folder.name, known)
    return f"; did you mean {known[closest]}?" if closest else ""
