from __future__ import annotations

import os
from pathlib import Path

from minigrad.system import cache


def test_the_cache_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", "/chosen")
    assert cache.cache_folder() == Path("/chosen")
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
