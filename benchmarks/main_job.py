"""The main job: does it end on time, and is the model better than xz on new text? And how much of it is chance?

Runs ``python train.py --model vidya-v2`` (with any further flags given here), once for each seed. Each run takes as
long as that command, ten minutes by default; let nothing else run on the machine:

    python benchmarks/main_job.py
    python benchmarks/main_job.py --runs 5 --out runs/main-job      # seeds 0 to 4; the run folders are kept
    python benchmarks/main_job.py --minutes 2

Each run judges the validation text, and at its end the test text, once. Beside the scores it prints the loss on tokens
that complete a pair seen before (`minigrad.evaluate.losses`), which tells whether the model learned to copy from
its context: that happens in some runs and not in others. The table in docs/results_learning.md has its figures,
of runs with ``--data python-docs``.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))


def run(out: Path, seed: int, flags: Sequence[str]) -> dict[str, Any]:
    """Train in a process of its own; return the figures of the run in the folder `out`."""
    command = [sys.executable, str(ROOT / "train.py"), "--model", "vidya-v2", "--seed", str(seed), "--test", *flags]
    started = time.perf_counter()
    subprocess.run([*command, "--out", str(out)], check=True)
    seconds = time.perf_counter() - started
    record = json.loads((out / "minigrad.json").read_text(encoding="utf-8"))
    facts = {name: record[name] for name in ("hardware", "arithmetic", "size", "parameters")}
    return {"seed": seed, "seconds": seconds, **facts, **record["result"]}


def show(runs: Sequence[dict[str, Any]]) -> list[str]:
    """Return the lines of a table of runs, and a sentence about their spread."""
    lines = ["| seed | tokens | validation | test | nats, repeated pairs | nats, other tokens | whole process |"]
    lines.append("| --: | --: | --: | --: | --: | --: | --: |")
    for each in runs:
        minutes, seconds = divmod(round(each["seconds"]), 60)
        lines.append(
            f"| {each['seed']} | {each['tokens']:,} | {each['bits_per_byte']:.3f} | {each['test_bits_per_byte']:.3f} | "
            f"{each['loss_repeated']:.2f} | {each['loss_others']:.2f} | {minutes} min {seconds:02} s |"
        )
    xz = runs[0]["xz_bits_per_byte"]
    beside = "xz: not measured" if xz is None else f"xz -9e: {xz:.3f}"
    spreads = [f"{part} {_spread([each[name] for each in runs])}" for part, name in _PARTS.items()]
    return [*lines, "", f"bits per byte: {', '.join(spreads)}; {beside} (validation)"]


_PARTS = {"validation": "bits_per_byte", "test": "test_bits_per_byte"}


def _spread(scores: Sequence[float]) -> str:
    return f"{statistics.median(scores):.3f} (median; {min(scores):.3f} to {max(scores):.3f})"


def main() -> None:
    """Run the command for each seed, then print the table and the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=1, help="the number of runs; their seeds are 0, 1, 2 ...")
    parser.add_argument("--out", type=Path, help="keep the run folders in this folder")
    arguments, flags = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.out or Path(temporary)
        runs = [run(folder / f"seed-{seed}", seed, flags) for seed in range(arguments.runs)]
    first = runs[0]
    print(f"\n{first['hardware']}; {first['arithmetic']}; {first['size']}, {first['parameters']:,} parameters\n")
    print("\n".join(show(runs)))
    print(json.dumps(runs))


if __name__ == "__main__":
    main()
