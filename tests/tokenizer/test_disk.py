import os
import threading
from pathlib import Path

import pytest

from tokenizer import TokenizerError, disk
from tokenizer.disk import field, read_file, read_json, write_file, write_json


def test_a_file_is_on_the_disk_before_it_gets_its_name(monkeypatch, tmp_path):
    seen = []
    fsync = os.fsync

    def look_then_fsync(descriptor):
        seen.append({file.name: file.stat().st_size for file in tmp_path.iterdir()})
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look_then_fsync)
    write_file(tmp_path / "a.json", b"first")
    write_json(tmp_path / "b.json", {"one": 1})
    first, second = (f".{name}.json.{os.getpid()}.part" for name in "ab")
    assert [set(names) for names in seen] == [{first}, {"a.json", second}]
    assert seen[0][first] == (tmp_path / "a.json").stat().st_size
    assert seen[1][second] == (tmp_path / "b.json").stat().st_size


def test_a_failure_leaves_the_old_file(monkeypatch, tmp_path):
    def fail(descriptor):
        raise OSError(28, "No space left on device")

    write_file(tmp_path / "file", b"old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match=r"No space left on device: .*file") as caught:
        write_file(tmp_path / "file", b"new")
    assert caught.value.filename == str(tmp_path / "file")
    assert read_file(tmp_path / "file") == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_folders_are_made_and_a_place_that_cannot_be_written_is_named(tmp_path):
    write_file(tmp_path / "deep" / "file", b"not a folder")
    assert read_file(tmp_path / "deep" / "file") == b"not a folder"
    with pytest.raises(OSError, match=r"tokenizer\.json"):
        write_file(tmp_path / "deep" / "file" / "tokenizer.json", b"")
    with pytest.raises(TokenizerError, match=r"cannot read .*missing: No such file"):
        read_file(tmp_path / "missing")


def test_what_is_no_file_is_refused_at_once_unless_it_may_be_a_pipe(tmp_path):
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "null").symlink_to("/dev/null")
    for name in ("zero", "null"):
        with pytest.raises(TokenizerError, match=rf"cannot read .*{name}: it is not a regular file"):
            read_file(tmp_path / name)
    assert read_file(tmp_path / "null", may_be_pipe=True) == b""
    with pytest.raises(TokenizerError, match=r"cannot read .*null"):
        read_file(tmp_path / "a\0b")


def test_json_is_readable_utf8(tmp_path):
    write_json(tmp_path / "a.json", {"Ġé": ["日", None]})
    assert "Ġé" in (tmp_path / "a.json").read_text(encoding="utf-8")
    assert read_json(tmp_path / "a.json") == {"Ġé": ["日", None]}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"{", "a.json is not JSON text, or is cut short"),
        (b"\xff", "a.json is not JSON text"),
        (b"[" * 100_000, "a.json is not JSON text"),
        (b"[1]", "a.json holds a list, expected a JSON object"),
        (b"null", "a.json holds a NoneType"),
    ],
)
def test_what_is_no_json_object_is_named(tmp_path, data, message):
    (tmp_path / "a.json").write_bytes(data)
    with pytest.raises(TokenizerError, match=message):
        read_json(tmp_path / "a.json")


def test_a_field_of_another_type_is_named():
    document = {"model": {"vocab": {"a": 1}, "dropout": True}}
    assert field(document, "model.vocab.a", int) == 1
    with pytest.raises(TokenizerError, match=r"field model.dropout is True, expected int"):
        field(document, "model.dropout", int)  # True is an int to isinstance
    with pytest.raises(TokenizerError, match=r"field tokens\[3\].model.vocab.b is missing, expected str"):
        field(document, "model.vocab.b", str, within="tokens[3]")
    with pytest.raises(TokenizerError, match=r"field model.vocab.a.b is missing"):
        field(document, "model.vocab.a.b", dict)


@pytest.mark.skipif(os.name == "nt", reason="Windows makes links for administrators only")
def test_nothing_is_written_through_a_link(tmp_path):
    victim, folder = tmp_path / "victim", tmp_path / "folder"
    write_file(victim, b"of somebody")
    folder.mkdir()
    for name in ("file", f".file.{os.getpid()}.part"):
        (folder / name).symlink_to(victim)
    write_file(folder / "file", b"ours")
    assert read_file(victim) == b"of somebody"
    assert [path.name for path in folder.iterdir()] == ["file"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_is_read_if_a_program_writes_into_it_and_a_device_is_not(tmp_path, monkeypatch):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b"to be"))
    writer.start()
    assert read_file(pipe, may_be_pipe=True) == b"to be"
    writer.join()
    monkeypatch.setattr(disk, "PATIENCE", 0)
    with pytest.raises(TokenizerError, match=r"cannot read .*pipe: it is a pipe, and no program wrote into it for 0"):
        read_file(pipe, may_be_pipe=True)
    with pytest.raises(TokenizerError, match=r"cannot read .*zero: it is a device, which may never end"):
        read_file(Path("/dev/zero"), may_be_pipe=True)
