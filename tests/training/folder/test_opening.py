"""The settings of a new run, and of a continued run."""

from __future__ import annotations

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from minigrad.errors import InputError
from minigrad.formats.json_files import read_json
from minigrad.system.locks import FolderLock
from minigrad.training.folder import checkpoint
from minigrad.training.folder.opening import open_run
from minigrad.training.folder.record import Record
from minigrad.training.folder.run_folder import RunFolder
from minigrad.training.preparation import compare_threads
from minigrad.training.reporting.finish import repeat_command
from minigrad.training.settings import TrainConfig
from tests.distributed.rooms import Room, together

ASKED = TrainConfig(data="words.txt", steps=30, seed=3)
USED = replace(ASKED, size="nano", batch=2, context=16, lr=0.01, warmup=3, threads=1)


class NoTokenizer:
    def save(self, folder: Path) -> None:
        (folder / "tokenizer.json").write_text("{}", encoding="utf-8")


def begin(folder: Path, asked: TrainConfig = ASKED, used: TrainConfig = USED) -> Path:
    RunFolder(folder, Record.new(asked, used)).begin(NoTokenizer())
    return folder


def at_step(folder: Path, step: int) -> None:
    checkpoint.save(folder, step, weights={}, moments={}, state={})


def resumed(folder: Path, **changes: Any) -> tuple[Record, TrainConfig]:
    opening = open_run(TrainConfig(resume=str(folder), **changes))
    assert opening.folder is not None
    assert opening.folder.path == folder
    return opening.folder.record, opening.asked


def test_a_run_with_its_last_step_its_result_and_its_report_has_ended(tmp_path):
    def said(**changes: Any) -> str:
        return open_run(TrainConfig(resume=str(tmp_path / "run"), **changes)).describe_end()

    record = RunFolder(begin(tmp_path / "run"), Record.read(tmp_path / "run")).record
    at_step(tmp_path / "run", 30)
    (tmp_path / "run" / "report.html").touch()
    assert said() == ""  # stopped before its result was written
    record.result = {"steps": 30}
    record.write(tmp_path / "run")
    end = f"{tmp_path / 'run'} has ended, after 30 steps; a larger --steps continues it"
    assert said() == end
    assert said(steps=40) == said(test=True) == ""
    (tmp_path / "run" / "report.html").unlink()
    assert said() == ""
    assert open_run(TrainConfig()).describe_end() == ""


def test_a_new_run_lasts_ten_minutes_unless_told_otherwise():
    assert open_run(TrainConfig()).asked.minutes == 10
    for limit in ({"steps": 3}, {"tokens": 3}, {"minutes": 3.0}):
        settings = open_run(TrainConfig(**limit)).asked
        assert {name: getattr(settings, name) for name in limit} == limit
        assert sum(getattr(settings, name) is not None for name in ("steps", "tokens", "minutes")) == 1


def test_starting_from_weights_takes_their_tokenizer_too(tmp_path):
    path = str(tmp_path)
    assert open_run(TrainConfig(init=path)).asked.tokenizer == path
    assert open_run(TrainConfig(init=path, tokenizer="own")).asked.tokenizer == "own"


def test_given_and_chosen_settings_are_stored_and_read_back(tmp_path):
    record = read_json(begin(tmp_path / "run") / "minigrad.json")
    assert record["chosen"] == {"size": "nano", "batch": 2, "context": 16, "lr": 0.01, "warmup": 3, "threads": 1}
    assert {name: record["settings"][name] for name in ("size", "lr", "steps")} == {
        "size": "auto", "lr": None, "steps": 30,
    }  # fmt: skip
    assert replace(resumed(tmp_path / "run")[1], resume=None) == USED


def test_a_flag_may_be_repeated_as_it_was_given_or_as_it_was_chosen(tmp_path):
    begin(tmp_path / "run")
    for size in ("auto", "nano"):
        given = TrainConfig(resume=str(tmp_path / "run"), size=size)
        assert open_run(given, {"resume", "size"}).asked.size == "nano"


@pytest.mark.parametrize(
    "name",
    [
        field.name
        for field in fields(TrainConfig)
        if field.name not in ("resume", "out", "plan", "profile", "steps", "test")
    ],
)
def test_any_setting_that_differs_is_refused_with_the_difference(tmp_path, name):
    folder = begin(tmp_path / "run")
    value: Any = {"data": "other", "model": "other", "size": "mini"}.get(name, 7)
    with pytest.raises(InputError) as error:
        resumed(folder, **{name: value})
    before = getattr(USED, name)
    spelled = "none" if before is None else before
    assert f"--{name.replace('_', '-')} {value} (the run has {spelled})" in str(error.value)


def test_a_test_may_be_asked_for_later(tmp_path):
    folder = begin(tmp_path / "run")
    record, settings = resumed(folder, test=True)
    assert (record.settings["test"], settings.test) == (True, True)


def test_a_default_given_explicitly_is_a_difference_too(tmp_path):
    given = TrainConfig(resume=str(begin(tmp_path / "run")))
    open_run(given, {"resume"})
    with pytest.raises(InputError, match=r"--seed 0 \(the run has 3\)"):
        open_run(given, {"resume", "seed"})


def test_only_a_larger_limit_of_the_same_kind_counts(tmp_path):
    folder = begin(tmp_path / "run")
    assert resumed(folder, steps=31)[1].steps == 31
    for refused in ({"steps": 29}, {"minutes": 99.0}, {"tokens": 10**9}):
        with pytest.raises(InputError, match=r"was started with other settings.* only --test and a larger --steps can"):
            resumed(folder, **refused)


def test_the_limits_that_can_be_larger_are_those_of_the_run(tmp_path):
    asked = replace(ASKED, steps=None, minutes=5.0)
    folder = begin(tmp_path / "run", asked, replace(USED, steps=None, minutes=5.0))
    for chosen in ("a larger --minutes can", "a larger --steps or --minutes can"):
        with pytest.raises(InputError, match=chosen):
            resumed(folder, tokens=10**9)
        RunFolder(folder, Record.read(folder)).fix_steps([(80, 100)])


@pytest.mark.parametrize(("step", "stages"), [(0, []), (24, []), (30, [30])])
def test_a_run_is_extended_before_its_rate_decays_or_past_its_end(tmp_path, step, stages):
    at_step(begin(tmp_path / "run"), step)
    record, settings = resumed(tmp_path / "run", steps=60)
    assert (settings.steps, record.stages) == (60, stages)


@pytest.mark.parametrize("step", [25, 29])
def test_a_run_is_not_extended_while_its_rate_decays(tmp_path, step):
    at_step(begin(tmp_path / "run"), step)
    with pytest.raises(InputError, match=f"is at step {step} of 30, and its learning rate has begun to decay"):
        resumed(tmp_path / "run", steps=60)
    assert resumed(tmp_path / "run")[1].steps == 30


def test_more_minutes_forget_the_steps_that_the_clock_had_chosen(tmp_path):
    asked = replace(ASKED, steps=None, minutes=5.0)
    folder = begin(tmp_path / "run", asked, replace(USED, steps=None, minutes=5.0))
    RunFolder(folder, Record.read(folder)).fix_steps([(80, 110), (95, 100)])
    assert (resumed(folder)[1].steps, resumed(folder)[1].decay) == (100, "80:110,95:100")
    record, settings = resumed(folder, minutes=9.0)
    assert (settings.steps, settings.minutes) == (None, 9.0)
    assert not {"decay_start", "decay"} & set(record.chosen)
    record, settings = resumed(folder, steps=200)
    assert (settings.steps, settings.minutes, settings.decay) == (200, None, None)
    at_step(folder, 85)
    with pytest.raises(InputError, match="is at step 85 of 100, and its learning rate has begun to decay"):
        resumed(folder, steps=200)
    at_step(folder, 100)
    record, settings = resumed(folder, steps=200, decay="150:220,160:200")
    assert (record.stages, record.decays) == ([100], ["80:110,95:100"])
    first, second = repeat_command(settings, folder, record.stages, record.decays).split(" && ")
    assert "--steps 100 " in first
    assert "--decay 80:110,95:100 " in first
    assert second.endswith("--steps 200 --decay 150:220,160:200")


def test_a_folder_that_is_not_a_run_is_refused(tmp_path):
    with pytest.raises(InputError, match="there is no run folder"):
        Record.read(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"it has no minigrad\.json"):
        Record.read(tmp_path)
    (tmp_path / "minigrad.json").write_text('{"settings": {}}', encoding="utf-8")
    with pytest.raises(InputError, match=r"was not written by train\.py"):
        Record.read(tmp_path)


@pytest.mark.parametrize(
    ("began_with", "said"), [(None, ""), ("float32 by an abacus", "began with float32 by an abacus")]
)
def test_a_run_continued_with_other_products_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], began_with: str | None, said: str
) -> None:
    record = Record.new(ASKED, USED)
    folder = RunFolder(tmp_path, replace(record, arithmetic=began_with or record.arithmetic))
    folder.begin_or_continue(NoTokenizer(), USED, FolderLock())
    printed = capsys.readouterr().out
    assert said in " ".join(printed.split())
    assert bool(printed) == bool(said)
    assert all(len(line) < 80 for line in printed.splitlines())
    assert Record.read(tmp_path).arithmetic == folder.record.arithmetic


def test_the_batch_that_is_given_is_that_of_each_process_and_the_one_that_is_kept_that_of_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def opened(world: Room) -> tuple[int | None, int | None]:
        new = open_run(replace(USED, threads=None), world=world)
        again = open_run(TrainConfig(resume=str(folder)), world=world)
        print(compare_threads(again), end="")
        return new.asked.batch, again.asked.threads

    folder = begin(tmp_path / "run", ASKED, USED)
    # The run chose one thread when it was alone: several processes choose anew.
    assert together(3, opened) == [(6, None)] * 3
    assert "has been trained by 1 process so far, and continues with 3: sums" in capsys.readouterr().out
    with pytest.raises(InputError, match=r"--batch 4 \(the run has 2\)"):
        together(2, lambda world: open_run(TrainConfig(resume=str(folder), batch=2), world=world))


@pytest.mark.skipif(os.name == "nt", reason="Windows makes links for administrators only")
@pytest.mark.parametrize("name", ["checkpoints", "best"])
def test_a_folder_that_is_a_link_to_one_elsewhere_is_not_continued(tmp_path, name):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    folder = begin(tmp_path / "run")
    (folder / name).symlink_to(elsewhere)
    with pytest.raises(InputError, match=rf"run/{name} is a link to .*elsewhere.*put that folder in the place"):
        resumed(folder)
    (tmp_path / "link").symlink_to(folder)  # the name of a run may be a link
    (folder / name).unlink()
    assert resumed(tmp_path / "link")


@pytest.mark.parametrize(
    ("fields", "without", "missing"),
    [
        ({}, "steps", "steps or tokens or minutes"),
        ({}, "size", "size"),
        ({"base": "a hash"}, "init", "init"),
    ],
)
def test_a_record_that_lacks_what_a_run_needs_is_refused(tmp_path, fields, without, missing):
    folder = begin(tmp_path / "run", replace(ASKED, size="nano"), replace(USED, init="somewhere"))
    record = Record.read(folder)
    for settings in (record.settings, record.chosen):
        settings.pop(without, None)
    replace(record, **fields).write(folder)
    with pytest.raises(InputError, match=rf"minigrad.json is damaged: {missing} is missing"):
        resumed(folder)
