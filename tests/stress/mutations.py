"""Feeds hostile inputs to the programs: ``python tests/stress/mutations.py --count 5000 --seed 0``.

They are mutated files of every kind that the programs read, downloads that go wrong, chat templates, and odd flags.
Every input must be used or refused with one of the project's own errors, in time. Counted are

- tracebacks: any other exception, or a process that breaks down,
- hangs: over ten seconds, twice,
- silent acceptances of what the safetensors library or the declared type of a field refuses, of a response that is not
  whole, and of a template that fails,
- wrong exit codes: other than 0 or 2, or 1 after a download,
- control characters that reach the terminal, and
- files of the user, behind a link, that are changed.

Exits with 1 if there are any, and prints how to repeat each: --only NUMBER with the same seed.

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
import re
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the options are read before the programs are imported
    from tests.stress.cases import Case

ROOT = Path(__file__).parents[2]
SECONDS = 10.0
MEMORY = 6 << 30  # bytes of addresses of a worker: an input that needs more is a fault
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
KINDS = ("traceback", "hang", "silent acceptance", "wrong exit code", "control character", "destroyed file")


def work(folder: Path, seed: int) -> None:
    """Answer for every number on standard input with what became of that input."""
    import resource

    from minigrad.data import text_files
    from tests.small_runs import quick_runs
    from tests.stress import cases, subjects
    from tokenizer.templates import renderer

    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    renderer.BOUNDS, text_files._PATIENCE = renderer.Bounds(0.5, 64, 100_000), 1
    place = folder / f"worker-{os.getpid()}"
    place.mkdir()
    (place / "originals").symlink_to(folder / "originals")
    os.environ["MINIGRAD_CACHE"] = str(place / "cache")  # that of the kernels has been chosen
    answers = os.fdopen(os.dup(1), "w")  # what the programs print goes elsewhere
    warnings.simplefilter("ignore")
    with quick_runs():
        known = [subjects.Subject(name, Path(path), tuple(readers)) for name, path, readers in described(folder)]
        print("ready", file=answers, flush=True)
        for line in sys.stdin:
            case = cases.case(known, place, random.Random(f"{seed} {int(line)}"))
            print(case.label.encode("ascii", "backslashreplace").decode(), file=answers, flush=True)
            found = outcome(case)
            if (place / "victim").read_bytes() != cases.VICTIM.encode():
                found = {"kind": "destroyed file", "detail": "a link led to another file, which has changed"}
            print(json.dumps(found), file=answers, flush=True)


def described(folder: Path) -> list[Any]:
    """Return the subjects in a folder as `prepare` wrote them down."""
    return list(json.loads((folder / "originals" / "subjects.json").read_text(encoding="utf-8")))


def prepare(folder: Path) -> None:
    """Make the subjects, and let every entry point use a copy, so that the kernels that it needs are compiled."""
    from tests.small_runs import quick_runs
    from tests.stress import mutants, readers, subjects

    (folder / "originals").mkdir(parents=True)
    with quick_runs(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()) as errors:
        made = subjects.make(folder / "originals")
        for subject in made:
            for reader in subject.readers:
                code = readers.READERS[reader](mutants.copy_of(subject.path, folder / subject.path.name))
                accepted = code == (0 if (subject.name, reader) not in subjects.REFUSED else 2)
                assert accepted, f"{reader}, {subject.name}: exit code {code}\n{errors.getvalue()[-500:]}"
    names = [(each.name, str(each.path), each.readers) for each in made]
    (folder / "originals" / "subjects.json").write_text(json.dumps(names), encoding="utf-8")


def outcome(case: Case) -> dict[str, Any]:
    """Feed an input to its entry point and return what happened."""
    from minigrad.kernels.gemm import backend
    from minigrad.system import hardware
    from tests.stress import readers

    printed, errors = io.StringIO(), io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(errors):
            code: Any = case.act()
    except readers.OWN_ERRORS as error:
        code, _ = 2, errors.write(str(error))
    except SystemExit as stop:
        code = stop.code
    except BaseException:
        return {"kind": "traceback", "detail": traceback.format_exc(limit=-4)}
    finally:
        hardware.prepare(1)
        backend.use()
    said = errors.getvalue()
    if "Traceback" in said:
        return {"kind": "traceback", "detail": said[-1_000:]}
    if found := CONTROL.search(printed.getvalue() + said):
        return {"kind": "control character", "detail": f"{found[0]!r} in {said[:300]!r}"}
    if code == 0 and (why := case.must_be_refused()):
        return {"kind": "silent acceptance", "detail": why}
    if code not in case.codes:
        return {"kind": "wrong exit code", "detail": f"{code!r}, where {case.codes} are right: {said[:500]}"}
    return {"kind": f"exit {code}", "detail": said[:300]}


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


def feed(
    numbers: list[int],
    seed: int,
    num_workers: int,
    *,
    kept: Path | None = None,
    tell: Callable[[int, dict[str, Any]], object] = lambda number, found: None,
) -> dict[int, dict[str, Any]]:
    """Return what became of each numbered input, and `tell` it at once."""
    outcomes: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = kept or Path(temporary)
        if not (folder / "originals" / "subjects.json").exists():
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
                    tell(number, outcomes[number])
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
    parser.add_argument("--count", type=int, default=5_000, help="the number of inputs")
    parser.add_argument("--seed", type=int, default=0, help="the seed of the mutations")
    parser.add_argument("--only", type=int, metavar="NUMBER", help="feed this input alone, and print what became of it")
    parser.add_argument("--workers", type=int, default=2, help="the number of processes")
    parser.add_argument(
        "--subjects", type=Path, help="a folder for what is mutated, which is used again if it is there"
    )
    parser.add_argument("--worker", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    if given.worker:
        work(given.worker, given.seed)
        return 0
    began = time.perf_counter()
    numbers = list(range(given.count)) if given.only is None else [given.only]

    def tell(number: int, each: dict[str, Any]) -> None:
        if given.only is not None or each["kind"] in KINDS:
            again = f"--seed {given.seed} --only {number}"
            print(f"{again}: {each['kind']}: {each['label']}\n{each['detail']}\n", flush=True)

    num_workers = given.workers if given.only is None else 1
    outcomes = feed(numbers, given.seed, num_workers, kept=given.subjects, tell=tell)
    counts = collections.Counter(each["kind"] for each in outcomes.values())
    print(f"{len(outcomes):,} inputs in {time.perf_counter() - began:.0f} s:", dict(counts.most_common()))
    print(", ".join(f"{counts[kind]} {kind}s" for kind in KINDS))
    return int(any(counts[kind] for kind in KINDS))


if __name__ == "__main__":
    sys.exit(main())
