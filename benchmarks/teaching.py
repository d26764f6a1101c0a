"""What a trained model learns when it is taught, and what it forgets: a book, rewards on a task, and a teacher.

The book asks what functions of the standard library do; the answers are the first sentences of their docstrings. Every
run is one of train.py in a process of its own. `--minutes` bounds the whole: every kind of run is made with the first
seed before any is made with the second, and a run that is likely to take longer than what is left is not begun. With
one seed the defaults take about twenty minutes; run it with nothing else on the machine.

    python benchmarks/teaching.py runs/vidya-v2-nano [--seeds 3] [--minutes 60] [--only book|task|student]
"""

from __future__ import annotations

import argparse
import builtins
import importlib
import inspect
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent

MODULES = ("math", "os.path", "itertools", "random", "statistics", "shutil", "string", "textwrap", "bisect", "heapq")

FIGURES: dict[str, Callable[[dict[str, Any]], float]] = {
    "exact, %, before": lambda run: 100 * run["before"]["recall"],
    "exact, %": lambda run: 100 * run["result"]["recall"],
    "reworded, %": lambda run: 100 * run["result"]["recall_reworded"],
    "held-out bits per byte": lambda run: run["result"]["bits_per_byte"],
    "change in %": lambda run: 100 * (run["result"]["bits_per_byte"] / run["before"]["bits_per_byte"] - 1),
    "seconds": lambda run: run["seconds"],
}
"""What is shown of a run, from its minigrad.json; a figure that a kind of run does not have is left out."""


class Kind(NamedTuple):
    """A kind of run, under a name, and the words of its command."""

    name: str
    words: tuple[object, ...]


def pairs() -> Iterator[tuple[str, str]]:
    """Yield names of functions and classes, and the first sentence about each, none of them twice."""
    seen = set[str]()
    for module in (builtins, *map(importlib.import_module, MODULES)):
        prefix = "" if module is builtins else f"{module.__name__}."
        for name, value in sorted(vars(module).items()):
            is_error = isinstance(value, type) and issubclass(value, BaseException)
            sentence = re.split(r"(?<=[.])\s|\n\n", (inspect.getdoc(value) or "").strip())[0].replace("\n", " ")
            if callable(value) and not is_error and not name.startswith("_") and 15 < len(sentence) < 90:
                if "->" not in sentence and sentence not in seen:
                    yield prefix + name, sentence
                seen.add(sentence)


def train(out: Path, *words: object) -> dict[str, Any]:
    """Run train.py and return minigrad.json with the seconds of the whole process."""
    command = [sys.executable, str(ROOT / "train.py"), "--out", str(out), *map(str, words)]
    began = time.perf_counter()
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    record: dict[str, Any] = json.loads((out / "minigrad.json").read_text(encoding="utf-8"))
    return record | {"seconds": time.perf_counter() - began}


class Clock:
    """What is left of the minutes, and how long a run took at most."""

    def __init__(self, minutes: float) -> None:
        self.end, self.longest = time.perf_counter() + 60 * minutes, 0.0

    def has_time(self) -> bool:
        """Whether a run that takes as long as the longest so far would end in time."""
        return time.perf_counter() + self.longest < self.end


def compare(kinds: list[Kind], folder: Path, seeds: int, clock: Clock) -> list[dict[str, Any]]:
    """Make every kind of run with each seed, as long as there is time; print a table, and return what it shows."""
    records: dict[str, list[dict[str, Any]]] = {kind.name: [] for kind in kinds}
    for seed in range(seeds):
        for kind in kinds:
            if clock.has_time():
                run = train(folder / f"{kind.name}-{seed}".replace(" ", "-"), *kind.words, "--seed", seed)
                records[kind.name].append(run)
                clock.longest = max(clock.longest, run["seconds"])
    found = [{"name": name, "seeds": len(runs), **_figures(runs)} for name, runs in records.items() if runs]
    print(table(found), flush=True)
    return found


def _figures(runs: list[dict[str, Any]]) -> dict[str, list[float]]:
    figures = dict[str, list[float]]()
    for name, figure in FIGURES.items():
        try:
            figures[name] = [float(figure(run)) for run in runs]
        except KeyError:
            continue
    return figures


def table(found: list[dict[str, Any]]) -> str:
    """Return the figures of kinds of runs as a table: the mean over the seeds, and the smallest and the largest.

    >>> print(table([{"name": "replay 0", "seeds": 2, "exact, %": [90.0, 95.0]}]))
    | | seeds | exact, % |
    | --- | --: | --: |
    | replay 0 | 2 | 92.50 (90.00 to 95.00) |
    """
    titles = [name for name in FIGURES if any(name in each for each in found)]
    lines = [f"| | seeds | {' | '.join(titles)} |", f"| --- | {' | '.join(['--:'] * (1 + len(titles)))} |"]
    for each in found:
        values = [each.get(title, []) for title in titles]
        cells = (f"{statistics.mean(v):.2f} ({min(v):.2f} to {max(v):.2f})" if v else "" for v in values)
        lines.append(f"| {each['name']} | {each['seeds']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def book_kinds(asked: argparse.Namespace, folder: Path) -> list[Kind]:
    """Write the book, and return the runs that learn it: with shares of replay, and with adapters."""
    book, taken = folder / "book.txt", list(pairs())[: asked.pairs]
    book.write_text("\n\n".join(f"Q: What does {name} do?\nA: {text}" for name, text in taken), encoding="utf-8")
    print(f"\n{len(taken)} questions and answers, {asked.book_steps} steps\n")
    learn = ("--init", asked.run, "--objective", "sft", "--data", book, "--steps", asked.book_steps)
    kinds = [Kind(f"replay {share:g}", (*learn, "--replay", share)) for share in (0, 0.5, 0.75)]
    return [*kinds, Kind("adapters, replay 0.5", (*learn, "--replay", 0.5, "--adapter-rank", 16))]


def task_kinds(asked: argparse.Namespace, folder: Path) -> list[Kind]:
    """Teach a task a little, and return the runs that practise it."""
    task, beginner = f"task:{asked.task}", folder / "beginner"
    train(beginner, "--init", asked.run, "--objective", "sft", "--data", task, "--steps", asked.beginner_steps)
    print(f"\n{task} from a beginner, {asked.task_steps} steps\n")
    practise = ("--init", beginner, "--data", task, "--steps", asked.task_steps)
    return [Kind(name, (*practise, "--objective", name)) for name in ("reinforce", "best-of-n", "grpo")]


def student_kinds(asked: argparse.Namespace, folder: Path) -> list[Kind]:
    """Return the runs of new models with the run as their teacher, and one without, of equally many tokens."""
    print(f"\na new nano from {asked.run}, {asked.student_steps} steps\n")
    alone = ("--size", "nano", "--tokenizer", asked.run, "--steps", asked.student_steps)
    learn = (*alone, "--objective", "distill", "--teacher", asked.run)
    shares = [Kind(f"teacher {share:g}", (*learn, "--teacher-share", share)) for share in (0.5, 0.9)]
    return [Kind("alone", alone), *shares, Kind("reverse 0.5", (*learn, "--teacher-divergence", "reverse"))]


PARTS = {"book": book_kinds, "task": task_kinds, "student": student_kinds}


def main() -> None:
    """Print a table for each part, and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--pairs", type=int, default=150)
    parser.add_argument("--book-steps", type=int, default=600)
    parser.add_argument("--task", default="sorting")
    parser.add_argument("--beginner-steps", type=int, default=50)
    parser.add_argument("--task-steps", type=int, default=400)
    parser.add_argument("--student-steps", type=int, default=1_000)
    asked = parser.parse_args()
    found, clock = [], Clock(asked.minutes)
    with tempfile.TemporaryDirectory() as temporary:
        for name, kinds in PARTS.items():
            if asked.only in (None, name) and clock.has_time():
                folder = Path(temporary) / name
                folder.mkdir()
                found += compare(kinds(asked, folder), folder, asked.seeds, clock)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
