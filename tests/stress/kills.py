"""Kill runs of many kinds, continue them, and compare them with runs that were never stopped.

Every run is killed once or twice, with SIGKILL where there is such a signal, at a random moment after its first
checkpoint, one time in four while it writes another; then it continues to its end. It must continue from a checkpoint,
and its weights and metrics must equal those of the whole run, bit for bit, except for the time and the memory that it
took. Two thirds of the runs have a default batch: that of a short run, or that of ten minutes. It takes less than a
minute a kill:

    python tests/stress/kills.py --count 50 --kinds all --seed 0
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import functools
import hashlib
import itertools
import json
import operator
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from minigrad.data import python_docs  # noqa: E402  (found through the line above)
from minigrad.training.folder import checkpoint  # noqa: E402
from minigrad.training.folder.metrics import TIMING_FIELDS  # noqa: E402
from minigrad.training.folder.opening import open_run  # noqa: E402
from minigrad.training.settings import TrainConfig  # noqa: E402
from tests.stress.kinds import KINDS, SHAPES, Kind, flags_of, write_lessons  # noqa: E402

MPIEXEC = Path(sys.executable).with_name("mpiexec")
LATEST = 600  # seconds until a run that neither ends nor saves has failed


def command(kind: Kind, *flags: str) -> list[str]:
    """Return the command that trains a run of a kind with these flags."""
    launcher = [str(MPIEXEC), "-n", str(kind.processes)] if kind.processes > 1 else []
    return [*launcher, sys.executable, str(ROOT / "train.py"), *flags]


def finish(words: list[str]) -> str:
    """Train to the end and return what was printed; raises SystemExit with the errors if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=LATEST)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} failed with exit code {done.returncode}:\n{done.stderr}")
    return done.stdout


def outcome(folder: Path) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the hashes of the weights, and the metrics without times and memory."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    metrics = [{name: value for name, value in line.items() if name not in TIMING_FIELDS} for line in lines]
    weights = sorted(folder.glob("*.safetensors"))
    assert weights
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in weights], metrics


class Whole(NamedTuple):
    """A run that was never stopped: what became of it, and the seconds from its first checkpoint to its end."""

    outcome: tuple[list[str], list[dict[str, Any]]]
    seconds: float


class Killed(NamedTuple):
    """How a run was killed: after which step, in what way, and with which newest checkpoint."""

    step: int
    way: str
    saved: int


def watch(process: subprocess.Popen[bytes], until: Callable[[], object]) -> bool:
    """Wait until something is true and return True, or False if the process ends before."""
    began = time.monotonic()
    while process.poll() is None:
        if until():
            return True
        if time.monotonic() - began > LATEST:
            process.kill()
            raise SystemExit(f"no checkpoint and no end after {LATEST} seconds: {process.args!r}")
        time.sleep(0.002)
    return False


def start(words: list[str], told: Path) -> subprocess.Popen[bytes]:
    """Start a run that appends what it prints to the file `told`."""
    with told.open("ab") as output:
        return subprocess.Popen(words, stdout=output, stderr=subprocess.DEVNULL)


def log_of(folder: Path) -> Path:
    """Return the file of what the processes of a run printed."""
    return folder.with_name(f"{folder.name}.log")


def whole(words: list[str], folder: Path) -> Whole:
    """Train a run that is not stopped."""
    process = start([*words, f"--out={folder}"], log_of(folder))
    watch(process, lambda: checkpoint.steps(folder))
    began = time.monotonic()
    if process.wait(timeout=LATEST):
        finish([*words, f"--out={folder}-again"])
    return Whole(outcome(folder), time.monotonic() - began)


def kill_run(words: list[str], folder: Path, draw: random.Random, seconds: float) -> Killed | None:
    """Train, and kill the process at a random moment after it has saved; None if it had ended by then."""
    known = checkpoint.steps(folder)[-1:]
    in_a_save, moment = draw.random() < 0.25, draw.uniform(0, seconds)
    process = start(words, log_of(folder))
    if watch(process, lambda: checkpoint.steps(folder)[-1:] != known):
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(timeout=moment)
    if in_a_save:
        watch(process, lambda: any((folder / "checkpoints").glob(".*.tmp")))
    if process.poll() is not None:
        return None
    end(process, draw)
    if open_run(TrainConfig(resume=folder), {"resume"}).describe_end():
        return None  # it had only to exit
    saved = checkpoint.steps(folder)[-1]
    return Killed(last_step(folder), "while saving" if in_a_save else f"after {moment:.1f} s", saved)


def end(process: subprocess.Popen[bytes], draw: random.Random) -> None:
    """Kill a run; of several processes one, whose death the others must notice, or all."""
    ranks = [number for number, words in below(process.pid) if "train.py" in words and "mpiexec" not in words]
    if not ranks:
        process.kill()
    for rank in ranks if draw.random() < 0.5 else ranks[:1]:
        os.kill(rank, signal.SIGKILL)
    process.wait(timeout=60)


def below(parent: int) -> list[tuple[int, str]]:
    """Return the processes below a process, with their commands; none on Windows, where a run is one process."""
    if os.name == "nt":
        return []
    told = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    lines = [line.split(None, 2) for line in told.splitlines()]
    found, level = list[tuple[int, str]](), {parent}
    while level:
        children = [(int(number), words) for number, above, words in lines if int(above) in level]
        found, level = found + children, {number for number, _ in children}
    return found


def last_step(folder: Path) -> int:
    """Return the last step in the metrics of a run that may have been killed while it wrote a line of them."""
    lines = (folder / "metrics.jsonl").read_text(encoding="utf-8").split("\n")[:-1]
    return int(json.loads(lines[-1])["step"]) if lines else 0


def prepare(work: Path, names: list[str]) -> None:
    """Write the texts, and train the models that the kinds of these names start from."""
    text = "\n\n".join(python_docs.library_documentation())[:1_000_000]
    (work / "text").write_text(text, encoding="utf-8")
    write_lessons(work)
    often = [f"--{name}={value}" for name, value in SHAPES["default"].items()]
    finish(command(Kind(), f"--data={work / 'text'}", "--size=nano", f"--out={work / 'base'}", *often))
    if any("{parrot}" in " ".join(KINDS[name].flags) for name in names):  # some of its answers are right
        learn = ["--objective=sft", "--data=task:copying", "--replay=0", "--lr=0.01", "--batch=8", "--steps=150"]
        finish(command(Kind(), f"--init={work / 'base'}", *learn, f"--out={work / 'parrot'}"))


def chosen(words: str) -> list[str]:
    """Return the names of the kinds that were asked for; raises SystemExit for others."""
    names = list(KINDS) if words == "all" else words.split(",")
    if wrong := [name for name in names if name not in KINDS]:
        raise SystemExit(f"unknown kind {', '.join(wrong)}; there are all, {', '.join(KINDS)}")
    if not MPIEXEC.exists() and any(KINDS[name].processes > 1 for name in names):
        raise SystemExit(f"no {MPIEXEC}, for runs of several processes: install the extra `distributed`")
    return names


class Series:
    """Runs that are killed, and the whole runs of the same kinds and shapes."""

    def __init__(self, work: Path, draw: random.Random, flags: list[str]) -> None:
        self.work, self.draw, self.flags = work, draw, flags
        self.runs, self.kills, self.failures = 0, collections.Counter[str](), 0  # kills by shape

    def words(self, name: str, shape: str) -> list[str]:
        """Return the command of a run, but for its folder."""
        return command(KINDS[name], *flags_of(KINDS[name], shape, self.work), *self.flags)

    @functools.cache  # noqa: B019  (there is one series)
    def never_stopped(self, name: str, shape: str) -> Whole:
        """Return the run of a kind and a shape that is not stopped."""
        return whole(self.words(name, shape), self.work / f"{name}-{shape}")

    def kill(self, name: str, shape: str, most: int) -> None:
        """Kill a run once or up to `most` times, continue it to its end, compare it and print what came of it."""
        expected = self.never_stopped(name, shape)
        folder, found = self.killed(name, shape, most)
        # The last continuation may be at its end already: it was to be killed too, and was faster.
        told = log_of(folder).read_text(encoding="utf-8") + finish(command(KINDS[name], f"--resume={folder}"))
        steps = [int(each.replace(",", "")) for each in re.findall(r"continuing after step ([\d,]+)", told)]
        saved = [each.saved for each in found]
        is_equal = outcome(folder) == expected.outcome
        is_equal = is_equal and len(steps) == len(saved) and all(map(operator.ge, steps, saved))
        ends = ["killed again"] * (len(found) - 1) + ["equal" if is_equal else "DIFFERENT"]
        for each, begun, end in itertools.zip_longest(found, steps[: len(found)], ends, fillvalue=0):
            print(f"{name:17}{shape:13}{each.way:14}{each.step:>8}{begun:>16}   {end}", flush=True)
        self.runs, self.failures = self.runs + 1, self.failures + (not is_equal)
        self.kills[shape] += len(found)

    def killed(self, name: str, shape: str, most: int) -> tuple[Path, list[Killed]]:
        """Return the folder of a run that was killed at least once, and how."""
        found, seconds = list[Killed](), self.never_stopped(name, shape).seconds
        for attempt in itertools.count():
            folder = self.work / f"killed-{self.runs}-{attempt}"
            words = [*self.words(name, shape), f"--out={folder}"]
            while len(found) < most and (one := kill_run(words, folder, self.draw, seconds)):
                found.append(one)
                words = command(KINDS[name], f"--resume={folder}")
            if found:
                return folder, found
            seconds /= 2  # it had ended before it was to be killed
        raise AssertionError


def main() -> int:
    """Kill and continue runs; return 1 if one of them ended otherwise than the whole run, or began anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50, help="the number of kills")
    parser.add_argument("--kinds", default="default", help=f"all, or some of {', '.join(KINDS)}, with commas")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--flags", default="", help="further flags of train.py, such as '--matmul numba'")
    asked = parser.parse_args()
    names, shapes = chosen(asked.kinds), list(SHAPES)
    print(f"{'kind':17}{'shape':13}{'killed':14}{'at step':>8}{'continued from':>16}   outcome", flush=True)
    with tempfile.TemporaryDirectory() as temporary:
        series = Series(Path(temporary), random.Random(asked.seed), asked.flags.split())
        prepare(series.work, names)
        while (left := asked.count - series.kills.total()) > 0:
            turn = series.runs // len(names)  # each kind at one shape, then each at the other
            shape = min(shapes, key=lambda shape: series.kills[shape])
            series.kill(names[series.runs % len(names)], shape, min(left, 1 + (turn % 2)))
    print(f"{series.kills.total()} kills of {series.runs} runs ({dict(series.kills)}):", end=" ")
    print(f"{series.failures} did not continue exactly from a checkpoint")
    return int(series.failures > 0)


if __name__ == "__main__":
    sys.exit(main())
