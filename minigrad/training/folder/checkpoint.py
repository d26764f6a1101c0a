"""Checkpoints that survive a kill at any moment: safetensors for arrays, JSON for the rest, never a pickle.

A checkpoint is a folder of three files, written under a temporary name, synced to the disk and renamed as one:

    checkpoints/40/   model.safetensors   optimizer.safetensors   state.json
"""

from __future__ import annotations

import dataclasses
import re
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minigrad.errors import InputError, RunError
from minigrad.evaluate.losses import bits_per_byte
from minigrad.formats.json_files import as_json, read_json
from minigrad.formats.safetensors import write_tensors
from minigrad.formats.typed import read_dataclass
from minigrad.formats.weights import read_weights
from minigrad.options import REQUIRED, option
from minigrad.system.files import move, reason, sync_file, sync_folder
from minigrad.typing import Array, Arrays, PathLike


@dataclass(frozen=True)
class Checkpoint:
    """Everything needed to continue a run as if it had never stopped."""

    step: int
    weights: dict[str, Array]
    moments: dict[str, Array]  # of the optimizer: running means of past gradients and of their squares
    state: dict[str, Any]


def folder_of(run: PathLike) -> Path:
    """Return the folder of the checkpoints of a run."""
    return Path(run) / "checkpoints"


def steps(run: PathLike) -> list[int]:
    """Return the steps with a checkpoint in the run folder `run`, oldest first."""
    return sorted(_folders(run))


def newest(run: PathLike) -> tuple[int, Path] | None:
    """Return the step and the folder of the newest checkpoint of `run`, or None if there is none."""
    return max(_folders(run).items(), default=None)


def _folders(run: PathLike) -> dict[int, Path]:
    """Return the folder of each checkpoint by its step; nothing is changed.

    After a kill between the two renames of `save`, an old checkpoint still has the name that `save` gave it.
    """
    folders: dict[int, Path] = {}
    for entry in folder_of(run).glob("*"):
        number = entry.name.removeprefix(".").removesuffix(".replaced")
        is_name = entry.name in (number, _parked(number)) and re.fullmatch("0|[1-9][0-9]{0,17}", number)
        if is_name and entry.is_dir() and (entry.name == number or int(number) not in folders):
            folders[int(number)] = entry
    return folders


def recover(run: PathLike) -> None:
    """Repair the folder after a kill between the two renames of `save`; only the process that writes may do so."""
    for step, folder in _folders(run).items():
        if folder.name != str(step):
            move(folder, folder.with_name(str(step)))


def _parked(name: object) -> str:
    """Return the name of an old checkpoint while a new one takes its place."""
    return f".{name}.replaced"


def describe_last(run: PathLike) -> str:
    """Say which checkpoint survives a failure now.

    >>> describe_last("runs/none")
    'no checkpoint was saved yet'
    """
    found = newest(run)
    return f"the checkpoint of step {found[0]:,} is intact" if found else "no checkpoint was saved yet"


def save(run: PathLike, step: int, *, weights: Arrays, moments: Arrays, state: Mapping[str, Any]) -> Path:
    """Save the checkpoint of `step` and return its folder; then remove all but the two newest and this one.

    Raises RunError if it cannot be written (disk full or read-only); the earlier checkpoints are then intact.
    """
    folder = folder_of(run)
    final, temporary, parked = folder / str(step), folder / f".{step}.tmp", folder / _parked(step)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        recover(run)
        for leftover in folder.glob(".[0-9]*"):
            _remove(leftover)
        temporary.mkdir()
        write_tensors(temporary / "model.safetensors", weights)
        write_tensors(temporary / "optimizer.safetensors", moments)
        (temporary / "state.json").write_bytes(as_json({"step": step, "state": dict(state)}).encode())
        for file in temporary.iterdir():
            sync_file(file)
        sync_folder(temporary)
        if final.exists():  # a folder cannot be renamed onto one that is not empty, so the old one is renamed first
            move(final, parked)
        move(temporary, final)
        sync_folder(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        with suppress(OSError):
            recover(run)
        raise RunError(f"cannot save step {step:,} in {folder}: {reason(error)}; {describe_last(run)}") from error
    with suppress(OSError):  # as an old checkpoint that cannot be removed
        _remove(parked)
    for old in {*steps(run)[:-2]} - {step}:
        # Renamed first: a kill while deleting must not leave an incomplete checkpoint under its name.
        with suppress(OSError):  # an old checkpoint that cannot be removed only takes up disk space
            _remove(move(folder / str(old), folder / f".{old}.tmp"))
    return final


def _remove(path: Path) -> None:
    """Remove a folder with everything in it, or a file, or a link but not its target."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def load(run: PathLike) -> Checkpoint:
    """Return the newest checkpoint; raises InputError if there is none or it is damaged."""
    if (found := newest(run)) is None:
        raise InputError(f"{run} holds no checkpoint: it is not a run folder, or the run stopped before its first save")
    step, folder = found
    with naming_older(run, step):
        weights = read_weights(folder / "model.safetensors")
        moments = read_weights(folder / "optimizer.safetensors")
        return Checkpoint(step, weights, moments, _state(folder, step))


def seconds(run: PathLike) -> float:
    """Return the seconds that a run had used at its newest checkpoint, 0 without one; InputError if it is damaged."""
    if (found := newest(run)) is None:
        return 0.0
    step, folder = found
    with naming_older(run, step):
        state = _state(folder, step)
    return State.read(Checkpoint(step, {}, {}, state), run).seconds


def _state(folder: Path, step: int) -> dict[str, Any]:
    """Return the state in the folder of a checkpoint; raises InputError if it is that of another step, or damaged."""
    content = read_json(folder / "state.json")
    if content.get("step") != step or not isinstance(state := content.get("state"), dict):
        raise InputError(f"{folder / 'state.json'} is not the state of step {step}")
    return state


@contextmanager
def naming_older(run: PathLike, step: int) -> Iterator[None]:
    """Return a context in which an InputError about a checkpoint also names the older one that takes its place."""
    try:
        yield
    except InputError as error:
        older = [each for each in steps(run) if each < step]
        way_out = f"to continue from step {older[-1]}" if older else "and train again; no older one is left"
        raise InputError(f"{error}. Delete the folder {_folders(run)[step]} {way_out}.") from error


@dataclass
class Totals:
    """Sums over the steps since the last line of metrics: losses in nats, bytes of the targets, mean losses."""

    nats: float = option(0.0, "losses of all targets; below 0 where some count against, as answers without a reward do")
    bytes: float = option(0.0, "bytes of the text of all targets", at_least=0)
    loss: float = option(0.0, "mean losses of the steps")
    steps: float = option(0.0, "steps", at_least=0)

    def add_step(self, nats: float, num_bytes: float, loss: float) -> None:
        """Add the sums of one step; `loss` is its mean loss in nats per token."""
        self.nats += nats
        self.bytes += num_bytes
        self.loss += loss
        self.steps += 1

    @property
    def mean_loss(self) -> float:
        """The mean over the steps, in nats per token."""
        return self.loss / self.steps

    @property
    def bits_per_byte(self) -> float:
        """The loss over these steps in bits per byte of the text."""
        return bits_per_byte(self.nats, self.bytes)


@dataclass(frozen=True)
class Sample:
    """A text that the model generated, and the step after which it did."""

    step: int = option(REQUIRED, "the number of steps taken", at_least=0)
    text: str = option(REQUIRED, "the prompt and its continuation")


@dataclass(frozen=True)
class QuickEvaluation:
    """An evaluation during training, on a part of the validation text.

    A run notes the last one and the best one: a model that memorises a small text gets worse on other text.
    """

    step: int = option(REQUIRED, "the number of steps taken", at_least=0)
    bits_per_byte: float = option(REQUIRED, "of the validation text that is read during training")


@dataclass(frozen=True)
class State:
    """The content of state.json, but for the states of guests."""

    updates: int = option(REQUIRED, "updates that the optimizer has made", at_least=0, at_most=10**15)
    seconds: float = option(REQUIRED, "used so far by all processes of the run", at_least=0, at_most=1e12)
    since_logged: Totals = field(default_factory=Totals)
    samples: list[Sample] = field(default_factory=list)
    best: QuickEvaluation | None = None  # the best evaluation, if there was one

    def as_dict(self, guests: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Return the state for a checkpoint, with the states of guests by their names."""
        state = dataclasses.asdict(self)
        best = state.pop("best")
        return state | dict(guests or {}) | ({} if best is None else {"best": best})

    @classmethod
    def read(cls, saved: Checkpoint, folder: PathLike, guests: Collection[str] | None = None) -> State:
        """Return the state of a checkpoint; raises InputError if a value is missing or damaged.

        `guests` are those of the run that continues; by default any guest may have a state.
        """
        ours = {each.name for each in dataclasses.fields(cls)}
        others = saved.state.keys() - ours
        if guests is not None and (unknown := others.difference(guests)):
            raise InputError(
                f"step {saved.step} in {folder} has a state called {min(unknown)!r}, which this program does not know: "
                "continue with the program, and the guests, that the run began with"
            )
        values = {name: value for name, value in saved.state.items() if name in ours}
        try:
            return read_dataclass(cls, {"best": None} | values, complete=True)
        except InputError as error:
            raise InputError(f"state.json of step {saved.step} in {folder} is damaged: {error}") from None
