"""Make the runs of a study, and print what they show: ``python benchmarks/evaluation/run.py STUDY.toml``.

Stop it at any moment, even with kill -9, and give the same command again: finished runs are kept, and a run that was
stopped continues from its last checkpoint. Each run is a process with one thread.
"""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from minigrad.system import environment, hardware, processors  # isort: skip  (before NumPy)

from benchmarks.evaluation import report
from benchmarks.evaluation.one_run import FAILED, FAILS, RESULT, TEST
from benchmarks.evaluation.results import Results, chosen_rate, read
from benchmarks.evaluation.study import Job, Study, code_digest, git
from minigrad.cli.exits import exit_code
from minigrad.cli.parser import Parser
from minigrad.errors import InputError, RunError
from minigrad.formats.json_files import read_json, write_json
from minigrad.options import REQUIRED, option, validate
from minigrad.system.files import reason
from minigrad.system.locks import FolderLock
from minigrad.system.signals import EXIT_CODES
from minigrad.system.terminal import prepare_output, say

PROGRAM = "benchmarks/evaluation/run.py"
BEGUN = "study.json"
_STOPPED = {end: code for number, code in EXIT_CODES.items() for end in (code, -number)}
_LONGEST_REASON = 500


@dataclass(frozen=True)
class RunnerConfig:
    """Which study is made, and where."""

    study: str = option(REQUIRED, "the study: a TOML file", positional=True, value="STUDY")
    out: str | None = option(
        None, "the folder of its runs and its report", value="DIR", none_means="runs/studies/ and its name"
    )
    jobs: int | None = option(None, "runs made side by side", at_least=1, at_most=256, none_means="one per core")
    open_test: bool = option(False, "once all runs are finished: judge the models on the test text, only once")
    plan: bool = option(False, "print the arms, the lengths and the number of runs, and stop")


class Runner:
    """Makes the missing runs of a study, several at a time."""

    def __init__(self, study: Study, folder: Path, jobs: int) -> None:
        self.study, self.folder, self.jobs = study, folder, jobs
        self.running: dict[Job, subprocess.Popen[bytes]] = {}
        self.stopped = 0  # the exit code, once the user has stopped the study

    def begin(self) -> None:
        """Note the study and the code; raises InputError if the runs in the folder began with another one."""
        now = {"study": self.study.digest(), "code": code_digest(self.study)}
        path = self.folder / BEGUN
        if not path.exists():
            more = {"committed": self.study.commit(), "commit": _commit(), "began": datetime.now(UTC).isoformat()}
            write_json(path, now | more)
            return
        before = read_json(path)
        for name, what in (("study", f"the file {self.study.path}"), ("code", "the code")):
            if before[name] != now[name]:
                raise InputError(
                    f"the runs in {self.folder} began with {what} as it was at commit {before['commit']} (hash "
                    f"{before[name]}), and now it is another ({now[name]}): they would not be comparable. Continue in "
                    "a worktree of that commit, or begin anew with another --out"
                )

    def next_job(self, results: Results) -> Job | None:
        """Return a run to start: of the tuning first, and of an arm once its learning rate is chosen."""
        known = {Job(**each["job"]) for each in results.finished} | {job for job, _ in results.failed}
        known |= self.running.keys()
        return next((job for job in self.wanted(results) if job not in known), None)

    def wanted(self, results: Results) -> list[Job]:
        """Return all runs whose learning rate is known, in the order in which they are made."""
        found = self.study.tuning_jobs()
        for each in self.study.comparisons():
            rates = {arm.name: chosen_rate(self.study, results, arm.name, each.corpus) for arm in self.study.arm}
            for arm, seed in self.study.arms_and_seeds():
                if self.study.tuning is None or rates[arm.name] is not None:
                    found.append(Job(arm.name, seed, *each, rates[arm.name]))
        return found

    def make_all(self) -> Results:
        """Make every run that is missing, or until the user stops it; raises InputError if one was refused."""
        results = read(self.study, self.folder)
        while True:
            while not self.stopped and len(self.running) < self.jobs and (job := self.next_job(results)) is not None:
                self.start(job, results)
            if not self.running:
                break
            self.wait_for_one()
            results = read(self.study, self.folder)
        return results

    def make_until_stopped(self) -> Results:
        """Make every run that is missing; on Ctrl-C, SIGTERM and SIGHUP let the running ones save, and end."""
        for number, code in EXIT_CODES.items():
            if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup has SIGHUP
                signal.signal(number, lambda *_, code=code: self.stop(code))
        self.begin()
        return self.make_all()

    def start(self, job: Job, results: Results) -> None:
        """Start the process of a run."""
        self.begin()
        done = len(results.finished) + len(results.failed) + len(self.running)
        say(f"{done + 1} of {self.study.count()}: {job.place}")
        self.running[job] = self.process(job)
        if self.stopped:  # meanwhile, and so this one does not know
            self.running[job].send_signal(signal.SIGTERM)

    def process(self, job: Job, *more: str) -> subprocess.Popen[bytes]:
        """Start a process for a run; what it prints goes to a file beside the folder of the run."""
        place = self.folder / job.place
        place.parent.mkdir(parents=True, exist_ok=True)
        words = [str(self.study.path), str(place), json.dumps(dataclasses.asdict(job)), *more]
        with place.with_suffix(".log").open("ab") as log:
            command = [sys.executable, str(Path(__file__).parent / "one_run.py"), *words]
            return subprocess.Popen(command, stdout=log, stderr=log, env=environment.as_found())

    def wait_for_one(self) -> None:
        """Wait until a run ends; one that fails in itself is noted, and any other error ends the study."""
        while all(process.poll() is None for process in self.running.values()):
            time.sleep(0.1)
        for job, process in list(self.running.items()):
            if (code := process.poll()) is None:
                continue
            del self.running[job]
            place = self.folder / job.place
            if code in _STOPPED:
                if not self.stopped:  # a second signal would end the others before they have saved
                    self.stop(_STOPPED[code])
            elif code == FAILS:
                why = _last_words(place.with_suffix(".log"))
                place.mkdir(parents=True, exist_ok=True)
                write_json(place / FAILED, {"job": dataclasses.asdict(job), "reason": why})
                say(f"failed: {job.place}: {why}")
            elif code or not (place / RESULT).exists():
                self.end(job, code)

    def end(self, job: Job, code: int) -> NoReturn:
        """Let the other runs save and end, and raise the error of the run that ended with this code."""
        if not self.stopped:
            self.stop(143)
        for process in self.running.values():
            process.wait()
        if code < 0:
            raise RunError(f"{job.place} was killed by signal {-code}; the same command continues it")
        why = _last_words((self.folder / job.place).with_suffix(".log"))
        if code == 2:
            raise InputError(f"{job.arm!r} (seed {job.seed}) was refused. {why}")
        way_out = "" if code == FAILS else "; the same command continues it"
        raise RunError(f"{job.place} ended with exit code {code}: {why}{way_out}")

    def stop(self, code: int) -> None:
        """Let all runs save and end; a second signal ends them at once.

        On Windows a signal would kill them, but there Ctrl-C reaches them as well.
        """
        self.stopped = self.stopped or code
        for process in self.running.values() if os.name != "nt" else ():
            process.send_signal(signal.SIGTERM)

    def open_test(self, results: Results) -> None:
        """Judge every model on the test text; raises InputError if runs are missing, or if that was done before."""
        if not self.study.comparisons():
            raise InputError("the study only chooses learning rates, and these are chosen on the validation text")
        missing = self.study.count() - len(results.finished) - len(results.failed)
        if missing:
            raise InputError(
                f"{missing} of {self.study.count()} runs are not finished; the test is read once, at the end"
            )
        begun = read_json(self.folder / BEGUN)
        jobs = [job for each in results.finished if not (job := Job(**each["job"])).tunes]
        if not jobs:
            raise InputError("every run failed, so there is no model to test")
        if not all(each["test_text"] for each in results.finished):
            raise InputError("the runs held out no text for a test: a text given by --held-out has none")
        if not (left := [job for job in jobs if not (self.folder / job.place / TEST).exists()]):
            raise InputError(f"the test text was read on {begun['test_opened']}; its figures are in the report")
        write_json(self.folder / BEGUN, {"test_opened": datetime.now(UTC).isoformat(), **begun})
        for job in left:
            self.running[job] = self.process(job, "--test")
            code = self.running[job].wait()
            del self.running[job]
            if code in _STOPPED:
                self.stop(_STOPPED[code])
            elif code:
                self.end(job, code)
            if self.stopped:
                break


def made(folder: Path) -> Path:
    """Return the folder, which is made if it is missing; raises InputError if it cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {folder} cannot be made: {reason(error)}; choose another") from None
    return folder


def _last_words(log: Path) -> str:
    """Return the end of what a process printed."""
    lines = [line for line in log.read_text(encoding="utf-8", errors="replace").splitlines() if line.strip()]
    return lines[-1][-_LONGEST_REASON:] if lines else "it said nothing"


def _commit() -> str:
    return git(Path(__file__).parent, "rev-parse", "--short", "HEAD") or "unknown"


def make(config: RunnerConfig) -> None:
    """Make the runs of a study, and print and write its report."""
    validate(config)
    study = Study.read(Path(config.study))
    if study.round:
        raise InputError(f"{study.path} has rounds: python benchmarks/search.py {config.study}")
    folder = Path(config.out or Path("runs/studies") / study.path.stem)
    if config.plan:
        say(report.plan(study))
        return
    hardware.prepare(1)
    with FolderLock() as lock:
        lock.take(made(folder))
        runner = Runner(study, folder, config.jobs or processors.cores())
        results = runner.make_until_stopped()
        if runner.stopped:
            say(f"stopped after {len(results.finished)} of {study.count()} runs; the same command continues")
            sys.exit(runner.stopped)
        if config.open_test:
            runner.open_test(results)
            if runner.stopped:
                say("stopped while the test text was read; the same command continues")
                sys.exit(runner.stopped)
    say(report.write(study, read(study, folder), folder))


def main() -> int:
    """Run the command line and return the exit code."""
    prepare_output()
    parser = Parser(RunnerConfig, prog=PROGRAM, description="Make the runs of a study, and print what they show.")
    said = "interrupted; the same command continues"
    return exit_code(PROGRAM, lambda: make(parser.read()[0]), interrupted=said, less_memory="give smaller --jobs")


if __name__ == "__main__":
    sys.exit(main())
