"""The run folder: created once, never overwritten, and continued only with its own settings."""

from __future__ import annotations

import dataclasses
import errno
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minigrad.data import mixture
from minigrad.data.corpus import Corpus
from minigrad.data.mixture import Mixture
from minigrad.distributed.world import ALONE, World, mpiexec, total
from minigrad.errors import InputError, RunError
from minigrad.kernels.gemm import backend
from minigrad.system import hardware, processors
from minigrad.system.locks import FolderLock
from minigrad.system.terminal import command, phase, say
from minigrad.system.units import plural
from minigrad.training import best
from minigrad.training.budget import Budget, Decay, read_decay, write_decay
from minigrad.training.folder import checkpoint
from minigrad.training.folder.fingerprints import check_beginnings, difference
from minigrad.training.folder.places import RUNS, newest, refuse_existing, refuse_links
from minigrad.training.folder.record import FILE, NOT_STORED, Record
from minigrad.training.planning import costs
from minigrad.training.settings import TrainConfig
from minigrad.typing import Tokenizer

_NO_PLACE = (errno.ENAMETOOLONG, errno.ENOENT)  # no folder can have that name, or be made there, as in /proc
_LIMITS = ("steps", "tokens", "minutes")


@dataclass
class RunFolder:
    """A folder and the record in it, which is written whenever it changes."""

    path: Path
    record: Record
    is_new: bool = False
    world: World = ALONE  # only the first process writes
    lock: FolderLock = field(default_factory=FolderLock)  # held while the run writes

    def begin_or_continue(self, tokenizer: Tokenizer, settings: TrainConfig, lock: FolderLock) -> None:
        """Make and lock the folder of a new run, or store the newly chosen settings in that of a continued one."""
        self.lock = lock
        if self.is_new:
            self.begin(tokenizer, lock)
        else:
            if difference := self.record.difference_in_arithmetic():
                say(difference)
            self.record.note_choices(settings)
            self.record.processes = self.world.size
            self.write()

    def begin(self, tokenizer: Tokenizer, lock: FolderLock) -> None:
        """Make and lock a new run folder with a tokenizer and minigrad.json; from then on the run can be resumed.

        Raises InputError if something is there or no folder can have that name, RunError if it cannot be written.
        """
        if self.world.rank > 0:
            return
        refuse_existing(self.path)
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            lock.take(self.path)
            refuse_existing(self.path)  # another process may have made it since
            tokenizer.save(self.path)
        except OSError as error:
            kind = InputError if error.errno in _NO_PLACE else RunError
            raise kind(f"cannot write the folder {self.path}: {error.strerror or error}") from error
        self.write()

    def keep_tokenizer(self, tokenizer: Tokenizer, folder: Path | None = None) -> None:
        """Write the tokenizer beside weights, by default the latest, if it is missing: they are of no use without."""
        path = (folder or self.path) / "tokenizer.json"
        if not path.exists():
            try:
                tokenizer.save(path.parent)
            except OSError as error:
                raise RunError(f"cannot write {path}: {error.strerror or error}") from error

    def check(self) -> None:
        """Raise RunError if the folder was removed since the run began; write minigrad.json again if that is missing.

        Without this file the run could not be continued from its checkpoints.
        """
        self.lock.check()
        if not (self.path / FILE).exists():
            self.write()

    def write(self) -> None:
        """Replace minigrad.json."""
        if self.world.rank == 0:
            self.record.write(self.path)

    def last_word(self) -> str:
        """Return the message to print if the processes of this run are ended from outside."""
        again = mpiexec(self.world) + command("train.py", "--resume", self.path)
        place = f"the checkpoint of step {self.step:,} is intact" if self.has_checkpoint else "it had saved no step yet"
        return f"train.py: a process of this run ended early, so all did; {place}; continue with: {again}"

    def fix_steps(self, decay: Decay) -> None:
        """Store the number of steps that the clock chose, before it takes effect."""
        self.record.chosen |= {"steps": decay[-1][1], "decay_start": decay[0][0], "decay": write_decay(decay)}
        self.write()

    def check_text(self, found: Mapping[str, str]) -> None:
        """Raise InputError if the run would continue with another text than it began with, or be judged by another.

        `found` are the hashes of the text it would read now (`minigrad.training.folder.fingerprints`).
        """
        if changed := difference(self.record, found):
            raise InputError(
                f"{changed} is not the one that {self.path} began with, so the "
                "run cannot continue as if it had never stopped. Start a new one from its weights: "
                f"--init {self.path} --out DIR"
            )

    @property
    def has_checkpoint(self) -> bool:
        """Whether training can continue from a checkpoint."""
        return checkpoint.latest(self.path) is not None

    @property
    def step(self) -> int:
        """The number of steps of the newest checkpoint, 0 without one."""
        return max(checkpoint.steps(self.path), default=0)


@dataclass(frozen=True)
class Opening:
    """The settings of a run, given by its flags or by the folder that it continues."""

    asked: TrainConfig
    explicit: Collection[str]  # the names of the settings that were given
    folder: RunFolder | None  # None for a new run
    world: World = ALONE

    def measure_machine(self) -> costs.Rates:
        """Choose threads and matmul backend, and return how fast all processes compute together."""
        say(self.compare_threads(), end="")
        threads = self.asked.threads and min(self.asked.threads, processors.count())  # a continued run as it began
        hardware.prepare(threads, self.world.sharing)
        backend.use(self.asked.matmul, self.asked.precision)
        return costs.Rates(*(total(self.world, rate) for rate in costs.measure_rates()))

    def read_corpus(self) -> Corpus | Mixture:
        """Read the documents to train on, and the held-out ones; raises InputError if they are too few."""
        with phase(f"reading {self.asked.text}"):
            try:
                found = mixture.load(self.asked.text, held_out=self.asked.held_out, progress=say)
                mixture.check_enough(found, test=self.asked.test)
                check_beginnings(self.asked, found.split().test)
            except MemoryError:
                raise RunError(
                    f"the memory is too small for the text of {self.asked.text}; give a part of it"
                ) from None
            return found

    def compare_threads(self) -> str:
        """Return a line that says what changes if the run to continue began with more threads than can run here.

        Or in another number of processes.
        """
        threads, most = self.asked.threads or 1, processors.count()
        if self.folder is None:
            return ""
        before, now = self.folder.record.processes, self.world.size
        if before != now:
            return (
                f"this run was trained by {plural(before, 'process')} so far, and is by {now} now: sums are added in "
                "another order, so the weights will differ in their last bits from those of a run that never stopped\n"
            )
        if threads <= most:
            return ""
        return (
            f"this run began with {threads} threads, and this computer has {most}: sums are added in another order, "
            "so the weights will differ in their last bits from those of a run that never stopped\n"
        )


def open_run(
    given: TrainConfig,
    explicit: Collection[str] | None = None,
    lock: FolderLock | None = None,
    world: World = ALONE,
) -> Opening:
    """Return the settings of a new run, or of the run to continue.

    `explicit` names the settings that were given, by default the settings that differ from their defaults. A new run
    without a limit gets ten minutes. The folder of a run to continue is locked by `lock` before it is read, unless only
    its plan is wanted; only the first of several processes locks it, and the others read it after that. The batch that
    is given is that of each process; the returned one is that of all. Raises InputError if another process
    writes into the folder, or for settings that it refuses.
    """
    if explicit is None:
        fields = dataclasses.fields(given)
        explicit = {field.name for field in fields if getattr(given, field.name) != field.default}
    if given.batch:
        given = dataclasses.replace(given, batch=given.batch * world.size)
    if given.resume is not None:
        family = given.model if "model" in explicit else None
        path = Path(given.resume or given.out or newest(RUNS, family))
        Record.read(path)  # so that no lock is left in a folder without a run
        refuse_links(path, (checkpoint.folder_of(path), best.folder_of(path)))
        if lock is not None and not given.plan and world.rank == 0:
            lock.take(path)
            checkpoint.recover(path)
        world.collect(path)  # the others wait until the folder is recovered
        record, settings = _continued(given, explicit, Record.read(path), path)
        settings.check_processes(world.size)
        if record.processes != world.size and record.settings.get("threads") is None:
            settings = dataclasses.replace(settings, threads=None)  # chosen anew: other processes share the cores
        return Opening(settings, explicit, RunFolder(path, record, world=world), world)
    given.check_processes(world.size)
    read_decay(given.decay, given.steps)
    if given.steps is None and given.tokens is None and given.minutes is None:
        given = dataclasses.replace(given, minutes=10.0)
    if given.init is not None and given.tokenizer is None:
        given = dataclasses.replace(given, tokenizer=given.init)
    if given.teacher is not None and given.tokenizer is None:
        given = dataclasses.replace(given, tokenizer=given.teacher)
    if given.is_lesson:
        given = _for_teaching(Path(given.init or ""), given)
    return Opening(given, explicit, None, world)


def _for_teaching(init: Path, given: TrainConfig) -> TrainConfig:
    """Return settings of teaching with the text that the run in `init` was trained on, unless another one is given.

    Answers are drawn, and compared with a reference, without dropout, so they are also learned without: raises
    InputError for dropout with them.
    """
    if given.objective != "sft" and given.dropout:
        raise InputError(
            f"--objective {given.objective} computes probabilities of answers without dropout and must learn from "
            "the same model: leave out --dropout"
        )
    if given.replay_text is not None:
        return given
    known = Record.read(init) if (init / FILE).is_file() else Record(data=TrainConfig.data)
    held_out = given.held_out or known.used.get("held_out")
    return dataclasses.replace(given, replay_text=known.text_name, held_out=held_out)


def _continued(
    given: TrainConfig, explicit: Collection[str], record: Record, folder: Path
) -> tuple[Record, TrainConfig]:
    """Return record and settings of a run to continue: its own, with a larger limit if one was given.

    Raises InputError listing every difference that is refused.
    """
    if given.test:  # may be given at any time: training does not depend on it
        record = dataclasses.replace(record, settings=record.settings | {"test": True})
    asked, used = record.settings, record.used
    refused, larger = [], {}
    for name in explicit:
        value = getattr(given, name)
        if name in NOT_STORED or value in (asked.get(name), used.get(name)):
            continue
        limit = "steps" if name == "decay" else name  # the course of a decay belongs to a number of steps
        if limit in _LIMITS and used.get(limit) is not None and (getattr(given, limit) or 0) > used[limit]:
            larger[name] = value
        else:
            before = "none" if used.get(name) is None else used[name]
            refused.append(f"--{name.replace('_', '-')} {value} (the run has {before})")
    if refused:
        raise InputError(
            f"{folder} was started with other settings: {', '.join(sorted(refused))}. Leave these flags out to "
            "continue it; only --test and a larger --steps, --tokens or --minutes can be given. Another setting needs "
            "a run of its own (--out)."
        )
    record = _extended(record, larger, folder) if larger else record
    used = {name: value for name, value in record.used.items() if name != "decay_start"}
    return record, dataclasses.replace(given, **used)


def _extended(record: Record, larger: Mapping[str, Any], folder: Path) -> Record:
    """Return the record of a run that gets a larger limit.

    A finished run continues past its end, which is stored in `stages`: one more command is needed to repeat it. Raises
    InputError while the learning rate decays: no run with the new limit would have taken those steps.
    """
    saved, steps = checkpoint.steps(folder), record.used.get("steps")
    step, stages, decays = saved[-1] if saved else 0, list(record.stages), list(record.decays)
    decay = Budget(steps, None, read_decay(record.used.get("decay"), steps)).decay
    if steps is not None and (0 if record.used.get("schedule") == "cosine" else decay[0][0]) < step < steps:
        raise InputError(
            f"{folder} is at step {step:,} of {steps:,}, and its learning rate has begun to decay. Finish it first "
            f"(--resume {folder}), then continue with a larger limit."
        )
    if step == steps:
        decays += [""] * (len(stages) - len(decays)) + [record.used.get("decay") or ""]
        stages.append(steps)
    return dataclasses.replace(record.with_limit(larger, (*_LIMITS, "decay")), stages=stages, decays=decays)
