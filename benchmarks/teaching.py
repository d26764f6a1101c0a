"""What a trained model learns when it is taught, and what it forgets: a book with replay, and rewards on a task.

The book asks what functions of the standard library do; the answers are the first sentences of their docstrings. Every
run is one of train.py in a process of its own. With the defaults it takes an hour; run it with nothing else on the
machine.

    python benchmarks/teaching.py runs/vidya-v2-nano [--seeds 3] [--pairs 150] [--book-steps 600] [--task sorting]
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent

MODULES = ("math", "os.path", "itertools", "random", "statistics", "shutil", "string", "textwrap", "bisect", "heapq")

TITLE = """| | exact, %, before | exact, % | held-out bits per byte, change in % | seconds |
| --- | --: | --: | --: | --: |"""


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


def train(init: Path, out: Path, *words: object) -> dict[str, Any]:
    """Run train.py and return minigrad.json with the seconds of the whole process."""
    command = [sys.executable, str(ROOT / "train.py"), "--init", str(init), "--out", str(out), *map(str, words)]
    began = time.perf_counter()
    if subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode:
        raise SystemExit(f"{' '.join(command)} failed")
    record: dict[str, Any] = json.loads((out / "minigrad.json").read_text(encoding="utf-8"))
    return record | {"seconds": time.perf_counter() - began}


def row(name: str, records: list[dict[str, Any]]) -> dict[str, Any]:
    """Print and return the figures of the runs of one kind, which differ in their seed."""
    results = [(each["before"], each["result"], each["seconds"]) for each in records]
    figures = {
        "exact, %, before": [100 * before["recall"] for before, _, _ in results],
        "exact, %": [100 * result["recall"] for _, result, _ in results],
        "bits per byte, change in %": [100 * (r["bits_per_byte"] / b["bits_per_byte"] - 1) for b, r, _ in results],
        "seconds": [seconds for _, _, seconds in results],
    }
    cells = (f"{statistics.mean(each):.1f} ({min(each):.1f} to {max(each):.1f})" for each in figures.values())
    print(f"| {name} | {' | '.join(cells)} |", flush=True)
    return {"name": name, **figures}


def main() -> None:
    """Print two tables and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=150)
    parser.add_argument("--book-steps", type=int, default=600)
    parser.add_argument("--task", default="sorting")
    parser.add_argument("--beginner-steps", type=int, default=50)
    parser.add_argument("--task-steps", type=int, default=400)
    asked = parser.parse_args()

    def compare(name: str, init: Path, *words: object) -> dict[str, Any]:
        outs = [folder / f"{name}-{seed}" for seed in range(asked.seeds)]
        return row(name, [train(init, out, *words, "--seed", seed) for seed, out in enumerate(outs)])

    found = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        book = folder / "book.txt"
        taken = list(pairs())[: asked.pairs]
        book.write_text("\n\n".join(f"Q: What does {name} do?\nA: {text}" for name, text in taken), encoding="utf-8")
        print(f"\n{len(taken)} questions and answers, {asked.book_steps} steps\n\n{TITLE}")
        learn = ("--objective", "sft", "--data", book, "--steps", asked.book_steps)
        shares = (0, 0.5, 0.75)
        found += [compare(f"replay {share:g}", asked.run, *learn, "--replay", share) for share in shares]
        task, beginner = f"task:{asked.task}", folder / "beginner"
        train(asked.run, beginner, "--objective", "sft", "--data", task, "--steps", asked.beginner_steps)
        print(f"\n{task} from a beginner, {asked.task_steps} steps\n\n{TITLE}")
        for objective in ("reinforce", "best-of-n", "grpo"):
            practise = ("--objective", objective, "--data", task, "--steps", asked.task_steps)
            found.append(compare(objective, beginner, *practise))
    print(json.dumps(found))


if __name__ == "__main__":
    main()
