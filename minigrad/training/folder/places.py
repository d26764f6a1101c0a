"""The files and folders of a run. Names in a command are checked before NumPy and Numba are loaded."""

from __future__ import annotations

import contextlib
import itertools
import os
import re
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path

from minigrad.data import corpus, mixture
from minigrad.errors import InputError
from minigrad.formats.folders import RECORD, RUNS, check_folder
from minigrad.system.files import kind_of, reason
from minigrad.system.locks import LOCK_FILE, FolderLock
from minigrad.system.terminal import command, quoted
from minigrad.training.folder.record import Record
from minigrad.training.settings import REWARDED, TrainConfig


def check_places(settings: TrainConfig, tokenizers: Collection[str] = ()) -> None:
    """Raise InputError for the first file or folder in the settings that cannot be used; nothing is written.

    `tokenizers` are names of tokenizers that need no path.
    """
    if settings.resume is not None:  # text, tokenizer and initial weights are those of its folder
        if settings.resume:
            check_texts(Record.read(Path(settings.resume)))
        return
    if settings.is_lesson and settings.objective not in REWARDED and not settings.data.startswith("task:"):
        _check_conversations(settings)
    texts = [] if settings.is_lesson or settings.data == "auto" else [*mixture.parse_shares(settings.data)]
    texts += [] if settings.held_out is None else [settings.held_out]
    texts += [] if settings.replay_text is None else mixture.parse_shares(settings.replay_text, "--replay-text")
    for text in texts:
        corpus.check_name(text)
    if settings.is_lesson and settings.replay_text is None and (record := Record.known(Path(settings.init or ""))):
        check_texts(record, ", or give --replay-text")
    known = settings.trains_tokenizer or settings.tokenizer in tokenizers
    if settings.tokenizer is not None and not known:
        try:
            Path(settings.tokenizer).stat()
        except OSError as error:
            raise InputError(f"cannot read {settings.tokenizer}: {reason(error)}.") from None
    for flag, name in (("init", settings.init), ("teacher", settings.teacher)):
        if name is not None and not os.path.isdir(name):  # noqa: PTH112  (False for a name that no folder can have)
            raise InputError(f"--{flag} {name} is not a folder; name a run folder, or a Hugging Face folder")
        if name is not None:
            check_folder(Path(name))
    if settings.out is not None and not settings.plan:
        refuse_existing(Path(settings.out))


def _check_conversations(settings: TrainConfig) -> None:
    """Raise InputError if --data of lessons is not a file; what is in it is checked later."""
    is_dpo = settings.objective == "dpo"
    expected = "pairs of a chosen and a rejected answer" if is_dpo else "a file of conversations, or task:NAME"
    if settings.data in ("auto", *corpus.NAMES):
        raise InputError(f"--objective {settings.objective} needs --data FILE, {expected}")
    if not corpus.exists(settings.data):
        raise InputError(f"there is no file {settings.data}. {corpus.closest(settings.data)}Expected {expected}")
    if Path(settings.data).is_dir():
        raise InputError(f"{settings.data} is a folder; expected {expected}")


def check_texts(record: Record, otherwise: str = "", *, to_judge: bool = False) -> None:
    """Raise InputError if a text of a recorded run is not found from here; `otherwise` adds a way out.

    `to_judge` asks only for what the run held out.
    """
    held_out = record.used.get("held_out")
    trained_on = [] if to_judge and held_out else mixture.parse_shares(record.text_name)
    for text in (*trained_on, held_out):
        if text and not corpus.is_known(text) and not Path(text).is_absolute():
            raise InputError(
                f"the run reads {text!r}, a path relative to the folder in which it was started; give the command "
                f"there{otherwise}"
            )


def refuse_existing(folder: Path) -> None:
    """Raise InputError if `folder` exists and is not empty, or cannot be made: a run is never overwritten."""
    if folder.is_dir() and _is_in_use(folder):
        way_out = f"continue it with --resume {quoted(folder)}, or " if (folder / RECORD).exists() else ""
        raise InputError(f"{folder} exists and is left as it is: {way_out}choose another --out")
    _refuse_impossible(folder)


def _refuse_impossible(folder: Path) -> None:
    """Raise InputError if `folder` cannot be made or written: what is in its place or above it does not allow it."""
    found = next((place for place in (folder, *folder.parents) if place.is_symlink() or place.exists()), None)
    if found is None or (found.is_dir() and os.access(found, os.W_OK)):
        return
    if found.is_dir():
        raise InputError(f"--out {folder} cannot be written, because {found} may not be written to")
    kind = kind_of(found.stat().st_mode) if found.exists() else "a link that leads nowhere"
    if found == folder:
        raise InputError(f"--out {folder} is {kind}; name a folder")
    raise InputError(f"--out {folder} cannot be made, because {found} is {kind}")


def refuse_links(run: Path, folders: Iterable[Path]) -> None:
    """Raise InputError if a folder in that of a run, into which it writes, is a link to one elsewhere."""
    for folder in folders:
        place = os.path.realpath(folder)
        if place != os.path.join(os.path.realpath(run), folder.name):  # noqa: PTH118
            raise InputError(
                f"{folder} is a link to {place}, and a run writes and removes files in its own folder only; put that "
                "folder in the place of the link"
            )


@contextlib.contextmanager
def naming_run(lock: FolderLock, launcher: str = "") -> Iterator[None]:
    """Return a context in which Ctrl-C names the run of the locked folder, if it had begun, and how to continue it."""
    try:
        yield
    except KeyboardInterrupt:
        if lock.folder is None or not (lock.folder / RECORD).exists():
            raise
        again = launcher + command("train.py", "--resume", lock.folder)
        raise KeyboardInterrupt(f"\ninterrupted; continue with: {again}") from None


def newest_run(root: Path, family: str | None = None) -> Path:
    """Return the most recently written run folder under `root`, of `family` if given; InputError if there is none."""
    found = [path.parent for path in root.glob(f"*/{RECORD}")]
    if family is not None:
        found = [folder for folder in found if (record := _record(folder)) and record.family == family]
    if not found:
        what = f"run of {family}" if family else "run"
        raise InputError(f"there is no {what} under {root}/ to continue; name its folder: --resume DIR")
    return max(found, key=_written)


def _written(folder: Path) -> float:
    """Return when a run last wrote its record or a checkpoint; the record is of its beginning or its end."""
    from minigrad.training.folder import checkpoint

    places = (folder / RECORD, checkpoint.folder_of(folder))
    return max(place.stat().st_mtime for place in places if place.exists())


def _record(folder: Path) -> Record | None:
    """Return the record of a run, or None if it has none or is damaged: one damaged run must not hide the others."""
    try:
        return Record.read(folder)
    except InputError:
        return None


def _is_named(folder: Path, name: str) -> bool:
    """Whether a folder belongs to runs of this name, a family and a size, as far as its record says."""
    record = _record(folder)
    return record is None or not record.size or f"{record.family}-{record.size}" == name


def unused_folders(name: str) -> Iterator[Path]:
    """Yield the folders that a new run in `RUNS` may have: of name, name-2, name-3, ... those after all in use.

    A run of another size does not count; its name may end in a number too, as vidya-v2-nano-32 does.
    """
    pattern = re.compile(rf"{re.escape(name)}(?:-(\d+))?")
    names = (entry.name for entry in RUNS.iterdir()) if RUNS.is_dir() else ()
    found = [match for match in map(pattern.fullmatch, names) if match and _is_in_use(RUNS / match[0])]
    last = max((int(match[1] or 1) for match in found if _is_named(RUNS / match[0], name)), default=0)
    folders = (RUNS / (f"{name}-{number}" if number > 1 else name) for number in itertools.count(last + 1))
    yield from (folder for folder in folders if not (folder.exists() and _is_in_use(folder)))


def lock_new(folder: Path, lock: FolderLock) -> None:
    """Make and lock a folder for a new run; raises InputError if another run has it, or if it cannot be made."""
    refuse_existing(folder)
    folder.mkdir(parents=True, exist_ok=True)
    lock.take(folder)
    refuse_existing(folder)  # another process may have made it since


def lock_unused(name: str, lock: FolderLock) -> Path:
    """Make, lock and return the first of the `unused_folders` in which no other process is about to begin a run."""
    folders = unused_folders(name)
    while True:
        folder = next(folders)
        _refuse_impossible(folder)
        folder.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(InputError):  # another process has locked it
            lock.take(folder)
            if not _is_in_use(folder):  # another process may have begun a run in it since
                return folder


_LEFT = re.compile(
    rf"{re.escape(LOCK_FILE)}|tokenizer(_config)?\.json|\.tokenizer(_config)?\.json\.\d+\.part|\.minigrad\.json\..*\.tmp"
)


def _is_in_use(path: Path) -> bool:
    """Whether a path is a file, or a folder with more than a process leaves that is killed while it begins a run.

    Such a process leaves its lock, a tokenizer, and a file that it was writing.
    """
    if not path.is_dir():
        return True
    names = {entry.name for entry in path.iterdir()}
    return bool(names) and not (LOCK_FILE in names and all(map(_LEFT.fullmatch, names)))
