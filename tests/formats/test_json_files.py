"""JSON files: one object, in standard JSON."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minigrad.formats import json_files
from minigrad.formats.json_files import add_line, check_lines, read_json, write_json
from tests.full_disks import files_up_to, needs_limits
from tests.refusals import refusal


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_json_that_other_programs_could_not_read_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "file", {"loss": float("nan")})
    assert names(tmp_path) == []


@pytest.mark.parametrize(("content", "message"), [("{", "damaged or not JSON"), ("[1]", "holds no JSON object")])
def test_json_that_is_not_an_object_is_refused(tmp_path, content, message):
    (tmp_path / "file").write_text(content, encoding="utf-8")
    assert message in refusal(read_json, tmp_path / "file")
    assert "cannot read" in refusal(read_json, tmp_path / "nowhere")


DEEP = 100_000


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"a":' * DEEP + "1" + "}" * DEEP, "nested deeper than 64 levels"),
        ('{"a":' + "[" * 70 + "]" * 70 + "}", "nested deeper than 64 levels"),
        ('{"lr": {"peak": Infinity}}', r"lr.peak = inf is not JSON, whose numbers are finite"),
        ('{"lr": [1, NaN]}', "lr.1 = nan is not JSON"),
        ('{"lr": 1e999}', "lr = inf is not JSON"),
        ('{"steps": ' + "9" * 5_000 + "}", "damaged or not JSON"),
        (b"\xff\xfe{", "damaged or not JSON"),
    ],
)
def test_nesting_and_numbers_that_no_settings_have_are_refused(tmp_path, content, message):
    (tmp_path / "file").write_bytes(content if isinstance(content, bytes) else content.encode())
    refused = refusal(read_json, tmp_path / "file")
    assert refused.startswith(f"{tmp_path / 'file'} is damaged or not JSON: ")
    assert message in refused


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such device")
def test_what_is_no_file_is_refused_at_once(tmp_path):
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    assert "it is a device" in refusal(read_json, tmp_path / "zero")
    assert "No such file" in refusal(read_json, tmp_path / "dangling")
    assert "it is a folder" in refusal(read_json, tmp_path)
    assert "null" in refusal(read_json, tmp_path / "a\0b")


def test_a_file_too_large_for_settings_is_not_read(tmp_path):
    with (tmp_path / "file").open("wb") as file:
        file.truncate(1 << 36)
    assert "it has more than 67.1 MB" in refusal(read_json, tmp_path / "file")


@pytest.mark.parametrize(
    "content", [None, b"", b'{"messages": []}\n', b'{"messages": []}\n{"mess', b'{"messages": []}']
)
def test_lines_are_added_to_a_new_file_or_to_such_lines(tmp_path, content):
    if content is not None:
        (tmp_path / "file").write_bytes(content)
    check_lines(tmp_path / "file", "messages")


@pytest.mark.parametrize(
    "content", [b'{\n  "settings": {}\n}\n', b'{"step": 1}\n', b"a text\n", b"\x80\x00", b"\n", b'["messages"]\n']
)
def test_lines_are_added_to_no_other_file(tmp_path, content):
    (tmp_path / "file").write_bytes(content)
    refused = refusal(check_lines, tmp_path / "file", "messages")
    assert refused.startswith(
        f"nothing is added to {tmp_path / 'file'}: its first line is not a JSON object with 'messages'"
    )
    assert (tmp_path / "file").read_bytes() == content


@pytest.mark.skipif(os.name == "nt", reason="Windows has no pipes in folders, and makes links for administrators only")
def test_lines_are_added_to_nothing_but_a_file_in_a_folder(tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "dangling").symlink_to("nowhere")
    for name, message in [
        (".", "it is a folder"),
        ("pipe", "it is a pipe"),
        ("dangling", "No such file"),
        ("no/such/folder", "there is no folder"),
    ]:
        assert message in refusal(check_lines, tmp_path / name, "messages")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert "may not be written to" in refusal(check_lines, tmp_path / "new", "messages")


def test_a_line_is_added_below_the_last_one(tmp_path):
    for line in ("{}", "[]"):
        add_line(tmp_path / "file", line)
    assert (tmp_path / "file").read_bytes() == b"{}\n[]\n"
    (tmp_path / "file").write_bytes(b"{}")
    add_line(tmp_path / "file", "[]")
    assert (tmp_path / "file").read_bytes() == b"{}\n[]\n"


def test_a_line_is_on_the_disk_before_anything_else_happens(tmp_path, monkeypatch):
    flushed = []
    monkeypatch.setattr(json_files, "flush", lambda descriptor: flushed.append(os.fstat(descriptor).st_size))
    for _ in range(2):
        add_line(tmp_path / "file", "{}")
    assert flushed == [3, 6]


@needs_limits
@pytest.mark.parametrize("before", [b"", b"{}\n", b"{}"])
def test_a_line_that_does_not_fit_on_the_disk_leaves_the_file_as_it_was(tmp_path, before):
    (tmp_path / "file").write_bytes(before)
    with files_up_to(50), pytest.raises(OSError, match="File too large"):
        add_line(tmp_path / "file", "x" * 100)
    assert (tmp_path / "file").read_bytes() == before
