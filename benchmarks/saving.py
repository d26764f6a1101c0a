"""How long training pauses for a checkpoint: that of 124.6M parameters with AdamW's moments is 1.5 GB.

Trains a few steps of few tokens with the project's own command, and prints for each checkpoint the seconds of the pause
and, after the last one, for which the run waits, those of the whole write. It needs 5 GB of memory and of disk. Run it
with nothing else on the machine.

    python benchmarks/saving.py [--size 2.0] [--steps 6] [--every 2]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import describe_machine

from train import TrainConfig, train


def main() -> None:
    """Train, and print the pauses and their JSON."""
    from minigrad.training import keeping
    from minigrad.training.run import Run

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="2.0")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--every", type=int, default=2)
    asked = parser.parse_args()
    save, pauses = keeping.save, list[dict[str, Any]]()

    def timed(run: Run, *, wait: bool = True) -> None:
        began = time.perf_counter()
        save(run, wait=wait)
        pauses.append({"step": run.step, "waits": wait, "seconds": time.perf_counter() - began})

    keeping.save = timed
    with tempfile.TemporaryDirectory() as folder:
        often = {"save_every": asked.every, "eval_every": 1_000, "sample_every": 1_000, "log_every": 1}
        data = str(Path(__file__).parent.parent / "minigrad" / "optim")  # little text, which is soon evaluated
        settings: dict[str, Any] = {
            "data": data,
            "batch": 1,
            "context": 256,
            "steps": asked.steps,
            "optimizer": "adamw",
        }
        train(TrainConfig(size=asked.size, out=f"{folder}/run", **settings, **often))
    print(describe_machine())
    for each in pauses:
        kind = "the whole write" if each["waits"] else "the pause"
        print(f"after step {each['step']}: {kind} took {each['seconds']:.2f} s")
    print(json.dumps(pauses))


if __name__ == "__main__":
    main()
