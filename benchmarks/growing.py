"""Growth against training from scratch: in equal total time, is it better to begin narrow and widen?

One arm trains a nano for half of the minutes, widens it (`--init`, which keeps what it computes) and trains the wide
model for the other half. The other arm trains the wide shape for all of the minutes. Both end with the usual decay of
the learning rate; so does the first half, because that is how a finished model is found. Over seeds, in turns; run with
nothing else on the machine.

    python benchmarks/growing.py runs/growing --minutes 10 --seeds 0 1 2
"""

from __future__ import annotations

import argparse
import json
import shlex
import statistics
import subprocess
import sys
from pathlib import Path

from machine import describe_machine

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

WIDE = "width=192,num_heads=6,num_kv_heads=2,feed_forward=512"
"""Twice the widths of nano, with its six layers."""


def trained(folder: Path, amount: list[str], flags: list[str]) -> float:
    """Train what is not there yet; return the validation bits per byte at its end."""
    if not (folder / "report.html").exists():
        command = [sys.executable, str(ROOT / "train.py"), *amount, "--out", str(folder), *flags]
        subprocess.run(command, check=True)
    ended = json.loads((folder / "minigrad.json").read_text(encoding="utf-8"))
    return float(ended["result"]["bits_per_byte"])


def main() -> None:
    """Train every arm with every seed; print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--minutes", type=float, default=10.0, help="of each arm")
    parser.add_argument("--steps", type=int, help="of each arm, in place of minutes: equal steps, not equal time")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--common", default="", help='flags of train.py for all runs, as in --common="--batch 4"')
    options = parser.parse_args()

    def amount(share: float) -> list[str]:
        if options.steps:
            return ["--steps", str(max(1, int(share * options.steps)))]
        return ["--minutes", str(share * options.minutes)]

    found: dict[str, list[float]] = {"narrow": [], "grown": [], "from scratch": []}
    for seed in options.seeds:
        seeded = ["--seed", str(seed), *shlex.split(options.common)]
        narrow = options.folder / f"narrow-{seed}"
        found["narrow"].append(trained(narrow, amount(0.5), ["--size", "nano", *seeded]))
        grown = ["--init", str(narrow), "--set", WIDE, *seeded]
        found["grown"].append(trained(options.folder / f"grown-{seed}", amount(0.5), grown))
        wide = ["--size", "nano", "--set", WIDE, *seeded]
        found["from scratch"].append(trained(options.folder / f"wide-{seed}", amount(1), wide))
    print(describe_machine())
    print("| arm | bits per byte | of each seed |\n| --- | --: | --: |")
    for name, values in found.items():
        print(f"| {name} | {statistics.mean(values):.3f} | {', '.join(f'{each:.3f}' for each in values)} |")
    print(json.dumps({"machine": describe_machine(), **found}))


if __name__ == "__main__":
    main()
