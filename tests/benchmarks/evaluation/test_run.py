"""A study continues after kill -9 to the same results, and refuses code or a study that has changed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks.evaluation import judge, one_run, report, run
from benchmarks.evaluation.one_run import RESULT, make, read_result
from benchmarks.evaluation.results import Results, chosen_rate, read
from benchmarks.evaluation.run import Runner
from benchmarks.evaluation.study import ROOT, Job, Study
from minigrad.errors import InputError, RunError
from minigrad.system import environment
from minigrad.system.locks import FolderLock
from minigrad.training.folder.record import Record
from tests.benchmarks.evaluation import synthetic
from tests.killed_runs import Killed, kill, stop
from tests.small_runs import quick_runs, write_text

STUDY = """
question = "Does a toy learn more with shifted keys?"
control = "plain"
margin = 0.1
hours = 0.01
seeds = 2
flags = "--size nano --vocab 300 --batch 2 --context 16 --save-every 5 --eval-every 10"
corpora = ["{text}"]
tokens = [480]
judged = [16]

[[arm]]
name = "plain"
flags = "--set key_shift=false"

[[arm]]
name = "shifted"
flags = "--set key_shift=true"
"""
TIMES = ("date", "seconds")


def toy(folder: Path, lines: int = 600) -> Study:
    text = write_text(folder / "text.txt", lines=lines)
    path = folder / "toy.toml"
    path.write_text(STUDY.format(text=text), encoding="utf-8")
    return Study.read(path)


def timeless(found: dict[str, Any] | None) -> dict[str, Any]:
    assert found is not None
    return {name: value for name, value in found.items() if name not in TIMES}


def test_a_run_that_was_killed_ends_as_one_that_was_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = toy(tmp_path)
    job = Job("shifted", 0, study.corpora[0], "tokens", 480, 0.004)
    places = [tmp_path / name / "run" for name in ("whole", "killed")]
    with quick_runs():
        make(study, job, places[0])
        stop(monkeypatch, 8, kill)
        with pytest.raises(Killed):
            make(study, job, places[1])
        assert read_result(places[1]) is None
        make(study, job, places[1])
        one_run.open_test(study, job, places[0])
    whole, killed = (timeless(read_result(place)) for place in places)
    assert whole.keys() - killed.keys() == {"test"}
    assert killed == {name: whole[name] for name in killed}
    assert whole["settings"]["lr"] == 0.004
    assert whole["tokens"] >= 480
    assert not (places[1] / "checkpoints").exists()
    rows = whole["documents"]["16"]
    assert sum(row[1] for row in rows) > 100
    assert sum(row[2] for row in whole["test"]["16"]) > 0


def test_the_time_that_the_judge_takes_does_not_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, clock, judging = toy(tmp_path), time.process_time, [0.0]

    def check(*_: Any, **__: Any) -> float:
        judging[0] += 1_000
        return 0.0

    monkeypatch.setattr(time, "process_time", lambda: clock() + judging[0])
    monkeypatch.setattr(judge, "leak", check)
    with quick_runs():
        make(study, Job("shifted", 0, study.corpora[0], "tokens", 160, 0.004), tmp_path / "run")
    found = read_result(tmp_path / "run")
    assert found is not None
    assert judging == [2_000]  # before the first step, and after the last
    assert 0 < found["seconds"] < 1_000


def test_a_run_that_was_killed_between_its_end_and_its_result_ends_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy(tmp_path)
    job = Job("shifted", 0, study.corpora[0], "tokens", 160, 0.004)
    with quick_runs():
        with monkeypatch.context() as patch:
            patch.setattr(one_run, "write_json", Mock(side_effect=Killed))
            with pytest.raises(Killed):
                make(study, job, tmp_path / "run")
        assert read_result(tmp_path / "run") is None
        make(study, job, tmp_path / "run")
    assert timeless(read_result(tmp_path / "run"))["tokens"] >= 160


def test_a_run_waits_for_another_process_that_still_writes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was started by a runner that was killed alone, and writes its result before it ends."""
    study, out = toy(tmp_path), tmp_path / "run"
    out.mkdir()
    lock = FolderLock()
    lock.take(out)

    def ended(seconds: float) -> None:
        (out / RESULT).write_text('{"tokens": 1}', encoding="utf-8")
        lock.release()

    monkeypatch.setattr(one_run.time, "sleep", ended)
    make(study, Job("shifted", 0, study.corpora[0], "tokens", 160, 0.004), out)
    assert read_result(out) == {"tokens": 1}
    lock.take(out)
    monkeypatch.setattr(one_run, "_PATIENCE", -1)
    with pytest.raises(InputError, match="is being written by another process"):
        one_run.wait_for_others(out)
    lock.release()


def test_another_test_text_is_refused(tmp_path: Path) -> None:
    study, out = toy(tmp_path), tmp_path / "run"
    job = Job("shifted", 0, study.corpora[0], "tokens", 160, 0.004)
    with quick_runs():
        make(study, job, out)
        replace(Record.read(out), test_text="another").write(out)
        with pytest.raises(InputError, match=r"the test text of .* is not the one that .* held out"):
            one_run.open_test(study, job, out)


def test_a_run_is_a_process_that_leaves_its_result(tmp_path: Path) -> None:
    study, runner = toy(tmp_path), Runner(toy(tmp_path), tmp_path, 1)
    nothing = Results([], [])
    job = runner.next_job(nothing)
    assert job is not None
    runner.start(job, nothing)
    assert runner.running.keys() == {job}
    runner.wait_for_one()
    assert not runner.running
    (found,) = read(study, tmp_path).finished
    assert found["job"] == vars(job)
    # The numbers of threads that this process has set are no settings of the user.
    assert ("_THREADS=" in found["hardware"]) == any(name.endswith("_THREADS") for name in environment.FOUND)


@pytest.mark.parametrize(
    ("code", "error", "said"),
    [
        (run.FAILS, None, ""),
        (1, RunError, "ended with exit code 1: no network; the same command continues it"),
        (2, InputError, "'plain' (seed 0) was refused. no network"),
        (-9, RunError, "was killed by signal 9; the same command continues it"),
    ],
)
def test_a_run_that_fails_is_a_result_and_any_other_error_ends_the_study(
    tmp_path: Path, code: int, error: type[Exception] | None, said: str
) -> None:
    study, runner = toy(tmp_path), Runner(toy(tmp_path), tmp_path, 1)
    job = runner.next_job(Results([], []))
    assert job is not None
    log = (tmp_path / job.place).with_suffix(".log")
    log.parent.mkdir(parents=True)
    log.write_text("no network\n", encoding="utf-8")
    runner.running[job] = Mock(poll=lambda: code)
    if error is None:
        runner.wait_for_one()
        assert read(study, tmp_path).failed == [(job, "no network")]
        return
    with pytest.raises(error, match=re.escape(said)):
        runner.wait_for_one()
    assert not read(study, tmp_path).failed


def test_one_signal_stops_a_study_and_a_second_one_of_the_user_ends_it_at_once(tmp_path: Path) -> None:
    """A run that gets two signals ends without saving, so one that has saved must not send another to the rest."""
    study = toy(tmp_path)
    fast, slow = (Job("plain", seed, study.corpora[0], "tokens", 480, None) for seed in (0, 1))
    runner, signals = Runner(study, tmp_path, 2), list[int]()
    codes: dict[Job, int | None] = {fast: None, slow: None}
    for job in codes:
        runner.running[job] = Mock(poll=lambda job=job: codes[job])
    runner.running[slow].send_signal.side_effect = signals.append
    runner.stop(130)
    codes[fast] = 143  # it has saved and ended
    runner.wait_for_one()
    assert (runner.stopped, signals) == (130, [signal.SIGTERM])
    with pytest.raises(RunError):
        runner.end(fast, -9)
    assert signals == [signal.SIGTERM]
    runner.stop(130)
    assert len(signals) == 2


def test_a_run_says_by_its_exit_code_that_another_try_would_fail_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = toy(tmp_path)
    job = json.dumps(vars(Job("plain", 0, study.corpora[0], "tokens", 480, 1e20)))
    monkeypatch.setattr(sys, "argv", ["one_run.py", str(study.path), str(tmp_path / "run"), job])
    with quick_runs():
        assert one_run.main() == run.FAILS
        monkeypatch.setattr(one_run, "make", Mock(side_effect=ZeroDivisionError))  # a fault of the arm
        assert one_run.main() == run.FAILS
        monkeypatch.setattr(one_run, "make", Mock(side_effect=RunError("no network")))
        assert one_run.main() == 1


def test_other_code_or_another_study_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = toy(tmp_path)
    runner = Runner(study, tmp_path, 1)
    runner.begin()
    runner.begin()
    monkeypatch.setattr(run, "code_digest", lambda study: "other")
    with pytest.raises(InputError, match=r"began with the code as it was at commit \w+ .*now it is another \(other\)"):
        runner.begin()
    monkeypatch.undo()
    study.path.write_text(study.path.read_text(encoding="utf-8") + "# later\n", encoding="utf-8")
    with pytest.raises(InputError, match="began with the file"):
        runner.begin()


def test_rates_are_chosen_before_an_arm_is_compared_and_the_test_is_opened_last(tmp_path: Path) -> None:
    tuned = synthetic.TEXT + "\n[tuning]\nrates = [0.003, 0.006]\ntokens = 1_000\nseeds = 1\n"
    study = synthetic.study(tmp_path, tuned)
    runner, found = Runner(study, tmp_path, 2), Results([], [])
    for rate, score in ((0.003, 0.0), (0.006, -0.2)):
        assert chosen_rate(study, found, "control", "python-docs") is None
        job = Job("control", 1_000, "python-docs", "tokens", 1_000, rate, tunes=True)
        row = synthetic.result(study, "control", 1_000)
        for each in row["documents"]["64"]:
            each[2] += score * each[0]
        found.finished.append(row | {"job": vars(job).copy()})
    assert chosen_rate(study, found, "control", "python-docs") == 0.006
    wanted = [job for job in runner.wanted(found) if not job.tunes]
    assert {(job.arm, job.rate) for job in wanted} == {("control", 0.006)}
    assert runner.next_job(found) == Job("equal", 1_000, "python-docs", "tokens", 1_000, 0.003, tunes=True)
    with pytest.raises(InputError, match="38 of 40 runs are not finished; the test is read once"):
        runner.open_test(found)


def test_a_study_that_only_chooses_rates_has_no_more_runs_and_no_test(tmp_path: Path) -> None:
    tuning = "\n[tuning]\nrates = [0.003]\ntokens = 1_000\nseeds = 2\n"
    study = synthetic.study(tmp_path, synthetic.TEXT.replace("tokens = [1_000_000]\n", "") + tuning)
    runner, found = Runner(study, tmp_path, 2), Results([], [])
    while (job := runner.next_job(found)) is not None:
        assert job.tunes
        found.finished.append(synthetic.result(study, job.arm, job.seed) | {"job": vars(job).copy()})
    assert len(found.finished) == study.count() == 8
    with pytest.raises(InputError, match="only chooses learning rates"):
        runner.open_test(found)
    text = report.markdown(list(report.blocks(study, found, {})))
    assert "| control |" in text
    assert "| 0.003 (an end) |" in text
    assert "Incomplete" not in text
    assert "verdict" not in text
    assert "seed" not in next(line for line in report.plan(study).splitlines() if line.startswith("  control"))


def command(study: Study, out: Path, *words: str) -> list[str]:
    script = str(ROOT / "benchmarks/evaluation/run.py")
    return [sys.executable, script, str(study.path), "--out", str(out), "--jobs", "2", *words]


@pytest.mark.machines
def test_kill_9_of_all_processes_changes_no_result(tmp_path: Path) -> None:
    study, outs = toy(tmp_path, 1_500), [tmp_path / "whole", tmp_path / "killed"]
    subprocess.run(command(study, outs[0]), check=True, capture_output=True)
    process = subprocess.Popen(command(study, outs[1]), start_new_session=True)
    while not list(outs[1].glob("*/*/*/*/checkpoints/*")):
        assert process.poll() is None
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = len(list(outs[1].glob(f"*/*/*/*/{RESULT}")))
    assert done < study.count()
    said = subprocess.run(command(study, outs[1]), check=True, capture_output=True, text=True).stdout
    assert "4 of 4 runs finished" in said
    found = [{str(each["job"]): timeless(each) for each in read(study, out).finished} for out in outs]
    assert found[0] == found[1]
    subprocess.run(command(study, outs[1], "--open-test"), check=True, capture_output=True)
    again = subprocess.run(command(study, outs[1], "--open-test"), check=False, capture_output=True, text=True)
    assert again.returncode == 2
    assert "the test text was read on" in again.stderr
    assert json.loads((outs[1] / "study.json").read_text(encoding="utf-8"))["test_opened"]
