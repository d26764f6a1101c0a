"""The files and folders of a run: what a command names is looked for first, and nothing is overwritten."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from minigrad.errors import InputError
from minigrad.formats.json_files import write_json
from minigrad.system.locks import FolderLock
from minigrad.training.folder.places import (
    check_places,
    lock_new,
    lock_unused,
    newest_run,
    refuse_existing,
    unused_folders,
)
from minigrad.training.folder.record import Record
from minigrad.training.settings import TrainConfig


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def begin(folder: Path) -> Path:
    """Make a folder with the file that a run begins with."""
    folder.mkdir(parents=True)
    write_json(folder / "minigrad.json", {})
    return folder


def first_unused(name: str) -> Path:
    return next(unused_folders(name))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"data": "my_txets"}, "there is no data called 'my_txets'. Did you mean my_texts?"),
        ({"tokenizer": "nowhere.json"}, "cannot read nowhere.json: No such file or directory."),
        ({"init": "runs/nowhere"}, "--init runs/nowhere is not a folder; name a run folder, or a Hugging Face folder"),
        ({"resume": "runs/nanno"}, "there is no run folder runs/nanno; did you mean runs/nano?"),
        ({"resume": "nano"}, "there is no run folder nano; did you mean runs/nano?"),
        ({"resume": "my_texts"}, "my_texts is not a run folder of train.py: it has no minigrad.json"),
        ({"out": "runs/nano"}, "runs/nano exists and is left as it is: continue it with --resume runs/nano, or"),
        ({"init": "runs/nano"}, "runs/nano has no weights yet: its training has not reached the first checkpoint"),
        ({"init": "my_texts"}, "my_texts is not a run folder: it has no config.json"),
        ({"resume": "runs/nano/best"}, "runs/nano/best is not a run folder of train.py: it has no minigrad.json; did"),
        ({"objective": "sft", "init": "a"}, "--objective sft needs --data FILE, a file of conversations, or task:NAME"),
        (
            {"objective": "sft", "data": "bok.txt"},
            "there is no file bok.txt. Did you mean book.txt? Expected a file of",
        ),
        ({"objective": "sft", "data": "my_texts"}, "my_texts is a folder; expected a file of conversations, or task:"),
        (
            {"objective": "dpo", "init": "a"},
            "--objective dpo needs --data FILE, pairs of a chosen and a rejected answer",
        ),
        (
            {"out": "runs/my run"},
            "runs/my run exists and is left as it is: continue it with --resume 'runs/my run', or",
        ),
        # The text comes first: without it there is nothing to put into a folder.
        ({"data": "nowhere", "out": "runs/nano"}, "there is no data called 'nowhere'."),
        ({"objective": "sft", "init": "model"}, "--objective sft needs --data FILE, a file of conversations, or task:"),
    ],
)
def test_a_place_that_cannot_be_used_is_named(here: Path, settings: dict[str, str], message: str) -> None:
    (begin(here / "runs" / "nano") / "best").mkdir()
    begin(here / "runs" / "my run")
    (here / "my_texts").mkdir()
    (here / "book.txt").touch()
    with pytest.raises(InputError) as caught:
        check_places(TrainConfig(**settings))
    assert str(caught.value).replace("\\", "/").startswith(message)


@pytest.mark.parametrize(
    ("data", "held_out"), [("texts", None), ("python-docs", "texts"), ("texts:1,/nowhere:1", None)]
)
def test_a_relative_text_of_a_recorded_run_is_looked_for_where_the_run_was_started(here: Path, data, held_out) -> None:
    settings = {"data": data, "held_out": held_out}
    (here / "runs").mkdir()
    Record(data=data, parameters=1, settings=settings).write(here / "runs")
    start = "the run reads 'texts', a path relative to the folder in which it was started; give the command there"
    with pytest.raises(InputError, match=f"^{start}$"):
        check_places(TrainConfig(resume="runs"))
    for name in ("book.txt", "runs/config.json"):
        (here / name).touch()
    lessons = TrainConfig(init="runs", objective="sft", data="book.txt")
    with pytest.raises(InputError, match=f"^{start}, or give --replay-text$"):
        check_places(lessons)
    check_places(replace(lessons, replay_text="python-docs"))
    with pytest.raises(InputError, match="--replay-text python-docs:0,book:1: the weight of python-docs is '0'"):
        check_places(replace(lessons, replay_text="python-docs:0,book:1"))
    (here / "texts").mkdir()
    check_places(TrainConfig(resume="runs"))


def test_places_that_are_there_are_accepted(here: Path) -> None:
    (here / "my_texts").mkdir()
    (here / "model").mkdir()
    for name in ("tokenizer.json", "model/config.json"):
        (here / name).write_text("{}", encoding="utf-8")
    check_places(TrainConfig())  # the text is chosen later
    check_places(TrainConfig(data="my_texts", tokenizer="tokenizer.json", init="model", out="new"))
    check_places(TrainConfig(data="task:unknown", objective="sft"))  # the tasks are looked up later
    check_places(TrainConfig(data="https://example.org/text.txt"))
    check_places(TrainConfig(data="nowhere", resume=""))  # a continued run reads the text that its folder names
    check_places(TrainConfig(out=str(begin(here / "run")), plan=True))  # a plan writes nothing


def test_an_existing_folder_is_not_overwritten(tmp_path: Path) -> None:
    refuse_existing(tmp_path / "new" / "run")
    refuse_existing(tmp_path)  # there, but empty
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    with pytest.raises(InputError, match=r"is left as it is: choose another --out$"):
        refuse_existing(tmp_path)
    begin(tmp_path / "run")
    with pytest.raises(InputError, match=r"is left as it is: continue it with --resume .*, or choose another --out$"):
        refuse_existing(tmp_path / "run")


def test_a_folder_that_may_not_be_written_to_is_refused(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "closed").mkdir()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "closed" and mode == os.W_OK)
    refuse_existing(Path("open/new"))
    for name in ("closed", "closed/a/new"):
        with pytest.raises(InputError, match=f"^--out {name} cannot be written, because closed may not be written to$"):
            refuse_existing(Path(name))


def test_new_runs_are_numbered_in_their_order(here: Path) -> None:
    assert first_unused("vidya-v2-2.0") == Path("runs/vidya-v2-2.0")
    for name in ("vidya-v2-2.0", "vidya-v2-2.0-again", "vidya-v2-2x0-7", "vidya-v2-nano-9"):
        begin(here / "runs" / name)
    assert first_unused("vidya-v2-2.0") == Path("runs/vidya-v2-2.0-2")
    begin(here / "runs" / "vidya-v2-2.0-2")
    begin(here / "runs" / "vidya-v2-2.0-5")
    assert first_unused("vidya-v2-2.0") == Path("runs/vidya-v2-2.0-6")  # 3 and 4 may have been deleted


def test_a_run_of_a_size_that_ends_in_a_number_is_no_later_run_of_another_size(here: Path) -> None:
    folder = begin(here / "runs" / "vidya-v2-nano-32")
    Record(family="vidya-v2", size="nano-32", settings={"steps": 1}).write(folder)
    assert first_unused("vidya-v2-nano") == Path("runs/vidya-v2-nano")
    assert first_unused("vidya-v2-nano-32") == Path("runs/vidya-v2-nano-32-2")
    begin(here / "runs" / "vidya-v2-nano-31")
    assert first_unused("vidya-v2-nano") == Path("runs/vidya-v2-nano-33")


def test_an_empty_folder_and_a_lock_that_was_left_are_not_in_use(here: Path) -> None:
    (here / "runs" / "a").mkdir(parents=True)
    (here / "runs" / "a" / ".lock").touch()
    assert first_unused("a") == Path("runs/a")
    (here / "runs" / "b").touch()  # a file
    assert first_unused("b") == Path("runs/b-2")


def test_a_folder_in_which_another_process_is_about_to_begin_is_passed_over(here: Path) -> None:
    with FolderLock() as first, FolderLock() as second, FolderLock() as third:
        assert lock_unused("a", first) == Path("runs/a")
        assert lock_unused("a", second) == Path("runs/a-2")
        begin_in = Path("runs/a-2/minigrad.json")
        write_json(begin_in, {})
        assert lock_unused("a", third) == Path("runs/a-3") == third.folder


def test_what_a_process_leaves_that_is_killed_while_it_begins_is_not_in_use(tmp_path: Path) -> None:
    (tmp_path / "tokenizer.json").touch()
    with pytest.raises(InputError, match="is left as it is"):  # a tokenizer of the user
        refuse_existing(tmp_path)
    for name in (
        ".lock",
        "tokenizer_config.json",
        ".tokenizer.json.123.part",
        ".tokenizer_config.json.123.part",
        ".minigrad.json.0a1b2c3d-1-1.tmp",
    ):
        (tmp_path / name).touch()
    refuse_existing(tmp_path)
    for name in ("notes.txt", "tokenizer_notes.txt", ".env"):
        (tmp_path / name).touch()
        with pytest.raises(InputError, match="is left as it is"):
            refuse_existing(tmp_path)
        (tmp_path / name).unlink()


def test_the_newest_run_is_that_written_last_of_a_family_or_of_any(tmp_path: Path) -> None:
    for age, (name, family) in enumerate([("a", "vidya-v2"), ("b", "gpt2"), ("c", "vidya-v2"), ("d", "gpt2")]):
        (tmp_path / name).mkdir()
        Record(family=family).write(tmp_path / name)
        os.utime(tmp_path / name / "minigrad.json", (100 - age, 100 - age))
    assert newest_run(tmp_path).name == "a"
    assert newest_run(tmp_path, "gpt2").name == "b"
    (tmp_path / "d" / "checkpoints").mkdir()
    for time, name in ((98.5, "b"), (200, "d")):  # a run writes its record when it begins, and then checkpoints
        os.utime(tmp_path / "d" / "checkpoints", (time, time))
        assert newest_run(tmp_path, "gpt2").name == name
    (tmp_path / "a" / "minigrad.json").write_text("{", encoding="utf-8")
    assert newest_run(tmp_path, "vidya-v2").name == "c"  # a damaged run does not hide the others
    with pytest.raises(InputError, match="there is no run of wiola under"):
        newest_run(tmp_path, "wiola")


@pytest.mark.skipif(os.name == "nt", reason="Windows makes links for administrators only")
@pytest.mark.parametrize(
    ("out", "message"),
    [
        ("loop", "--out loop is a link that leads nowhere; name a folder"),
        ("dangling", "--out dangling is a link that leads nowhere; name a folder"),
        ("loop/run", "--out loop/run cannot be made, because loop is a link that leads nowhere"),
        ("dangling/deep/run", "--out dangling/deep/run cannot be made, because dangling is a link that leads nowhere"),
        ("pipe", "--out pipe is a pipe; name a folder"),
        ("/dev/full", "--out /dev/full is a device; name a folder"),
        ("/dev/full/run", "--out /dev/full/run cannot be made, because /dev/full is a device"),
    ],
)
def test_a_place_where_no_folder_can_be_is_bad_input(here: Path, out: str, message: str) -> None:
    (here / "loop").symlink_to("loop")
    (here / "dangling").symlink_to("nowhere")
    os.mkfifo(here / "pipe")
    with pytest.raises(InputError) as caught:
        refuse_existing(Path(out))
    assert str(caught.value).startswith(message)


class Late(FolderLock):
    """A lock that is given only after another process has begun a run in the folder, and ended."""

    def take(self, folder: Path) -> None:
        if folder.name == "a":
            write_json(folder / "minigrad.json", {})
        super().take(folder)


def test_a_run_that_another_process_began_since_the_first_look_is_not_overwritten(here: Path) -> None:
    with Late() as lock:
        assert lock_unused("a", lock) == Path("runs/a-2") == lock.folder
    with Late() as lock, pytest.raises(InputError, match="is left as it is"):
        lock_new(here / "a", lock)
