"""Checkpoints: loaded bit for bit as saved, and neither a kill nor a full disk damages the previous one."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from minigrad.errors import RunError
from minigrad.formats.json_files import read_json
from minigrad.formats.weights import read_weights
from minigrad.training.folder import checkpoint
from tests.refusals import refusal


def save(run: Path, step: int) -> Path:
    """Save a small checkpoint in which every value is its step."""
    return checkpoint.save(
        run,
        step,
        weights={"w": np.full((2, 3), step, np.float32)},
        moments={"w.mean": np.full(4, step, np.float32)},
        state={"seen": step * 10},
    )


def assert_good(run: Path, step: int) -> None:
    loaded = checkpoint.load(run)
    assert (loaded.step, loaded.state) == (step, {"seen": step * 10})
    np.testing.assert_array_equal(loaded.weights["w"], np.full((2, 3), step, np.float32))
    np.testing.assert_array_equal(loaded.moments["w.mean"], np.full(4, step, np.float32))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_checkpoint_is_loaded_as_it_was_saved(tmp_path):
    folder = save(tmp_path, 40)
    assert checkpoint.newest(tmp_path) == (40, folder) == (40, tmp_path / "checkpoints" / "40")
    assert names(folder) == ["model.safetensors", "optimizer.safetensors", "state.json"]
    assert_good(tmp_path, 40)


def test_only_the_newest_are_kept_and_steps_are_sorted_as_numbers(tmp_path):
    for step in (8, 9, 10):
        save(tmp_path, step)
    assert checkpoint.steps(tmp_path) == [9, 10]
    assert_good(tmp_path, 10)


def test_an_earlier_step_saved_later_is_not_removed_at_once(tmp_path):
    save(tmp_path, 30)
    save(tmp_path, 40)
    save(tmp_path, 10)
    assert 10 in checkpoint.steps(tmp_path)


def test_a_step_may_be_saved_twice(tmp_path):
    save(tmp_path, 5)
    checkpoint.save(tmp_path, 5, weights={}, moments={}, state={"second": True})
    assert checkpoint.load(tmp_path).state == {"second": True}
    assert names(tmp_path / "checkpoints") == ["5"]


def test_no_checkpoint_is_an_error_with_a_way_out(tmp_path):
    assert checkpoint.newest(tmp_path / "nowhere") is None
    assert checkpoint.newest(tmp_path) is None
    assert "holds no checkpoint: it is not a run folder" in refusal(checkpoint.load, tmp_path)


class Killed(BaseException):
    """Ends a save at once, as a kill would: no handler in the code catches it."""


def count_operations(monkeypatch, fail_at: int | None, error: BaseException) -> list[str]:
    """Make the disk operation number `fail_at` of a save raise `error`; return the list that records them."""
    done: list[str] = []

    def watched(name, original):
        def call(*arguments, **options):
            done.append(name)
            if len(done) - 1 == fail_at:
                if name == "rmtree" and Path(arguments[0]).exists():  # a kill leaves it half done
                    next(Path(arguments[0]).iterdir()).unlink()
                raise error
            return original(*arguments, **options)

        return call

    for owner, name in [
        (os, "fsync"),
        (Path, "mkdir"),
        (Path, "replace"),
        (shutil, "rmtree"),
        (Path, "write_bytes"),
        (Path, "open"),
    ]:
        monkeypatch.setattr(owner, name, watched(name, getattr(owner, name)))
    return done


def test_files_are_synced_before_the_rename_and_the_folder_after_it(tmp_path, monkeypatch):
    operations = count_operations(monkeypatch, None, Killed())
    save(tmp_path, 10)
    renamed = operations.index("replace")
    assert operations[:renamed].count("fsync") == 4  # three files and the folder that lists them
    assert operations[renamed + 1] == "fsync"


@pytest.mark.parametrize("again", [20, 30], ids=["same step", "next step"])
def test_a_kill_at_any_operation_leaves_a_good_checkpoint(tmp_path, again):
    run = tmp_path / "count"
    save(run, 10), save(run, 20)
    with pytest.MonkeyPatch.context() as patch:
        operations = count_operations(patch, None, Killed())
        save(run, again)
    assert len(operations) > 8
    for number in range(len(operations)):
        run = tmp_path / str(number)
        save(run, 10), save(run, 20)
        with pytest.MonkeyPatch.context() as patch:
            count_operations(patch, number, Killed())
            with pytest.raises(Killed):
                save(run, again)
        assert checkpoint.steps(run)[-1] in (20, again)
        for step, folder in checkpoint._folders(run).items():
            assert read_json(folder / "state.json") == {"step": step, "state": {"seen": step * 10}}
            assert read_weights(folder / "model.safetensors").keys() == {"w"}
            assert read_weights(folder / "optimizer.safetensors").keys() == {"w.mean"}
        save(run, 40)  # and the next save removes what the kill left behind
        assert_good(run, 40)
        assert all(name.isdecimal() for name in names(run / "checkpoints"))


@pytest.mark.parametrize("saved_before", [True, False])
def test_a_full_disk_at_any_operation_is_an_error_that_names_what_is_left(tmp_path, saved_before):
    run = tmp_path / "count"
    if saved_before:
        save(run, 20)
    with pytest.MonkeyPatch.context() as patch:
        operations = count_operations(patch, None, OSError())
        save(run, 30)
    until_renamed = operations.index("replace")
    for number in range(until_renamed + 1):
        run = tmp_path / str(number)
        if saved_before:
            save(run, 20)
        with pytest.MonkeyPatch.context() as patch:
            count_operations(patch, number, OSError(28, "No space left on device"))
            with pytest.raises(RunError) as caught:
                save(run, 30)
        rest = "the checkpoint of step 20 is intact" if saved_before else "no checkpoint was saved yet"
        assert str(caught.value) == f"cannot save step 30 in {run / 'checkpoints'}: No space left on device; {rest}"
        assert checkpoint.steps(run) == ([20] if saved_before else [])
        if (run / "checkpoints").exists():
            assert names(run / "checkpoints") == (["20"] if saved_before else [])


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "foreign"])
def test_a_damaged_checkpoint_is_refused_with_the_way_out(tmp_path, name, damage):
    save(tmp_path, 1)
    path = save(tmp_path, 2) / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes({"cut": content[:-3], "empty": b"", "foreign": b"PK\x03\x04 and more" * 9}[damage])
    message = refusal(checkpoint.load, tmp_path)
    assert str(path) in message
    assert message.endswith(f"Delete the folder {path.parent} to continue from step 1.")
    shutil.rmtree(path.parent)
    assert_good(tmp_path, 1)


def test_the_state_of_another_step_is_refused(tmp_path):
    save(tmp_path, 1).rename(tmp_path / "checkpoints" / "7")
    message = refusal(checkpoint.load, tmp_path)
    assert "state.json is not the state of step 7" in message
    assert "no older one is left" in message


def test_other_files_among_the_checkpoints_do_no_harm(tmp_path):
    save(tmp_path, 1)
    (tmp_path / "checkpoints" / ".DS_Store").write_text("x", encoding="utf-8")
    (tmp_path / "checkpoints" / "best").mkdir()
    save(tmp_path, 2)
    assert checkpoint.steps(tmp_path) == [1, 2]


def test_queries_change_nothing_and_the_writer_repairs_after_a_kill(tmp_path):
    """Between its two renames a save is killed: the old checkpoint has another name, and is still found."""
    save(tmp_path, 20).rename(tmp_path / "checkpoints" / ".20.replaced")
    (tmp_path / "checkpoints" / ".20.tmp").mkdir()
    before = names(tmp_path / "checkpoints")
    assert checkpoint.steps(tmp_path) == [20]
    assert checkpoint.newest(tmp_path) == (20, tmp_path / "checkpoints" / ".20.replaced")
    assert_good(tmp_path, 20)
    assert names(tmp_path / "checkpoints") == before
    checkpoint.recover(tmp_path)
    assert names(tmp_path / "checkpoints") == [".20.tmp", "20"]
    assert_good(tmp_path, 20)


def test_a_new_checkpoint_goes_before_the_one_that_it_replaces(tmp_path):
    path = save(tmp_path, 20)
    shutil.copytree(path, path.with_name(".20.replaced"))
    assert checkpoint.newest(tmp_path) == (20, path)


@pytest.mark.parametrize("name", ["007", "٣", "9" * 30, "-1", "1.0", ".5", ".5.replaced.replaced"])
def test_a_folder_with_no_name_of_a_step_is_no_checkpoint(tmp_path, name):
    save(tmp_path, 1).rename(tmp_path / "checkpoints" / name)
    assert checkpoint.steps(tmp_path) == []


@pytest.mark.skipif(os.name == "nt", reason="Windows makes links for administrators only")
@pytest.mark.parametrize("name", ["5", ".5.tmp", ".5.replaced", ".50"])
def test_a_link_among_the_checkpoints_is_removed_and_what_it_leads_to_stays(tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("of somebody", encoding="utf-8")
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / name).symlink_to(elsewhere)
    for step in (5, 6, 7, 8):
        save(tmp_path, step)
    assert names(tmp_path / "checkpoints") == ["7", "8"]
    assert names(elsewhere) == ["file"]


def test_a_save_that_fails_keeps_the_checkpoint_that_a_killed_save_had_renamed(tmp_path, monkeypatch):
    save(tmp_path, 20).rename(tmp_path / "checkpoints" / ".20.replaced")

    def full(path, arrays):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    with pytest.raises(RunError, match="the checkpoint of step 20 is intact"):
        save(tmp_path, 30)
    assert_good(tmp_path, 20)


def test_of_several_older_checkpoints_the_newest_is_named(tmp_path):
    for step in (2, 3, 1):  # an earlier step that is saved later is kept beside the two newest
        save(tmp_path, step)
    (tmp_path / "checkpoints" / "3" / "state.json").unlink()
    assert refusal(checkpoint.load, tmp_path).endswith("to continue from step 2.")
