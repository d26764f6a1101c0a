"""What a trained model learns when it is taught, and what it forgets: a book, rewards, preferences, and a teacher.

The book asks what functions of the standard library do; the answers are the first sentences of their docstrings. The
preferences are right answers to a task over wrong ones, both drawn from the model. The teacher of the students is a
micro with the tokenizer of the run, trained first unless its folder is given. Every run is one of train.py in a process
of its own; without a run to begin with, a nano is trained first. All runs are as long as their `--steps`, so nothing
but `--minutes` depends on what else the machine does; what teaching costs is measured by teaching_costs.py. `--minutes`
bounds the whole: every kind of run is made with the first seed before any is made with the second, and a run that is
likely to take longer than what is left is not begun.

    python benchmarks/teaching.py [RUN] [--seeds 3] [--minutes 60] [--only book|task|preferences|student]
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

sys.path.insert(0, str(Path(__file__).parent.parent))

import models
import tokenizer
from minigrad.finetuning import tasks
from minigrad.finetuning.rollouts import roll_out
from minigrad.system import environment, hardware

ROOT = Path(__file__).parent.parent

_TOGETHER = 16  # problems that are answered at once

MODULES = ("math", "os.path", "itertools", "random", "statistics", "shutil", "string", "textwrap", "bisect", "heapq")

FIGURES: dict[str, Callable[[dict[str, Any]], float]] = {
    "exact, %, before": lambda run: 100 * run["before"]["recall"],
    "exact, %": lambda run: 100 * run["result"]["recall"],
    "reworded, %": lambda run: 100 * run["result"]["recall_reworded"],
    "validation bits per byte": lambda run: run["result"]["bits_per_byte"],
    "change in %": lambda run: 100 * (run["result"]["bits_per_byte"] / run["before"]["bits_per_byte"] - 1),
    "held-out pairs apart, %": lambda run: 100 * run["result"]["preferred"],
    "margin, nats": lambda run: run["result"]["margin"],
    "chosen answers, nats": lambda run: run["result"]["chosen"],
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
    """Run train.py; return minigrad.json with the seconds of the whole process."""
    command = [sys.executable, str(ROOT / "train.py"), "--out", str(out), *map(str, words)]
    began = time.perf_counter()
    if subprocess.run(command, stdout=subprocess.DEVNULL, env=environment.as_found(), check=False).returncode:
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
    """Write the book, and return the runs that learn it; without replay a quarter of the steps read it as often."""
    book, taken = folder / "book.txt", list(pairs())[: asked.pairs]
    book.write_text("\n\n".join(f"Q: What does {name} do?\nA: {text}" for name, text in taken), encoding="utf-8")
    print(f"\n{len(taken)} questions and answers, {asked.book_steps} steps\n")
    learn = (*asked.common, "--init", asked.run, "--objective", "sft", "--data", book)
    alone, steps = ("--replay", 0, "--steps", asked.book_steps // 4), ("--steps", asked.book_steps)
    kinds = [Kind("defaults", (*learn, *steps)), Kind("no replay, a quarter of the steps", (*learn, *alone))]
    kinds += [Kind("no noise in questions", (*learn, *steps, "--question-noise", 0))]
    return [*kinds, Kind("adapters", (*learn, *steps, "--adapter-rank", 32))]


def beginner(asked: argparse.Namespace, folder: Path) -> Path:
    """Teach a task a little, so that some answers are right, and return the folder of the run."""
    out = folder / "beginner"
    how = ("--objective", "sft", "--lr", 0.001, "--steps", asked.beginner_steps, *asked.common)
    train(out, "--init", asked.run, "--data", f"task:{asked.task}", *how)
    return out


def task_kinds(asked: argparse.Namespace, folder: Path) -> list[Kind]:
    """Return the runs that practise a task, from a beginner."""
    start = beginner(asked, folder)
    practise = (*asked.common, "--init", start, "--data", f"task:{asked.task}", "--steps", asked.task_steps)
    print(f"\ntask:{asked.task} from a beginner, {asked.task_steps} steps\n")
    kinds = [Kind(name, (*practise, "--objective", name)) for name in ("grpo", "reinforce", "best-of-n")]
    return [*kinds, Kind("grpo, no replay", (*practise, "--objective", "grpo", "--replay", 0))]


def preference_kinds(asked: argparse.Namespace, folder: Path) -> list[Kind]:
    """Write pairs of a right and a wrong answer, both of a beginner, and return the runs that learn from them."""
    path, start = folder / "pairs.jsonl", beginner(asked, folder)
    lines = list(preferences(start, asked.task, asked.problems))
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    print(f"\n{len(lines)} pairs of answers, {asked.preference_steps} steps\n")
    learn = (*asked.common, "--init", start, "--data", path, "--steps", asked.preference_steps, "--objective", "dpo")
    return [Kind("dpo", learn), Kind("dpo, no replay", (*learn, "--replay", 0))]


def preferences(folder: Path, task: str, problems: int) -> Iterator[dict[str, Any]]:
    """Yield a right and a wrong answer to each problem to which the model gives both in eight attempts."""
    tok = tokenizer.load(folder)
    form, model, ends = tokenizer.load_chat(folder, tok), models.load(folder), set(tok.specials.values())
    for step in range(problems // _TOGETHER):
        numbers = range(step * _TOGETHER, (step + 1) * _TOGETHER)
        asked = [tasks.problem(task, 0, "preferences", number) for number in numbers]
        messages = [[{"role": "user", "content": each.question}] for each in asked]
        prompts = [form.encode(each) for each in messages]
        drawn = roll_out(model, prompts, group=8, tokens=16, ends=ends, seed=0, step=step).answers
        said = [tok.decode(ids[:-1]).strip() if ids[-1] in ends else "" for ids in drawn]
        for number, each in enumerate(asked):
            texts = list(filter(None, said[8 * number : 8 * number + 8]))
            right = [text for text in texts if tasks.is_right(each, text)]
            wrong = [text for text in texts if not tasks.is_right(each, text)]
            if right and wrong:
                yield {"messages": messages[number], "chosen": right[0], "rejected": wrong[0]}


def student_kinds(asked: argparse.Namespace, folder: Path) -> list[Kind]:
    """Return the runs of new models with a micro as their teacher, and of one alone: as many tokens, or as long."""
    teacher = asked.teacher or folder / "micro"
    if asked.teacher is None:
        new = (*asked.common, "--size", "micro", "--tokenizer", asked.run)
        train(teacher, *new, "--steps", asked.teacher_steps)
    found = json.loads((teacher / "minigrad.json").read_text(encoding="utf-8"))
    knows = f"{found['result']['bits_per_byte']:.3f} bits per byte"
    print(f"\na new nano, {asked.student_steps} steps; its teacher: {knows}\n")
    alone = (*asked.common, "--size", "nano", "--tokenizer", asked.run)
    learn = (*alone, "--steps", asked.student_steps, "--objective", "distill", "--teacher", teacher)
    steps = {"alone": asked.student_steps, "alone, as long": round(asked.student_steps * asked.student_ratio)}
    kinds = [Kind(name, (*alone, "--steps", number)) for name, number in steps.items()]
    kinds += [Kind(f"teacher {share:g}", (*learn, "--teacher-share", share)) for share in (0.5, 0.9)]
    return [*kinds, Kind("reverse 0.5", (*learn, "--teacher-divergence", "reverse"))]


PARTS = {"book": book_kinds, "task": task_kinds, "preferences": preference_kinds, "student": student_kinds}


def main() -> None:
    """Print a table for each part, and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, nargs="?", help="default: a nano of --base-steps, trained first")
    parser.add_argument("--base-steps", type=int, default=4_000)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--kinds", nargs="+", metavar="NAME", help="names of kinds of runs, as in the tables; all")
    parser.add_argument("--pairs", type=int, default=150)
    parser.add_argument("--book-steps", type=int, default=250)
    parser.add_argument("--task", default="sorting")
    parser.add_argument("--beginner-steps", type=int, default=50)
    parser.add_argument("--task-steps", type=int, default=400)
    parser.add_argument("--problems", type=int, default=640)
    parser.add_argument("--preference-steps", type=int, default=100)
    parser.add_argument("--teacher", type=Path, help="a run of a micro with the tokenizer of the run")
    parser.add_argument("--teacher-steps", type=int, default=1_500)
    parser.add_argument("--student-steps", type=int, default=500)
    parser.add_argument(
        "--student-ratio", type=float, default=2.0, help="a step with the teacher to one alone, in time"
    )
    parser.add_argument("--threads", type=int, default=hardware.threads())
    asked = parser.parse_args()
    asked.common = ("--threads", asked.threads)
    found, clock = [], Clock(asked.minutes)
    with tempfile.TemporaryDirectory() as temporary:
        if asked.run is None:
            asked.run = Path(temporary) / "base"
            train(asked.run, *asked.common, "--size", "nano", "--steps", asked.base_steps)
        for name, kinds in PARTS.items():
            if asked.only in (None, name) and clock.has_time():
                folder = Path(temporary) / name
                folder.mkdir()
                chosen = [kind for kind in kinds(asked, folder) if kind.name in (asked.kinds or [kind.name])]
                found += compare(chosen, folder, asked.seeds, clock)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
