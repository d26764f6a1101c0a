"""Checkpoints that survive a kill at any moment: safetensors for arrays, JSON for the rest, never a pickle.

A file is written under a temporary name, pushed to the disk (fsync) and then renamed; a rename happens wholly
or not at all, so a reader sees the old file or the new one. Renaming before the fsync would not do: after a
power cut the new name could stand on an empty file. A checkpoint is a folder of three files, renamed as one:

    checkpoints/40/   model.safetensors   optimizer.safetensors   state.json
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import save_file

from minigrad.errors import InputError, RunError
from minigrad.tensor_file import read_tensors

Arrays = Mapping[str, NDArray[Any]]
PathLike = str | os.PathLike[str]


def write_text(path: PathLike, text: str) -> None:
    """Replace the file at `path` by `text` in UTF-8, wholly or not at all; RunError if the disk refuses."""
    with _replacing(Path(path)) as temporary:
        _write_text(temporary, text)


def write_json(path: PathLike, value: Any) -> None:
    """Replace the file at `path` by `value` as indented JSON, wholly or not at all.

    Raises ValueError for NaN and infinity, which JSON cannot hold, and RunError if the disk refuses.
    """
    write_text(path, _as_json(value))


def save_tensors(path: PathLike, arrays: Arrays, metadata: Mapping[str, str] | None = None) -> None:
    """Replace the safetensors file at `path` by `arrays`, wholly or not at all; RunError if the disk refuses.

    The `metadata` of the file's header is {"format": "pt"} by default, without which transformers refuses it.
    """
    with _replacing(Path(path)) as temporary:
        _write_tensors(temporary, arrays, metadata)


@contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    temporary = path.with_name(f".{path.name}.tmp")  # a fixed name: what a kill leaves is overwritten
    try:
        yield temporary
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise RunError(f"cannot write {path}: {_reason(error)}") from error


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, allow_nan=False) + "\n"


def _write_text(path: Path, text: str) -> None:
    with path.open("wb") as file:  # bytes, so that a line ends the same way on every system
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def _write_tensors(path: Path, arrays: Arrays, metadata: Mapping[str, str] | None = None) -> None:
    contiguous = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    path.touch()  # with the permissions that a new file has here: safetensors would keep it from all other users
    permissions = path.stat().st_mode
    try:
        save_file(contiguous, path, metadata=dict(metadata or {"format": "pt"}))
    except SafetensorError as error:
        raise OSError(str(error)) from error
    path.chmod(permissions)
    with path.open("rb+") as file:
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name == "nt":  # Windows opens no folders; its file system keeps a journal of names instead
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _reason(error: OSError) -> str:
    return error.strerror or str(error)


@dataclass(frozen=True)
class Checkpoint:
    """Everything needed to continue a run as if it had never stopped."""

    step: int
    weights: dict[str, NDArray[Any]]
    moments: dict[str, NDArray[Any]]  # what the optimizer remembers of past gradients
    state: dict[str, Any]


def steps(run: PathLike) -> list[int]:
    """Return the steps of which the run folder `run` holds a checkpoint, oldest first."""
    folder = Path(run) / "checkpoints"
    _bring_back(folder)
    return sorted(int(entry.name) for entry in folder.glob("*") if entry.name.isdecimal() and entry.is_dir())


def latest(run: PathLike) -> Path | None:
    """Return the folder of the newest checkpoint of `run`, or None if there is none."""
    saved = steps(run)
    return Path(run) / "checkpoints" / str(saved[-1]) if saved else None


def save(
    run: PathLike, step: int, *, weights: Arrays, moments: Arrays, state: Mapping[str, Any], keep: int = 2
) -> Path:
    """Save the checkpoint of `step`, then remove all but the newest `keep`; return its folder.

    Raises RunError if the disk refuses (full, read-only); the checkpoints saved before are then intact.
    """
    folder = Path(run) / "checkpoints"
    final, temporary, parked = folder / str(step), folder / f".{step}.tmp", folder / f".{step}.replaced"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        _bring_back(folder)
        for leftover in folder.glob(".[0-9]*"):
            shutil.rmtree(leftover)
        temporary.mkdir()
        _write_tensors(temporary / "model.safetensors", weights)
        _write_tensors(temporary / "optimizer.safetensors", moments)
        _write_text(temporary / "state.json", _as_json({"step": step, "state": dict(state)}))
        _sync_folder(temporary)
        if final.exists():  # no folder can be renamed onto a full one, so the old one steps aside first
            final.rename(parked)
        temporary.rename(final)
        _sync_folder(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        saved = steps(run)
        rest = f"the checkpoint of step {saved[-1]} is intact" if saved else "there is no earlier checkpoint"
        raise RunError(f"cannot save step {step} in {folder}: {_reason(error)}; {rest}") from error
    shutil.rmtree(parked, ignore_errors=True)
    saved = steps(run)
    for old in {*saved[: max(0, len(saved) - keep)]} - {step}:
        # Renamed first: a kill while deleting must not leave half a checkpoint under a good name.
        with suppress(OSError):  # an old checkpoint that stays costs room, nothing else
            shutil.rmtree((folder / str(old)).rename(folder / f".{old}.tmp"))
    return final


def _bring_back(folder: Path) -> None:
    """Undo a kill that fell between setting an old checkpoint aside and putting the new one in its place."""
    for parked in folder.glob(".*.replaced"):
        final = folder / parked.name.removeprefix(".").removesuffix(".replaced")
        if not final.exists():
            parked.rename(final)


def load(run: PathLike, step: int | None = None) -> Checkpoint:
    """Return the checkpoint of `step`, by default the newest; InputError if none or damaged."""
    saved = steps(run)
    if not saved:
        raise InputError(f"{run} holds no checkpoint: no run folder, or one stopped before its first save")
    step = saved[-1] if step is None else step
    if step not in saved:
        raise InputError(f"{run} holds no checkpoint of step {step}; it has {', '.join(map(str, saved))}")
    folder = Path(run) / "checkpoints" / str(step)
    try:
        weights = read_weights(folder / "model.safetensors")
        moments = read_weights(folder / "optimizer.safetensors")
        content = read_json(folder / "state.json")
        if content.get("step") != step or not isinstance(content.get("state"), dict):
            raise InputError(f"{folder / 'state.json'} is not the state of step {step}")
    except InputError as error:
        older = [each for each in saved if each < step]
        way_out = f"to continue from step {older[-1]}" if older else "and train again; no older one is left"
        raise InputError(f"{error}. Delete the folder {folder} {way_out}.") from error
    return Checkpoint(step, weights, moments, content["state"])


def read_weights(source: PathLike) -> dict[str, NDArray[Any]]:
    """Return the arrays of a safetensors file, or of a folder with model.safetensors whole or in shards.

    float16 and bfloat16 widen to float32. Raises InputError for a missing, damaged or foreign file.
    """
    path = Path(source)
    whole, index = path / "model.safetensors", path / "model.safetensors.index.json"
    if whole.exists() or not path.is_dir():
        return read_tensors(whole if whole.exists() else path)
    if not index.exists():
        pickled = "pickled weights (.bin, .pt) are never loaded, as a pickle can run any program"
        raise InputError(f"{path} holds neither {whole.name} nor {index.name}; {pickled}")
    weight_map = read_json(index).get("weight_map")
    if not isinstance(weight_map, dict):
        raise InputError(f"{index} holds no weight_map from names to files")
    weights: dict[str, NDArray[Any]] = {}
    for shard in sorted(set(weight_map.values())):
        weights |= read_tensors(path / shard)
    missing = [name for name in weight_map if name not in weights]
    if missing:
        raise InputError(f"{index} promises weights that its files do not hold: {_some(missing)}")
    return weights


def check_names(weights: Arrays, expected: Mapping[str, tuple[int, ...]]) -> None:
    """Raise InputError unless `weights` holds exactly the `expected` names, each with the expected shape."""
    lists = {
        "missing": [name for name in expected if name not in weights],
        "unexpected": [name for name in weights if name not in expected],
        "of another shape": [
            f"{name} is {weights[name].shape}, should be {shape}"
            for name, shape in expected.items()
            if name in weights and weights[name].shape != shape
        ],
    }
    problems = [f"{title}: {_some(found)}" for title, found in lists.items() if found]
    if problems:
        raise InputError(f"the weights do not fit the model: {'; '.join(problems)}")


def _some(items: list[str]) -> str:
    return ", ".join(items[:5]) + (f" and {len(items) - 5} more" if len(items) > 5 else "")


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; InputError if it is missing, damaged or something else."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {_reason(error)}") from error
    except ValueError as error:
        raise InputError(f"{path} is damaged or not JSON: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"{path} holds no JSON object")
    return content
