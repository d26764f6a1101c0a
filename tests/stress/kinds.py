"""The kinds of runs that are killed: what sets each apart, and what it starts from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from tests.small_runs import WORDS

DEFAULT = {"steps": 16, "save-every": 3, "eval-every": 8, "sample-every": 8}
SMALL = {"batch": 4, "context": 64, "steps": 40, "save-every": 4, "eval-every": 20, "sample-every": 20}
SHAPES = {"default": DEFAULT, "ten minutes": DEFAULT | {"batch": 16}, "small": SMALL}
"""The settings of runs at the default context, with the batches of short and of long runs, and of runs at others."""

LEARNER = ("--init={base}", "--replay-text={text}")
LESSONS = (*LEARNER, "--objective=sft", "--data={lessons}.jsonl")
REWARDS = ("--init={parrot}", "--replay-text={text}", "--data=task:copying", "--dropout=0", "--lr=0.001")


class Kind(NamedTuple):
    """The flags of a kind of run, with the names of what it starts from in braces, and its number of processes."""

    flags: tuple[str, ...] = ()
    processes: int = 1


KINDS = {
    "default": Kind(),
    "adamw": Kind(("--optimizer=adamw",)),
    "sgd": Kind(("--optimizer=sgd", "--accumulate=2")),
    "bfloat16": Kind(("--precision=bfloat16",)),
    "average": Kind(("--ema=0.9",)),
    "adaptive-context": Kind(("--adaptive-context",)),
    "recomputed": Kind(("--checkpointing",)),
    "experts": Kind(("--set=experts=4",)),
    "gpt2": Kind(("--model=gpt2",)),
    "vidya-v1": Kind(("--model=vidya-v1",)),
    "wiola": Kind(("--model=wiola",)),
    "vsla": Kind(("--model=vsla", "--schedule=cosine")),
    "sft": Kind(LESSONS),
    "adapters": Kind((*LESSONS, "--adapter-rank=4")),
    "dpo": Kind((*LEARNER, "--objective=dpo", "--data={pairs}.jsonl", "--dropout=0")),
    "grpo": Kind((*REWARDS, "--objective=grpo")),
    "reinforce": Kind((*REWARDS, "--objective=reinforce")),
    "best-of-n": Kind((*REWARDS, "--objective=best-of-n")),
    "distill": Kind(("--init={base}", "--objective=distill", "--teacher={base}")),
    "processes": Kind(("--threads=1",), processes=2),
    "pipeline": Kind(("--threads=1", "--pipeline"), processes=2),
}


def flags_of(kind: Kind, shape: str, work: Path) -> list[str]:
    """Return the flags of a run of a kind at a shape; `work` holds what it starts from, by name."""
    general = {"size": "nano", "threads": 2, "dropout": 0.1, "log-every": 1, "data": "{text}"}
    if not any(flag.startswith("--init") for flag in kind.flags):
        general |= {"tokenizer": "{base}", "model": "vidya-v2"}
    words = [f"--{name}={value}" for name, value in (general | SHAPES[shape]).items()]
    names = {name: work / name for name in ("text", "lessons", "pairs", "base", "parrot")}
    given = {word.partition("=")[0] for word in kind.flags}
    return [word.format(**names) for word in words if word.partition("=")[0] not in given] + [
        word.format(**names) for word in kind.flags
    ]


def write_lessons(work: Path) -> None:
    """Write conversations, pairs of answers and a book of questions to learn."""
    asked = [[{"role": "user", "content": f"{first} {second}?"}] for first in WORDS for second in WORDS]
    talks = [{"messages": [*each, {"role": "assistant", "content": each[0]["content"][::-1]}]} for each in asked]
    pairs = [{"messages": each, "chosen": "To be.", "rejected": "Or not."} for each in asked]
    for name, lines in (("lessons", talks), ("pairs", pairs)):
        (work / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    book = "".join(f"Q: {word}?\nA: {word[::-1]}.\n" for word in WORDS)
    (work / "book.txt").write_text(book, encoding="utf-8")
