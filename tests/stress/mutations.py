"""Feeds mutated files to the programs: ``python tests/stress/mutations.py --count 5000 --seed 0``.

Every input must be used or refused with one of the project's own errors, in time. Counted are tracebacks (any other
exception), hangs (over ten seconds, twice), and silent acceptances of what the safetensors library or the declared type
of a field refuses. Exits with 1 if there are any, and prints how to repeat each: --only NUMBER with the same seed.

Workers read the numbers of inputs from their standard input and answer each with a line of JSON; a worker that does not
answer in time is killed, and another one goes on.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
SECONDS = 10.0
KINDS = ("traceback", "hang", "silent acceptance")


def work(folder: Path, seed: int) -> None:
    """Answer for every number on standard input with what became of that input."""
    from tests.small_runs import quick_runs
    from tests.stress import subjects

    answers = os.fdopen(os.dup(1), "w")  # what the programs print goes elsewhere
    warnings.simplefilter("ignore")
    with quick_runs(), contextlib.redirect_stdout(io.StringIO()):
        known = [subjects.Subject(name, Path(path), tuple(readers)) for name, path, readers in described(folder)]
        print("ready", file=answers, flush=True)
        for line in sys.stdin:
            sys.stdout.seek(0), sys.stdout.truncate()
            trial = Trial.make(known, folder, seed, int(line))
            print(trial.label, file=answers, flush=True)
            print(json.dumps(trial.outcome()), file=answers, flush=True)


def described(folder: Path) -> list[Any]:
    """Return the subjects in a folder as `prepare` wrote them down."""
    return list(json.loads((folder / "originals" / "subjects.json").read_text(encoding="utf-8")))


def prepare(folder: Path) -> None:
    """Make the subjects, and let every entry point use a copy, so that the kernels that it needs are compiled."""
    from tests.small_runs import quick_runs
    from tests.stress import mutants, subjects

    (folder / "originals").mkdir()
    with quick_runs(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        made = subjects.make(folder / "originals")
        for subject in made:
            for reader in subject.readers:
                code = subjects.READERS[reader](mutants.copy_of(subject.path, folder / subject.path.name))
                assert code == 0, f"{reader} does not accept {subject.name}: {code}"
    names = [(each.name, str(each.path), each.readers) for each in made]
    (folder / "originals" / "subjects.json").write_text(json.dumps(names), encoding="utf-8")


class Trial(NamedTuple):
    """A mutated input, and the entry point that it is for."""

    reader: str
    path: Path  # what the entry point is given
    file: Path  # the mutated file in it
    mutant: Any
    label: str

    @classmethod
    def make(cls, known: list[Any], folder: Path, seed: int, number: int) -> Trial:
        """Make the input of a number."""
        from tests.stress import mutants, subjects

        draw = random.Random(f"{seed} {number}")
        subject, reader = subjects.choose(known, draw)
        place = folder / f"worker-{os.getpid()}"
        place.mkdir(exist_ok=True)
        if not (place / "originals").exists():
            (place / "originals").symlink_to(folder / "originals")
        path = mutants.copy_of(subject.path, place / subject.path.name)
        file = draw.choice(subjects.files_of(path))
        mutant = mutants.mutate(file, draw)
        what = f"{subject.name}, {reader}, {file.relative_to(place)}: {mutant.what}"
        return cls(reader, path, file, mutant, what.encode("ascii", "backslashreplace").decode())

    def outcome(self) -> dict[str, Any]:
        """Feed the input to its entry point and return what happened."""
        from minigrad.kernels.gemm import backend
        from minigrad.system import hardware
        from tests.stress import subjects

        errors = io.StringIO()
        try:
            with contextlib.redirect_stderr(errors):
                code: Any = subjects.READERS[self.reader](self.path)
        except subjects.OWN_ERRORS as error:
            code, _ = 2, errors.write(str(error))
        except SystemExit as stop:
            code = stop.code
        except BaseException:
            return {"kind": "traceback", "detail": traceback.format_exc(limit=-4)}
        finally:
            hardware.prepare(1)
            backend.use()
        if code == 0 and (why := subjects.must_be_refused(self.file, self.mutant.retyped, self.reader)):
            return {"kind": "silent acceptance", "detail": why}
        return {"kind": f"exit {code}", "detail": errors.getvalue()[:300]}


class Worker:
    """A process that answers for inputs, replaced by another one when it does not."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder, self.seed = folder, seed
        self.start()

    def start(self) -> None:
        """Start the process."""
        command = [sys.executable, str(Path(__file__)), "--worker", str(self.folder), "--seed", str(self.seed)]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.lines: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._listen, args=(self.process, self.lines), daemon=True).start()
        self.lines.get(timeout=300)  # "ready"

    @staticmethod
    def _listen(process: Any, lines: queue.Queue[str]) -> None:
        for line in process.stdout:
            lines.put(line)
        lines.put("")

    def ask(self, number: int) -> dict[str, Any]:
        """Return what became of an input; a first answer that is late may be the machine's fault, a second is not."""
        for _ in range(2):
            label = line = ""
            with contextlib.suppress(queue.Empty, BrokenPipeError):
                self.process.stdin.write(f"{number}\n")
                self.process.stdin.flush()
                label = self.lines.get(timeout=SECONDS)
                line = self.lines.get(timeout=SECONDS) if label else ""
            if line:
                return {"label": label.rstrip(), **json.loads(line)}
            ended = self.process.poll()
            self.stop()
            self.start()
        kind = "hang" if ended is None else "traceback"
        return {"kind": kind, "label": label.rstrip(), "detail": f"exit code of the process: {ended}"}

    def stop(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


def feed(numbers: list[int], seed: int, num_workers: int) -> dict[int, dict[str, Any]]:
    """Return what became of each numbered input."""
    outcomes: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder)
        waiting: queue.Queue[int] = queue.Queue()
        for number in numbers:
            waiting.put(number)

        def drain() -> None:
            worker = Worker(folder, seed)
            with contextlib.suppress(queue.Empty):
                while True:
                    number = waiting.get_nowait()
                    outcomes[number] = worker.ask(number)
            worker.stop()

        threads = [threading.Thread(target=drain) for _ in range(num_workers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return outcomes


def main() -> int:
    """Feed the inputs, print what became of them, and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=5_000, help="the number of mutated inputs")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the mutations")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="feed this input alone, and print what became of it")
    parser.add_argument("--workers", type=int, default=2, help="the number of processes")
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if given.worker:
        work(given.worker, given.seed)
        return 0
    began = time.perf_counter()
    numbers = list(range(given.count)) if given.only is None else [given.only]
    outcomes = feed(numbers, given.seed, given.workers if given.only is None else 1)
    failures = {number: each for number, each in sorted(outcomes.items()) if each["kind"] in KINDS}
    for number, each in (failures if given.only is None else outcomes).items():
        print(f"--seed {given.seed} --only {number}: {each['kind']}: {each['label']}\n{each['detail']}\n")
    counts = collections.Counter(each["kind"] for each in outcomes.values())
    print(f"{len(outcomes):,} inputs in {time.perf_counter() - began:.0f} s:", dict(counts.most_common()))
    print(", ".join(f"{counts[kind]} {kind}s" for kind in KINDS))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
