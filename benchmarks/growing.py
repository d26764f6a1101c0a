"""Growth against training from scratch: in equal total time, is it better to begin narrow and widen?

One arm trains a nano for half of the time, widens it (`--init`, which keeps what it computes) and trains the wide model
for the other half. The other arm trains the wide shape for all of the time. Both end with the usual decay of the
learning rate; so does the first half, because that is how a finished model is found. Over seeds, in turns:

    python benchmarks/growing.py runs/growing --minutes 10 --seeds 0 1 2

Minutes need a machine with nothing else on it. With --steps, the number of the wide arm, the arms are equal in
processor time instead: --cost says how many narrow steps take the processor time of a wide one, and the first half has
that many times more steps. The processor time of each arm is measured, with the starting of its programs, and printed:
it shows whether the arms were equal. One thread is best for that, because idle ones wait busily:

    python benchmarks/growing.py runs/growing --steps 600 --cost 3.2 --seeds 0 1 --common="--threads 1"
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from machine import describe_machine

from minigrad.cli.exits import exit_code
from minigrad.errors import RunError
from minigrad.system import environment

ROOT = Path(__file__).parent.parent
WIDE = "width=192,num_heads=4,num_kv_heads=2,feed_forward=480"
"""Twice the widths of nano, with its six layers."""


class Trained(NamedTuple):
    """The validation bits per byte at the end of a run, and the processor time of its process."""

    bits_per_byte: float
    seconds: float


def trained(folder: Path, amount: list[str], flags: list[str]) -> Trained:
    """Train what is not there yet; return what came of it. Raises RunError if the run fails."""
    kept = folder.with_suffix(".json")
    if not kept.exists():
        command = [sys.executable, str(ROOT / "train.py"), *amount, "--out", str(folder), *flags]
        before = os.times()
        if code := subprocess.run(command, env=environment.as_found()).returncode:
            raise RunError(f"the run in {folder} ended with the code {code}; the same command tries it again")
        after = os.times()
        ended = json.loads((folder / "minigrad.json").read_text(encoding="utf-8"))
        seconds = sum(after[2:4]) - sum(before[2:4])  # of the child, in user and in system mode
        kept.write_text(json.dumps([ended["result"]["bits_per_byte"], seconds]), encoding="utf-8")
    return Trained(*json.loads(kept.read_text(encoding="utf-8")))


def main() -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0, help="of each arm")
    parser.add_argument("--steps", type=int, help="of the wide arm, in place of minutes")
    parser.add_argument("--cost", type=float, default=1.0, help="the narrow steps that take as long as a wide one")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--common", default="", help='flags of train.py for all runs, as in --common="--batch 4"')
    options = parser.parse_args()
    if options.cost != 1 and not options.steps:
        parser.error("--cost is for --steps: minutes are as long for a narrow model as for a wide one")
    said = "interrupted; the same command continues with the runs that are missing"
    return exit_code(parser.prog, lambda: compare(options), interrupted=said, less_memory="give a smaller --batch")


def compare(options: argparse.Namespace) -> None:
    """Train every arm with every seed; print a table and JSON."""
    options.folder.mkdir(parents=True, exist_ok=True)

    def amount(share: float) -> list[str]:
        if options.steps:
            return ["--steps", str(max(1, round(share * options.steps)))]
        return ["--minutes", str(share * options.minutes)]

    found: dict[str, list[Trained]] = {"narrow": [], "grown": [], "from scratch": []}
    for seed in options.seeds:
        seeded = ["--data", "python-docs", "--seed", str(seed), *shlex.split(options.common)]
        narrow = options.folder / f"narrow-{seed}"
        half = trained(narrow, amount(0.5 * options.cost), ["--size", "nano", *seeded])
        wider = ["--init", str(narrow), "--set", WIDE, *seeded]
        rest = trained(options.folder / f"grown-{seed}", amount(0.5), wider)
        wide = ["--size", "nano", "--set", WIDE, *seeded]
        found["narrow"].append(half)
        found["grown"].append(rest._replace(seconds=half.seconds + rest.seconds))
        found["from scratch"].append(trained(options.folder / f"wide-{seed}", amount(1), wide))
    print(describe_machine())
    print("| arm | bits per byte | of each seed | processor seconds of each |\n| --- | --: | --: | --: |")
    for name, runs in found.items():
        bits, seconds = ([getattr(each, field) for each in runs] for field in Trained._fields)
        each = [", ".join(f"{value:{form}}" for value in values) for values, form in ((bits, ".3f"), (seconds, ",.0f"))]
        print(f"| {name} | {statistics.mean(bits):.3f} | {' | '.join(each)} |")
    print(json.dumps({"machine": describe_machine(), **found}))


if __name__ == "__main__":
    sys.exit(main())
