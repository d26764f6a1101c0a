"""The difference between the loss curves of bfloat16 and float32, and between two seeds of float32.

Nano, 300 steps on python-docs, no dropout: the losses of all steps from the hundredth on are compared, averaged over
20 steps to remove the noise of single batches.

    python benchmarks/bfloat16_curve.py [--steps 300]
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

WINDOW, SKIPPED = 20, 100  # steps
RUNS: dict[str, dict[str, Any]] = {
    "float32": {"precision": "float32"},
    "bfloat16": {"precision": "bfloat16"},
    "float32, another seed": {"precision": "float32", "seed": 1},
}


def main() -> None:
    """Train three times; print the differences of the second and the third curve from the first, and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps
    from minigrad.training.folder import metrics
    from minigrad.training.settings import TrainConfig
    from train import train

    curves, scores = {}, {}
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, changes) in enumerate(RUNS.items()):
            out = Path(folder) / str(number)
            settings: dict[str, Any] = {"size": "nano", "steps": steps, "dropout": 0.0, "log_every": 1} | changes
            result = train(TrainConfig(model="vidya-v2", data="python-docs", out=str(out), **settings))
            assert result is not None
            losses = np.array([line["loss"] for line in metrics.read(out)])
            curves[name] = np.convolve(losses, np.full(WINDOW, 1 / WINDOW), "valid")[SKIPPED:]
            scores[name] = result.val_loss
    print(describe_machine())
    print(f"{'run':<24} {'validation loss':>14} {'mean distance':>14} {'largest':>9}")
    for name, curve in curves.items():
        away = np.abs(curve - curves["float32"])
        print(f"{name:<24} {scores[name]:14.4f} {away.mean():14.4f} {away.max():9.4f}")
    print(json.dumps({"validation_loss": scores, "curves": {name: curve.tolist() for name, curve in curves.items()}}))


if __name__ == "__main__":
    main()
