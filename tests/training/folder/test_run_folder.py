"""The run folder: what can be written into it, and what is written again."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest

from minigrad.data.tokens.token_files import TokenFile
from minigrad.errors import InputError, RunError
from minigrad.system.locks import FolderLock
from minigrad.training.folder.places import unused_folders
from minigrad.training.folder.record import Record
from minigrad.training.folder.run_folder import RunFolder, check_beginnings, describe_caution, of_test
from minigrad.training.settings import TrainConfig
from tests.distributed.rooms import Room, together
from tests.training.folder.test_opening import ASKED, USED, NoTokenizer, begin


def test_a_tokenizer_that_cannot_be_written_is_a_fault(tmp_path):
    class FullDisk:
        def save(self, folder: Path) -> None:
            raise OSError(28, "No space left on device")

    with pytest.raises(RunError, match="No space left on device"):
        RunFolder(tmp_path / "run", Record()).begin(FullDisk())


def test_a_folder_that_was_being_begun_when_ctrl_c_came_is_free_again(tmp_path, monkeypatch):
    def interrupt(self: Record, folder: Path) -> None:
        (folder / ".minigrad.json.tmp").touch()
        raise KeyboardInterrupt

    named, folder = TrainConfig(out=str(tmp_path / "run")), RunFolder(tmp_path / "run", Record(), is_new=True)
    with monkeypatch.context() as patch, FolderLock() as lock:
        patch.setattr(Record, "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            folder.begin_or_continue(NoTokenizer(), named, lock)
    assert list((tmp_path / "run").iterdir()) == []
    begin(tmp_path / "run")
    with pytest.raises(InputError, match="is left as it is: continue it with --resume"):
        begin(tmp_path / "run")
    assert Record.read(tmp_path / "run").seed == 3


def test_runs_that_were_planned_at_the_same_time_get_folders_of_their_own(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    planned, found = next(unused_folders("vidya-v2-nano")), []
    for _ in range(3):
        folder = RunFolder(planned, Record.new(ASKED, USED), is_new=True)
        with FolderLock() as lock:
            folder.begin_or_continue(NoTokenizer(), USED, lock)
        found.append(folder.path)
    assert found == [Path("runs/vidya-v2-nano"), Path("runs/vidya-v2-nano-2"), Path("runs/vidya-v2-nano-3")]
    said = [line.split(": ")[0] for line in capsys.readouterr().out.splitlines()]
    assert said == [f"the run folder is {folder}" for folder in found[1:]]  # the plan has named the first
    named, folder = replace(USED, out=str(planned)), RunFolder(planned, Record.new(ASKED, USED), is_new=True)
    with FolderLock() as lock, pytest.raises(InputError, match="is left as it is: continue it with --resume"):
        folder.begin_or_continue(NoTokenizer(), named, lock)


def test_all_processes_of_a_run_know_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    planned = next(unused_folders("vidya-v2-nano"))
    begin(planned)

    def path_in(room: Room) -> Path:
        folder = RunFolder(planned, Record.new(ASKED, USED), is_new=True, world=room)
        with FolderLock() as lock:
            folder.begin_or_continue(NoTokenizer(), USED, lock)
        return folder.path

    assert together(2, path_in) == [Path("runs/vidya-v2-nano-2")] * 2


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="a folder of Linux in which nobody can make another")
def test_a_place_where_no_folder_can_be_made_is_bad_input():
    with pytest.raises(InputError, match=r"cannot write the folder /proc/run: No such file"):
        begin(Path("/proc/run"))


def test_folders_that_were_begun_from_each_other_by_name_are_each_read_once(tmp_path, monkeypatch):
    """After `mv current previous`, a run that began with --init previous bears the name of its own beginning."""
    record = Record(settings={"data": "a text", "init": str(tmp_path)}, parameters=1, test_text=of_test(["held out"]))
    record.write(tmp_path)
    read = Mock(wraps=Record.read)
    monkeypatch.setattr(Record, "read", read)
    check_beginnings(TrainConfig(init=str(tmp_path), data="a text", test=True), ["held out"])
    assert read.call_count == 1


@pytest.mark.parametrize("name", ["init", "teacher"])
def test_a_model_that_descends_from_one_trained_on_the_test_text_is_not_tested(tmp_path, name):
    """The run of the model itself read another text; the model it began from, or learned from, read this one."""
    first, second = tmp_path / "first", tmp_path / "second"
    for folder, data, beginning in ((first, "a text", None), (second, "another", str(first))):
        folder.mkdir()
        Record(settings={name: beginning}, data=data, test_text="").write(folder)
    for named in ({"init": str(second)}, {"teacher": str(second)}):
        with pytest.raises(InputError, match=r"first was trained on text that is now for the test"):
            check_beginnings(TrainConfig(**named, data="a text", test=True), ["held out"])
        with pytest.raises(InputError, match=r"first was trained on text that is now for the test"):
            check_beginnings(TrainConfig(**named, data="all", held_out="a text", test=True), ["held out"])
        check_beginnings(TrainConfig(**named, data="a third", test=True), ["held out"])
        check_beginnings(TrainConfig(**named, data="a text", held_out="a third", test=True), ["held out"])


def held_out(*tokens: int) -> TokenFile:
    return TokenFile(np.array(tokens, dtype=np.uint16), 9, f"the hash of {tokens}")


@pytest.mark.parametrize("flag", ["init", "teacher"])
@pytest.mark.parametrize("used", [{"data": "a text"}, {"data": "all", "held_out": "python-docs"}])
def test_a_validation_text_that_an_earlier_model_did_not_hold_out_asks_for_caution(tmp_path, flag, used):
    """As the documentation of another Python: what it holds out was trained on in part."""
    first, second = tmp_path / "first", tmp_path / "second"
    facts = {"parameters": 1, "validation_text": held_out(1, 2).digest}
    for folder, init in ((first, None), (second, str(first))):
        folder.mkdir()
        Record(data=used["data"], settings=used | {"init": init}, **facts).write(folder)
    name = used.get("held_out", "a text")
    settings = TrainConfig(**{flag: str(second)}, data=name)
    assert describe_caution(settings, held_out(1, 2)) == ""
    caution = describe_caution(settings, held_out(1, 3))
    assert caution.startswith(f"the validation text of {name} is not the one that the model in {second} held out: ")
    assert describe_caution(replace(settings, held_out="another text"), held_out(1, 3)) == ""
    Record(data="b", parameters=1, settings={"init": str(first)}).write(second)
    assert f"the model in {first} held out" in describe_caution(settings, held_out(1, 3))
    assert describe_caution(TrainConfig(data="a text"), held_out(1, 3)) == ""


@pytest.mark.parametrize(
    ("earlier", "later", "has_read"),
    [
        (("a:1,b:1", None), ("a", None), False),  # each splits a by itself
        (("a:1,b:1", None), ("a:1,b:2", None), False),
        (("a:1,b:1", "c"), ("a", None), True),  # the earlier run held nothing of a out
        (("a:1,b:1", "c"), ("d", "b"), True),
        (("a", None), ("b", "a"), True),  # all of a is judged now
        (("a", "b"), ("b", None), False),  # all of b was held out
        (("a", "b"), ("c", "b"), True),  # unless b is another text now
        (("a", "python-docs"), ("python-docs", None), True),
        (("python-docs:8,python-source:2", "python-docs"), ("python-docs:8,python-source:2", None), True),
        (("a", "b"), ("c", "d"), False),
    ],
)
def test_a_text_may_have_been_read_if_it_was_trained_on_or_is_another_now(tmp_path, earlier, later, has_read):
    (data, own), (now, judged) = earlier, later
    Record(data=data, settings={"held_out": own}, validation_text="1", test_text="1", parameters=1).write(tmp_path)
    settings = TrainConfig(init=str(tmp_path), data=now, held_out=judged, test=True)
    assert bool(describe_caution(settings, held_out(1, 2))) == has_read
    with pytest.raises(InputError, match="now for the test") if has_read else nullcontext():
        check_beginnings(settings, ["a document"])


def test_texts_and_beginnings_with_relative_paths_are_known_from_any_folder(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "a.txt").write_text("a text", encoding="utf-8")
    (tmp_path / "b.txt").write_text("held out", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    for name, settings in (
        ("base", TrainConfig(data="a.txt", held_out="b.txt", steps=3)),
        ("child", TrainConfig(data="other", init="base", steps=3)),
    ):
        used = replace(USED, data=settings.data, held_out=settings.held_out, init=settings.init)
        RunFolder(tmp_path / name, Record.new(settings, used)).begin(NoTokenizer())
    for folder, init, data in (
        (".", "child", "a.txt"),
        ("elsewhere", "../child", "../a.txt"),
        ("elsewhere", str(tmp_path / "child"), str(tmp_path / "a.txt")),
    ):
        monkeypatch.chdir(tmp_path / folder)
        with pytest.raises(InputError, match="base was trained on text that is now for the test"):
            check_beginnings(TrainConfig(init=init, data=data, test=True), ["a text"])
