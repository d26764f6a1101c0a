"""The run folder: created once, and never overwritten."""

from __future__ import annotations

import errno
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from minigrad.distributed.world import ALONE, World, mpiexec
from minigrad.errors import InputError, RunError
from minigrad.system.locks import FolderLock
from minigrad.system.terminal import command, say
from minigrad.training.budget import Decay, write_decay
from minigrad.training.folder import checkpoint
from minigrad.training.folder.fingerprints import difference
from minigrad.training.folder.places import refuse_existing
from minigrad.training.folder.record import FILE, Record
from minigrad.training.settings import TrainConfig
from minigrad.typing import Tokenizer

_NO_PLACE = (errno.ENAMETOOLONG, errno.ENOENT)  # no folder can have that name, or be made there, as in /proc


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
    def best(self) -> Path:
        """The folder of the best model; it can be loaded like any other."""
        return self.path / "best"

    @property
    def has_checkpoint(self) -> bool:
        """Whether training can continue from a checkpoint."""
        return checkpoint.latest(self.path) is not None

    @property
    def step(self) -> int:
        """The number of steps of the newest checkpoint, 0 without one."""
        return max(checkpoint.steps(self.path), default=0)
