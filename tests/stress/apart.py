"""How far two runs of equal settings are apart that were made on two kinds of processors.

    python tests/stress/apart.py RUN OTHER [--weights-within 1e-4]

Sums are added in other orders there, so gradients differ in their last bits. AdamW divides a gradient by its own size:
where a gradient is itself not much more than those bits, a weight moves by another part of the learning rate. After one
step the optimizer's mean of gradients tells the gradient of each weight, and how large it is where weights are apart.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

BETA1, FAR = 0.9, 1e-5  # of AdamW; and the distance of weights whose gradients are shown


def losses(run: Path) -> list[float]:
    """Return the training loss of each step."""
    rows = map(json.loads, (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    return [row["loss"] for row in rows if "loss" in row]


def gradients(run: Path) -> dict[str, Any]:
    """Return the gradients of the first step by name, of the weights that AdamW updates."""
    kept = load_file(run / "checkpoints" / "1" / "optimizer.safetensors")
    return {
        name[:-2]: mean / (1 - BETA1) for name, mean in kept.items() if name.endswith(".m") and f"{name[:-1]}v" in kept
    }


def main() -> None:
    """Print how far losses and weights are apart; exit 1 where they are further apart than they may be."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, nargs=2)
    parser.add_argument("--losses-within", type=float, default=1e-4)
    parser.add_argument("--weights-within", type=float, default=1e-4)
    asked = parser.parse_args()
    one, other = asked.runs
    loss = max(abs(a - b) for a, b in zip(losses(one), losses(other), strict=True))
    weights, others = (load_file(run / "model.safetensors") for run in asked.runs)
    apart = {name: np.abs(weights[name] - others[name]) for name in weights}
    name = max(apart, key=lambda name: apart[name].max())
    most = apart[name].max()
    print(f"{one.name}, {other.name}: losses at most {loss:.1e} apart, weights {most:.1e} ({name})")
    if len(losses(one)) == 1 and (found := gradients(one)):
        distances = np.concatenate([apart[name].ravel() for name in found])
        here, there = (np.concatenate([gradients(run)[name].ravel() for name in found]) for run in asked.runs)
        far, furthest = distances > FAR, distances.argmax()
        rounding, size, largest = np.abs(here - there).max(), np.median(np.abs(here)), np.abs(here[far]).max(initial=0)
        print(f"  gradients at most {rounding:.1e} apart, of a median size of {size:.1e}")
        print(f"  {far.sum()} of {far.size:,} weights more than {FAR:g} apart, their gradients at most {largest:.1e}")
        print(f"  the gradients of the weight that is furthest apart: {here[furthest]:.1e}, {there[furthest]:.1e}")
    if loss > asked.losses_within or most > asked.weights_within:
        raise SystemExit("that is too far")


if __name__ == "__main__":
    main()
