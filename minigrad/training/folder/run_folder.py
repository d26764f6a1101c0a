"""The run folder, created once and never overwritten, and hashes of its data, which a continued run compares."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from minigrad.data import corpus, mixture
from minigrad.data.split import digest_of
from minigrad.data.tokens.token_files import TokenFile
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.distributed.world import ALONE, World, check_agreement, mpiexec
from minigrad.errors import InputError, RunError
from minigrad.formats.folders import RECORD
from minigrad.options import flag_of
from minigrad.system.files import reason
from minigrad.system.locks import LOCK_FILE, FolderLock
from minigrad.system.terminal import command, in_lines, quoted, say
from minigrad.training.budget import Decay, write_decay
from minigrad.training.folder import checkpoint
from minigrad.training.folder.places import lock_new, lock_unused
from minigrad.training.folder.record import BEST, Record, beginnings, stored
from minigrad.training.settings import TrainConfig
from minigrad.typing import Tokenizer


def fingerprints(text: TokenizedCorpus, lessons: str, base: str) -> dict[str, str]:
    """Return the hashes of a run's data, under the names of their fields in the record."""
    texts = {"text": text.train.digest, "validation_text": text.validation.digest}
    return texts | {"test_text": of_test(text.corpus.split().test), "lessons": lessons, "base": base}


def check_processes_agree(world: World, settings: TrainConfig, found: Mapping[str, str]) -> None:
    """Raise InputError if processes have other settings, but for `threads`, or other `fingerprints` of their data."""
    if world.size > 1:
        facts = {flag_of(name): value for name, value in stored(settings).items()}
        texts = {f"the {name.replace('_', ' ')}, by its hash": value for name, value in found.items()}
        check_agreement(world, texts | facts | {"--threads": None})


def difference(record: Record, found: Mapping[str, str]) -> str:
    """Return what a run would now read that it did not read before, in words, or ""; `found`: its `fingerprints`."""
    name = record.text_name
    if record.text != found["text"]:
        if found["test_text"] and not record.test_text:  # the run began before there was a test
            return f"the text of {name}, now without a part that is held out for the test,"
        return f"the text of {name}, the tokenizer, or the way in which minigrad encodes the text,"
    if record.base != found["base"]:
        return f"the model in {record.used['init']}"
    if record.lessons != found["lessons"]:
        if teacher := record.used.get("teacher"):
            return f"the model in {teacher}"
        compares = record.used.get("replay") or record.used.get("objective") in ("dpo", "grpo")
        or_model = f", or the model in {record.used['init']}," if compares else ""
        return f"what minigrad teaches from {record.data}{or_model}"
    for part in ("validation", "test"):
        if getattr(record, f"{part}_text") not in ("", found[f"{part}_text"]):
            return f"the {part} text of {record.used.get('held_out') or name}"
    return ""


def check_beginnings(settings: TrainConfig, test: Iterable[str]) -> None:
    """Raise InputError if a test is wanted, and one of the `beginnings` was trained on the test text."""
    if not settings.test:
        return
    found = of_test(test)
    for folder, record in beginnings(init=settings.init, teacher=settings.teacher):
        if may_have_read(record, settings) and record.test_text != found:
            raise InputError(
                f"the model in {folder} was trained on text that is now for the test, so a test would tell nothing: "
                "leave out --test"
            )


def describe_caution(settings: TrainConfig, validation: TokenFile) -> str:
    """Return a warning if one of the `beginnings` may have been trained on the validation text, else "".

    What it held out has other tokens. The documentation of another Python is such a text.
    """
    name, found = settings.held_out or settings.text_name, validation.digest
    for folder, record in beginnings(init=settings.init, teacher=settings.teacher):
        if may_have_read(record, settings) and record.validation_text not in ("", found):
            return (
                f"the validation text of {name} is not the one that the model in {folder} held out: it held out "
                "another text, or the text has changed, or Python has another version. That model may have been "
                "trained on part of it, so these scores may be too good; --held-out names another text"
            )
    return ""


def may_have_read(record: Record, settings: TrainConfig) -> bool:
    """Whether a recorded run may have been trained on text that these settings hold out, if its own is another.

    A text that is split by itself, in both runs, has the same parts in each, alone or beside others.
    """
    held_out = record.used.get("held_out")
    own = None if held_out is None else corpus.identity(held_out, record.started_in)
    now = None if settings.held_out is None else corpus.identity(settings.held_out)
    read, reads = mixture.identities(record.text_name, record.started_in), mixture.identities(settings.text_name)
    if own is None and now is None and read != reads:
        return False
    judged = {now} if now else set(reads)
    has_changed = own in judged and (own == now or own in corpus.NAMES)  # so the run left other paragraphs out
    return has_changed or not judged.isdisjoint(read)


def of_test(documents: Iterable[str]) -> str:
    """Return a hash of test documents, which need not be encoded for it; "" where there are none."""
    documents = tuple(documents)
    return digest_of(documents) if documents else ""


@contextlib.contextmanager
def _emptied_on_error(folder: Path) -> Iterator[None]:
    """Return a context that removes the files of a new folder, but for its lock, if an error or Ctrl-C ends it."""
    try:
        yield
    except BaseException:
        for path in folder.iterdir():
            if path.name != LOCK_FILE:
                path.unlink()
        raise


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
            self.begin(tokenizer, "" if settings.out else f"{settings.model}-{settings.size}")
            return
        if warning := self.record.difference_in_arithmetic():
            say(in_lines("", warning))
        self.record.note_choices(settings)
        self.record.processes = self.world.size
        self.write()

    def begin(self, tokenizer: Tokenizer, name: str = "") -> None:
        """Make and lock a new run folder with a tokenizer and minigrad.json; from then on the run can be resumed.

        With a `name`, the folder is an unused one of that name: another run may have begun in `path` since it was
        planned. Raises InputError if something is there or no folder can have that name, RunError if it cannot be
        written. The folder is empty again if this is interrupted.
        """
        if self.world.rank == 0:
            planned = self.path
            try:
                if name:
                    self.path = lock_unused(name, self.lock)
                else:
                    lock_new(self.path, self.lock)
                with _emptied_on_error(self.path):
                    tokenizer.save(self.path)
                    self.write()
            except OSError as error:
                kind = InputError if error.errno in _NO_PLACE else RunError
                raise kind(f"cannot write the folder {self.path}: {reason(error)}") from error
            if self.path != planned:
                say(f"the run folder is {self.path}: other runs began or were removed since {planned} was planned")
        self.path = self.world.share(self.path)

    def check(self) -> None:
        """Raise RunError if the folder was removed since the run began; write minigrad.json again if it is missing."""
        self.lock.check()
        if not (self.path / RECORD).exists():
            self.write()

    def write(self) -> None:
        """Replace minigrad.json."""
        if self.world.rank == 0:
            self.record.write(self.path)

    def last_word(self) -> str:
        """Return the message to print if the processes of this run are ended from outside."""
        again = mpiexec(self.world) + command("train.py", "--resume", self.path)
        last = checkpoint.describe_last(self.path)
        return f"train.py: a process of this run ended early, so all did; {last}; continue with: {again}"

    def fix_steps(self, decay: Decay) -> None:
        """Store the number of steps that the clock chose, before it takes effect."""
        self.record.chosen |= {"steps": decay[-1][1], "decay_start": decay[0][0], "decay": write_decay(decay)}
        self.write()

    def check_text(self, found: Mapping[str, str]) -> None:
        """Raise InputError if the run would not continue with the data that it began with; `found`: `fingerprints`."""
        if not (changed := difference(self.record, found)):
            return
        init, rank = self.record.used.get("init"), self.record.used.get("adapter_rank")
        if self.record.base == found["base"]:
            way_out = f"Start a new one from its weights: --init {quoted(self.path)} --out DIR"
        else:  # the adapters would change a model that they were not trained for
            way_out = f"Its adapters belong to the model that was in {init}: put that one back, or train new adapters: "
            way_out += f"--init {quoted(Path(str(init)))} --adapter-rank {rank} --out DIR"
        raise InputError(
            f"{changed} is not the one that {self.path} began with, so the run cannot continue as if it had never "
            f"stopped. {way_out}"
        )

    @property
    def best(self) -> Path:
        """The folder of the best model; it can be loaded like any other."""
        return self.path / BEST

    @property
    def has_checkpoint(self) -> bool:
        """Whether training can continue from a checkpoint."""
        return checkpoint.newest(self.path) is not None

    @property
    def step(self) -> int:
        """The number of steps of the newest checkpoint, 0 without one."""
        found = checkpoint.newest(self.path)
        return found[0] if found else 0
