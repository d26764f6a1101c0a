from __future__ import annotations

import os
from pathlib import Path

from minigrad.system import cache


def test_the_cache_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", "/chosen")
    assert cache.cache_folder() == Path("/chosen")
    monkeypatch.setenv("MINIGRAD_CACHE", "~/chosen")
    assert cache.cache_folder() == Path.home() / "chosen"
    monkeypatch.delenv("MINIGRAD_CACHE")
    monkeypatch.setenv("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", "/system")
    assert cache.cache_folder() == Path("/system/minigrad")
    monkeypatch.delenv("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    assert cache.cache_folder() == Path.home() / ".cache" / "minigrad"


def test_a_stored_file_is_complete_or_missing(tmp_path):
    def fail(file):
        file.write(b"half")
        raise OSError("No space left on device")

    path = tmp_path / "new" / "file"
    assert not cache.store(path, fail)
    assert list(path.parent.iterdir()) == []
    assert cache.store(path, lambda file: file.write(b"whole"))
    assert not cache.store(path, fail)
    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]


def test_what_was_used_last_is_kept(tmp_path):
    for age, name in enumerate(["newest", "newer", "older", "oldest"]):
        place = tmp_path / name
        if age % 2:
            place.mkdir()
            (place / "inside").touch()
        else:
            place.touch()
        os.utime(place, (1_000 - age, 1_000 - age))
    cache.mark_used(tmp_path / "oldest")
    cache.prune(tmp_path, keep=2)
    assert {path.name for path in tmp_path.iterdir()} == {"newest", "oldest"}
    cache.prune(tmp_path / "nowhere", keep=2)
    cache.mark_used(tmp_path / "nowhere")


def test_a_user_without_a_home_folder_gets_a_place_where_nothing_is_kept(monkeypatch, capsys):
    def fail(path):
        raise RuntimeError("Could not determine home directory.")

    for name in ("MINIGRAD_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "expanduser", fail)
    assert not cache.store(cache.cache_folder() / "file", lambda file: file.write(b"some"))
    monkeypatch.setenv("MINIGRAD_CACHE", "~/chosen")
    assert not cache.store(cache.cache_folder() / "file", lambda file: file.write(b"some"))
    cache.tell_if_nothing_is_kept()
    assert f"nothing can be kept in {cache.cache_folder()} (" in capsys.readouterr().err


def test_a_cache_that_cannot_be_used_is_told_with_the_way_out(monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "new" / "folder"))
    cache.tell_if_nothing_is_kept()
    assert capsys.readouterr() == ("", "")
    (tmp_path / "file").touch()
    for name in ("file", "file/folder"):
        monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / name))
        cache.tell_if_nothing_is_kept()
        told = capsys.readouterr().err
        assert told.startswith(f"nothing can be kept in {tmp_path / name} (")
        assert told.endswith("set MINIGRAD_CACHE to a folder that can be written to\n")
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "new"))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    cache.tell_if_nothing_is_kept()
    assert "(it may not be written to)" in capsys.readouterr().err
