"""Files are replaced completely or not at all, by any number of writers."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from minigrad.errors import InputError, RunError
from minigrad.formats.json_files import write_json
from minigrad.formats.safetensors import save_tensors
from minigrad.system import files
from minigrad.system.files import check_new_file, distinct_names, mark_of_machine, replacing, write_text


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize(
    ("write", "old", "new"),
    [
        (write_text, "old", "new"),
        (write_json, {"a": 1}, {"a": 2}),
        (save_tensors, {"a": np.zeros(3)}, {"a": np.ones(9)}),
    ],
)
def test_a_file_is_replaced_completely_or_not_at_all(tmp_path, write, old, new):
    path = tmp_path / "file"
    write(path, old)
    before = path.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for owner, operation in [(os, "fsync"), (Path, "replace")]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, operation, full_disk)
            with pytest.raises(RunError, match=r"cannot write .*file: No space"):
                write(path, new)
        assert path.read_bytes() == before
        assert names(tmp_path) == ["file"]
    write(path, new)
    assert path.read_bytes() != before


def test_a_folder_that_is_not_there_is_a_run_error(tmp_path):
    for write, value in [(write_json, {}), (save_tensors, {"a": np.ones(1)})]:
        with pytest.raises(RunError, match=r"cannot write .*nowhere"):
            write(tmp_path / "nowhere" / "file", value)


def test_what_a_killed_writer_left_behind_is_removed(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    own, far = f".file.{mark_of_machine()}", ".file.0123abcd"  # of a machine that shares the folder
    others = [".file.backup.tmp", f"{own}-{ended.pid}.tmp", ".file.my-own-copy.tmp", f"{far}-{ended.pid}-7.tmp"]
    for name in (f"{own}-{ended.pid}-7.tmp", f"{own}-{10**30}-7.tmp", *others):
        (tmp_path / name).write_text("half", encoding="utf-8")
    write_text(tmp_path / "file", "whole")
    assert names(tmp_path) == sorted([*others, "file"])
    (theirs,) = (tmp_path / name for name in others if name.startswith(far))
    os.utime(theirs, (0, 0))  # for more than a day
    write_text(tmp_path / "file", "whole")
    assert names(tmp_path) == sorted([*set(others) - {theirs.name}, "file"])


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot tell, but lets nobody remove open files")
def test_what_another_process_is_writing_stays(tmp_path):
    theirs = f".file.{mark_of_machine()}-{os.getppid()}-7.tmp"
    (tmp_path / theirs).write_text("half", encoding="utf-8")
    write_text(tmp_path / "file", "whole")
    assert names(tmp_path) == [theirs, "file"]


@pytest.mark.skipif(os.name == "nt", reason="Windows cannot tell, but lets nobody remove open files")
def test_what_a_process_of_another_user_is_writing_stays(tmp_path, monkeypatch):
    def refuse(process: int, signal: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    theirs = tmp_path / f".file.{mark_of_machine()}-1-1.tmp"
    theirs.touch()
    monkeypatch.setattr(os, "kill", refuse)
    write_text(tmp_path / "file", "whole")
    assert theirs.exists()


def test_what_a_killed_writer_left_of_a_file_with_brackets_is_removed(tmp_path, monkeypatch):
    (tmp_path / f".a[1].json.{mark_of_machine()}-1-1.tmp").touch()
    monkeypatch.setattr(files, "_is_running", lambda number: False)
    write_text(tmp_path / "a[1].json", "whole")
    assert names(tmp_path) == ["a[1].json"]


def test_an_error_of_the_writer_leaves_the_file_as_it_was(tmp_path):
    write_text(tmp_path / "file", "old")

    def fail() -> None:
        with replacing(tmp_path / "file") as temporary:
            temporary.write_text("half", encoding="utf-8")
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert (tmp_path / "file").read_text(encoding="utf-8") == "old"
    assert names(tmp_path) == ["file"]


def test_a_new_file_needs_a_free_name_in_a_folder(tmp_path, monkeypatch):
    check_new_file(tmp_path / "free")
    (tmp_path / "taken").write_text("", encoding="utf-8")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("taken", "link"):
        with pytest.raises(InputError, match=f"{name} exists and is not overwritten"):
            check_new_file(tmp_path / name)
    with pytest.raises(InputError, match="is a folder; name a file, such as one in it"):
        check_new_file(tmp_path)
    for name in ("nowhere/a", "taken/a"):
        with pytest.raises(InputError, match="there is no folder"):
            check_new_file(tmp_path / name)
    with pytest.raises(InputError, match="cannot write"):
        check_new_file(tmp_path / ("x" * 300))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(InputError, match="may not be written to"):
        check_new_file(tmp_path / "free")


def test_two_threads_that_write_one_file_do_not_share_a_temporary_one(tmp_path):
    path, both = tmp_path / "file", threading.Barrier(2)

    def write(text: str) -> None:
        with replacing(path) as temporary:
            both.wait()
            temporary.write_text(text, encoding="utf-8")
            both.wait()
            assert temporary.read_text(encoding="utf-8") == text

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(write, ["one", "other"]))
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert path.read_text(encoding="utf-8") in ("one", "other")


@pytest.mark.skipif(os.name == "nt", reason="Windows makes links for administrators only")
def test_nothing_is_written_through_a_link(tmp_path):
    """A folder from elsewhere may hold a link to any file of its reader, under any name that is written in it."""
    victim, folder = tmp_path / "victim", tmp_path / "run"
    victim.write_text("of somebody", encoding="utf-8")
    folder.mkdir()
    for name in ("file", f".file.{mark_of_machine()}-{os.getpid()}-{threading.get_native_id()}.tmp"):
        (folder / name).symlink_to(victim)
    write_text(folder / "file", "ours")
    assert victim.read_text(encoding="utf-8") == "of somebody"
    assert names(folder) == ["file"]
    assert not (folder / "file").is_symlink()


@pytest.mark.parametrize("has_it", [True, False])
def test_macos_empties_the_memory_of_the_drive_where_the_file_system_can(tmp_path, monkeypatch, has_it):
    called = []

    def fcntl(descriptor: int, command: str) -> None:
        called.append(command)
        if not has_it:
            raise OSError(45, "Operation not supported")

    monkeypatch.setattr(files.sys, "platform", "darwin")
    monkeypatch.setitem(sys.modules, "fcntl", SimpleNamespace(fcntl=fcntl, F_FULLFSYNC="full"))
    monkeypatch.setattr(os, "fsync", lambda descriptor: called.append("fsync"))
    write_text(tmp_path / "file", "new")
    assert called == (["full"] * 2 if has_it else ["full", "fsync"] * 2)  # the file, and the folder that lists it


def test_folders_of_one_name_are_told_apart():
    assert distinct_names(["x/a/run", "x/b/run", "x/c"]) == ["a/run", "b/run", "x/c"]


def test_windows_tries_again_while_another_program_holds_a_file(tmp_path, monkeypatch):
    source, target, pauses, held = tmp_path / "new", tmp_path / "old", [], 3
    monkeypatch.setattr(files.time, "sleep", pauses.append)
    replace = Path.replace

    def refused_at_first(path: Path, target: Path) -> Path:
        if len(pauses) < held:
            raise PermissionError(13, "The process cannot access the file")
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", refused_at_first)
    for system, held, is_moved in (("nt", 3, True), ("nt", 9, False), ("posix", 1, False)):
        pauses.clear()
        source.mkdir()
        monkeypatch.setattr(files, "os", SimpleNamespace(name=system))
        with nullcontext() if is_moved else pytest.raises(PermissionError):
            files.move(source, target)
        assert target.exists() == is_moved
        assert len(pauses) == {("nt", 3): 3, ("nt", 9): 4, ("posix", 1): 0}[system, held]
        (target if is_moved else source).rmdir()
