"""A lock on a folder: one writer at a time, and none after the writer has ended, however it ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from minigrad.errors import InputError, RunError
from minigrad.system import locks
from minigrad.system.locks import LOCK_FILE, FolderLock

ROOT = Path(__file__).parents[2]

HOLD = """
import sys
from pathlib import Path
from minigrad.system.locks import FolderLock
lock = FolderLock()
lock.take(Path(sys.argv[1]))
print("taken", flush=True)
sys.stdin.read()
"""


def holder(folder: Path) -> subprocess.Popen[str]:
    """Start a process that holds the lock of a folder until its standard input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "taken\n"
    return process


def test_a_second_lock_is_refused_until_the_first_ends(tmp_path):
    with FolderLock() as first, FolderLock() as second:
        first.take(tmp_path)
        with pytest.raises(InputError, match=r"is being written by another process \(number \d+\); wait until it ends"):
            second.take(tmp_path)
        first.release()
        second.take(tmp_path)
    with FolderLock() as third:
        third.take(tmp_path)


@pytest.mark.parametrize("end", ["closed", "killed"])
def test_the_lock_of_another_process_ends_with_it(tmp_path, end):
    process = holder(tmp_path)
    lock = FolderLock()
    with pytest.raises(InputError, match=rf"another process \(number {process.pid}\)"):
        lock.take(tmp_path)
    if end == "killed":
        process.kill()
    process.communicate()
    with lock:
        lock.take(tmp_path)


def test_the_number_in_a_lock_is_that_of_its_owner_alone(tmp_path):
    (tmp_path / LOCK_FILE).write_text("12345678901234\n", encoding="ascii")  # longer than any
    with FolderLock() as lock:
        lock.take(tmp_path)
        assert (tmp_path / LOCK_FILE).read_text(encoding="ascii") == f"{os.getpid()}\n"


def test_a_folder_that_cannot_be_written_is_an_error_of_the_system(tmp_path):
    with pytest.raises(OSError, match="No such file"):
        FolderLock().take(tmp_path / "nowhere")


def test_a_file_system_without_locks_is_used_with_a_warning(tmp_path, monkeypatch):
    def refuse(_: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(locks, "_lock", refuse)
    with FolderLock() as lock, pytest.warns(UserWarning, match="cannot be locked .*: do not start a second process"):
        lock.take(tmp_path)
    assert not (tmp_path / LOCK_FILE).exists()


def test_a_lock_on_a_file_that_was_removed_meanwhile_is_taken_again(tmp_path, monkeypatch):
    """The owner ends between another process's opening and locking of the file."""
    lock, removed = locks._lock, []

    def lock_too_late(descriptor: int) -> None:
        if not removed:
            (tmp_path / LOCK_FILE).unlink()
            removed.append(True)
        lock(descriptor)

    monkeypatch.setattr(locks, "_lock", lock_too_late)
    with FolderLock() as first, FolderLock() as second:
        first.take(tmp_path)
        assert (tmp_path / LOCK_FILE).exists()
        with pytest.raises(InputError, match="another process"):
            second.take(tmp_path)


@pytest.mark.skipif(os.name == "nt", reason="Windows makes links for administrators only, and no pipes in folders")
@pytest.mark.parametrize(
    ("place", "kind"),
    [
        (lambda path, victim: path.symlink_to(victim), "a link"),
        (lambda path, victim: path.symlink_to(victim.with_name("nowhere")), "a link"),
        (lambda path, victim: path.hardlink_to(victim), "a second name of another file"),
        (lambda path, victim: os.mkfifo(path), "a pipe"),
        (lambda path, victim: path.mkdir(), "a folder"),
    ],
)
def test_what_is_no_file_of_a_lock_is_refused_and_nothing_is_written_through_it(tmp_path, place, kind):
    victim, folder = tmp_path / "victim", tmp_path / "run"
    victim.write_text("of somebody", encoding="utf-8")
    folder.mkdir()
    place(folder / LOCK_FILE, victim)
    with FolderLock() as lock, pytest.raises(InputError, match=rf"run/\.lock is {kind}, and should be .*; delete it"):
        lock.take(folder)
    assert victim.read_text(encoding="utf-8") == "of somebody"
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(os.name == "nt", reason="Windows makes links for administrators only")
def test_a_link_that_appears_while_the_lock_is_taken_is_not_followed(tmp_path, monkeypatch):
    victim = tmp_path / "victim"
    victim.write_text("of somebody", encoding="utf-8")
    (tmp_path / LOCK_FILE).symlink_to(victim)
    monkeypatch.setattr(Path, "lstat", lambda path: victim.stat())  # what was there a moment ago
    with FolderLock() as lock, pytest.raises(OSError, match="symbolic links"):
        lock.take(tmp_path)
    assert victim.read_text(encoding="utf-8") == "of somebody"


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no open file")
def test_a_folder_that_was_removed_or_replaced_is_noticed(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    with FolderLock() as lock:
        lock.check()
        lock.take(folder)
        lock.check()
        folder.rename(tmp_path / "elsewhere")
        for make in (lambda: None, lambda: folder.mkdir()):
            make()
            with pytest.raises(RunError, match="run was removed while this process was writing into it"):
                lock.check()


@pytest.mark.skipif(os.name == "nt", reason="Windows removes no open file")
def test_a_lock_whose_folder_was_replaced_leaves_that_of_the_new_folder(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    first, second = FolderLock(), FolderLock()
    first.take(folder)
    folder.rename(tmp_path / "elsewhere")
    folder.mkdir()
    second.take(folder)
    first.release()
    with pytest.raises(InputError, match="is being written by another process"):
        FolderLock().take(folder)
    second.release()
