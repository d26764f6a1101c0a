"""The run folder: what can be written into it, and what is written again."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import Mock

import pytest

from minigrad.errors import InputError, RunError
from minigrad.system.locks import FolderLock
from minigrad.training.folder.record import Record
from minigrad.training.folder.run_folder import RunFolder, check_beginnings, of_test
from minigrad.training.settings import TrainConfig
from tests.training.folder.test_opening import NoTokenizer, begin


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

    with monkeypatch.context() as patch, FolderLock() as lock:
        patch.setattr(Record, "write", interrupt)
        with pytest.raises(KeyboardInterrupt):
            RunFolder(tmp_path / "run", Record(), is_new=True).begin_or_continue(NoTokenizer(), TrainConfig(), lock)
    assert list((tmp_path / "run").iterdir()) == []
    begin(tmp_path / "run")
    with pytest.raises(InputError, match="is left as it is: continue it with --resume"):
        begin(tmp_path / "run")
    assert Record.read(tmp_path / "run").seed == 3


def test_a_tokenizer_that_was_deleted_is_written_again(tmp_path):
    folder = RunFolder(begin(tmp_path / "run"), Record())
    (tmp_path / "run" / "tokenizer.json").write_text("as it is", encoding="utf-8")
    folder.keep_tokenizer(NoTokenizer(), folder.path)
    assert (tmp_path / "run" / "tokenizer.json").read_text(encoding="utf-8") == "as it is"
    (tmp_path / "run" / "tokenizer.json").unlink()
    folder.keep_tokenizer(NoTokenizer(), folder.path)
    assert (tmp_path / "run" / "tokenizer.json").read_text(encoding="utf-8") == "{}"


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
