"""What teaching costs: the time of a step of each objective, the speed of rollouts, and the memory of adapters.

- steps: the time of a step of each objective, the median over a run of train.py, beside a plain step of pre-training.
  Each has room for the same 2,048 tokens.
- rollouts: tokens per second of the answers of one step, drawn for learning, beside those of the same prompts and
  settings that are only written.
- memory: the most memory of a process that trains all weights of vidya-v2 2.0 (124.6M), and of one that trains
  adapters beside them.

Run it with nothing else on the machine:

    python benchmarks/teaching_costs.py RUN [--only steps|rollouts|memory] [--objectives sft grpo]
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

from machine import describe_machine
from teaching import beginner, preferences, train

import models
import tokenizer
from minigrad.finetuning import tasks
from minigrad.finetuning.rewards import GROUP
from minigrad.finetuning.rollouts import roll_out
from minigrad.generation.decoding import stream
from minigrad.generation.settings import Sampling

TASK = "sorting"
OBJECTIVES = ("sft", "reinforce", "best-of-n", "grpo", "grpo without replay", "dpo", "distill")
_NEVER = 10**6  # steps between evaluations, samples and checkpoints, which are no part of a step


def metrics_of(out: Path) -> list[dict[str, Any]]:
    """Return the lines of the metrics of a run."""
    return [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]


def milliseconds(lines: list[dict[str, Any]]) -> float:
    """Return the time of a step, the median over the lines of metrics: the last one is of a step with an evaluation.

    >>> milliseconds([{"step": 1, "seconds": 5.0}, {"step": 3, "seconds": 5.5}, {"step": 4, "seconds": 5.75}])
    250.0
    """
    times = [(line["seconds"], line["step"]) for line in lines]
    return 1000 * statistics.median((end - start) / (last - first) for (start, first), (end, last) in pairwise(times))


def steps(asked: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Print and return the milliseconds of a step of pre-training and of each objective."""
    start, path = beginner(asked, folder), folder / "pairs.jsonl"
    path.write_text("\n".join(map(json.dumps, preferences(start, TASK, 320))), encoding="utf-8")
    every = [word for name in ("eval", "sample", "save") for word in (f"--{name}-every", _NEVER)]
    found = dict[str, float]()
    for name in ("pre-training", *asked.objectives):
        objective, _, without = name.partition(" without ")
        words: tuple[object, ...] = ("--size", "nano", "--tokenizer", asked.run)
        if objective == "distill":
            words = (*words, "--objective", objective, "--teacher", asked.run)
        elif objective != "pre-training":
            data = path if objective == "dpo" else f"task:{TASK}"
            words = ("--init", start, "--objective", objective, "--data", data, *(("--replay", 0) if without else ()))
        out = folder / name.replace(" ", "-")
        train(out, *words, "--steps", asked.steps, *every)
        found[name] = milliseconds(metrics_of(out))
        print(f"| {name} | {found[name]:.0f} | {found[name] / found['pre-training']:.2f} |", flush=True)
    return found


def rollouts(asked: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Print and return the tokens per second of answers that are drawn to learn from, and that are only written."""
    tok = tokenizer.load(asked.run)
    form, model, ends = tokenizer.load_chat(asked.run, tok), models.load(asked.run), set(tok.specials.values())
    problems = [tasks.problem(TASK, 0, "practice", number) for number in range(asked.questions)]
    prompts = [form.encode([{"role": "user", "content": each.question}]) for each in problems]
    settings = Sampling(temperature=1.0, top_p=None, tokens=16, samples=GROUP)
    work: dict[str, Callable[[], int]] = {
        "rollouts": lambda: len(roll_out(model, prompts, group=GROUP, tokens=16, ends=ends, seed=0, step=0).log_probs),
        "generation": lambda: len(list(stream(model, prompts, settings, end_ids=ends))),
    }
    speeds: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(asked.repeats):
        for name, piece in work.items():
            began = time.perf_counter()
            speeds[name].append(piece() / (time.perf_counter() - began))
    found = {name: statistics.median(each) for name, each in speeds.items()}
    print(f"{len(prompts)} questions, {GROUP} answers each: " + ", ".join(f"{n} {s:,.0f}" for n, s in found.items()))
    return found


def memory(asked: argparse.Namespace, folder: Path) -> dict[str, float]:
    """Print and return the most megabytes of processes that train a model of 124.6M parameters in three ways."""
    base, book, text = folder / "large", folder / "book.txt", folder / "text.txt"
    models.build("vidya-v2", "2.0").save(base)
    tokenizer.load(asked.run).save(base)
    book.write_text("Q: What is a list?\nA: A sequence.\n", encoding="utf-8")
    text.write_text("A list is a sequence. A tuple is a sequence that cannot change.\n" * 40, encoding="utf-8")
    learn = ("--init", base, "--objective", "sft", "--data", book, "--replay-text", text, "--steps", 3)
    small = ("--batch", 2, "--context", 256)
    kinds = {"all weights": (), "all weights, no replay": ("--replay", 0), "adapters": ("--adapter-rank", 8)}
    found = dict[str, float]()
    for name, words in kinds.items():
        out = folder / name.replace(" ", "-")
        train(out, *learn, *small, *words)
        found[name] = max(line["memory_bytes"] for line in metrics_of(out)) / 1e6
        print(f"| {name} | {found[name]:,.0f} MB |", flush=True)
    return found


PARTS = {"steps": steps, "rollouts": rollouts, "memory": memory}


def main() -> None:
    """Print the figures of each part, and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path, help="a run of train.py --size nano")
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--objectives", nargs="+", choices=OBJECTIVES, default=OBJECTIVES)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--beginner-steps", type=int, default=50)
    parser.add_argument("--questions", type=int, default=9)
    parser.add_argument("--repeats", type=int, default=7)
    asked = parser.parse_args()
    asked.common, asked.task = (), TASK
    print(describe_machine())
    with tempfile.TemporaryDirectory() as temporary:
        found = {name: part(asked, Path(temporary)) for name, part in PARTS.items() if asked.only in (None, name)}
    print(json.dumps({"machine": describe_machine(), "results": found}))


if __name__ == "__main__":
    main()
