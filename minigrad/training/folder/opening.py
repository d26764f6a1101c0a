"""The settings of a run: those of a new one, or those in the folder of a run to continue."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigrad.data import corpus
from minigrad.distributed.world import ALONE, World
from minigrad.errors import InputError
from minigrad.formats.folders import RECORD, RUNS
from minigrad.options import flag_of
from minigrad.system.locks import FolderLock
from minigrad.system.terminal import quoted
from minigrad.system.units import plural
from minigrad.training.budget import Budget, read_decay
from minigrad.training.folder import checkpoint
from minigrad.training.folder.places import newest_run, refuse_links
from minigrad.training.folder.record import BEST, NOT_STORED, REPORT, Record
from minigrad.training.folder.run_folder import RunFolder
from minigrad.training.settings import LIMITS, TrainConfig


@dataclass(frozen=True)
class Opening:
    """The settings of a run, given by its flags or by the folder that it continues."""

    asked: TrainConfig
    explicit: Collection[str]  # the names of the settings that were given
    folder: RunFolder | None  # None for a new run
    world: World = ALONE

    def describe_end(self) -> str:
        """Return a sentence if the run has ended, with result and report, and nothing more is asked of it; else ""."""
        if self.folder is None:
            return ""
        place, result = self.folder.path, self.folder.record.result
        is_done = self.folder.step == result.get("steps") == self.asked.steps
        asks = self.asked.profile or (self.asked.test and "test_loss" not in result)
        if asks or not is_done or not (place / REPORT).exists():
            return ""
        steps = plural(result["steps"], "step")
        return f"{place} has ended, after {steps}; {self.asked.larger_limit} continues it"


def open_run(
    given: TrainConfig, explicit: Collection[str] | None = None, lock: FolderLock | None = None, world: World = ALONE
) -> Opening:
    """Return the settings of a new run, or of the run to continue; raises InputError for settings that it refuses.

    `explicit` names the settings that were given, by default the settings that differ from their defaults. The given
    batch is that of each process, the returned one that of all.
    """
    if explicit is None:
        explicit = {field.name for field in dataclasses.fields(given) if given.is_changed(field.name)}
    if given.batch:
        given = dataclasses.replace(given, batch=given.batch * world.size)
    if given.resume is not None:
        return _open_existing(given, explicit, lock, world)
    return Opening(_open_new(given, world), explicit, None, world)


def _open_new(given: TrainConfig, world: World) -> TrainConfig:
    """Return the settings of a new run, with ten minutes for a missing limit and the tokenizer of its initial model."""
    given.check_processes(world.size)
    read_decay(given.decay, given.steps)
    changes: dict[str, Any] = _text_of_lessons(given) if given.is_lesson else {}
    if given.steps is None and given.tokens is None and given.minutes is None:
        changes["minutes"] = 10.0
    if given.tokenizer is None:
        changes["tokenizer"] = given.teacher if given.init is None else given.init
    return dataclasses.replace(given, **changes)


def _open_existing(given: TrainConfig, explicit: Collection[str], lock: FolderLock | None, world: World) -> Opening:
    """Return the settings of a run to continue, and the new limit.

    The folder is locked by `lock` before it is read, unless only its plan is wanted; of several processes the first one
    locks it, and the others read it after that. Raises InputError if another process writes into the folder.
    """
    path = Path(given.resume or given.out or newest_run(RUNS, given.model if "model" in explicit else None))
    Record.read(path)  # so that no lock is left in a folder without a run
    refuse_links(path, (checkpoint.folder_of(path), path / BEST))
    if lock is not None and not given.plan and world.rank == 0:
        lock.take(path)
        checkpoint.recover(path)
    world.collect(path)  # the others wait until the folder is recovered
    record = Record.read(path)
    _check_complete(record, path)
    record, settings = _continued(given, explicit, record, path)
    if record.result and checkpoint.newest(path) is None:
        raise InputError(
            f"{path} has ended, and its checkpoints are gone, so it cannot continue; a new run begins from its weights "
            f"with --init {quoted(path)}"
        )
    settings.check_processes(world.size)
    if record.processes != world.size and record.settings.get("threads") is None:
        settings = dataclasses.replace(settings, threads=None)  # chosen anew: other processes share the cores
    return Opening(settings, explicit, RunFolder(path, record, world=world), world)


def _check_complete(record: Record, folder: Path) -> None:
    """Raise InputError for a record without what every run has that continues."""
    used = record.used
    missing = [name for name in ("size", "init") if not used.get(name) and (name == "size" or record.base)]
    if not any(used.get(name) for name in LIMITS):
        missing.append(" or ".join(LIMITS))
    if missing:
        raise InputError(f"{folder / RECORD} is damaged: {missing[0]} is missing")


def _text_of_lessons(given: TrainConfig) -> dict[str, Any]:
    """Return the text beside lessons: that of the run in `init`, unless another one is given."""
    if given.objective != "sft" and given.dropout:
        raise InputError(
            f"--objective {given.objective} computes probabilities of answers without dropout and must learn from "
            "the same model: leave out --dropout"
        )
    if given.replay_text is not None:
        return {}
    known = Record.known(Path(given.init or "")) or Record(data=corpus.DEFAULT)
    return {"replay_text": known.text_name, "held_out": given.held_out or known.used.get("held_out")}


def _continued(given: TrainConfig, named: Collection[str], record: Record, folder: Path) -> tuple[Record, TrainConfig]:
    """Return record and settings of a run to continue; raises InputError with every difference that is refused."""
    if given.test:  # may be given at any time: training does not depend on it
        record = dataclasses.replace(record, settings=record.settings | {"test": True})
    asked, used = record.settings, record.used
    refused, larger = [], {}
    for name in named:
        value = getattr(given, name)
        if name in NOT_STORED or value in (asked.get(name), used.get(name)):
            continue
        limit = "steps" if name == "decay" else name  # the course of a decay belongs to a number of steps
        if limit in LIMITS and used.get(limit) is not None and (getattr(given, limit) or 0) > used[limit]:
            larger[name] = value
        else:
            before = "none" if used.get(name) is None else used[name]
            refused.append(f"{flag_of(name)} {value} (the run has {before})")
    if refused:
        raise InputError(
            f"{folder} was started with other settings: {', '.join(sorted(refused))}. Leave these flags out to "
            f"continue it; only --test and {_with_used(given, record).larger_limit} can be given. Another setting "
            "needs a run of its own (--out)."
        )
    record = _extended(record, larger, folder) if larger else record
    return record, _with_used(given, record)


def _with_used(given: TrainConfig, record: Record) -> TrainConfig:
    """Return the settings in the record of a run, and as given where the record has none."""
    return dataclasses.replace(given, **{name: value for name, value in record.used.items() if name != "decay_start"})


def _extended(record: Record, larger: Mapping[str, Any], folder: Path) -> Record:
    """Return the record of a run that gets a larger limit.

    A finished run continues past its end, which is stored in `stages`: one more command is needed to repeat it. Raises
    InputError while the learning rate decays: no run with the new limit would have taken those steps.
    """
    found, steps = checkpoint.newest(folder), record.used.get("steps")
    step, stages, decays = found[0] if found else 0, list(record.stages), list(record.decays)
    decay = Budget(steps, None, read_decay(record.used.get("decay"), steps)).decay
    if steps is not None and (0 if record.used.get("schedule") == "cosine" else decay[0][0]) < step < steps:
        raise InputError(
            f"{folder} is at step {step:,} of {steps:,}, and its learning rate has begun to decay. Finish it first "
            f"(--resume {quoted(folder)}), then continue with a larger limit."
        )
    if step == steps:
        decays += [""] * (len(stages) - len(decays)) + [record.used.get("decay") or ""]
        stages.append(steps)
    return dataclasses.replace(record.with_limit(larger), stages=stages, decays=decays)
