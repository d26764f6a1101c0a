"""A study whose results are drawn, not trained, so that the truth about its arms is known."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.evaluation.study import Job, Study
from minigrad.random import generator

BYTES = [900, 300, 1500, 700, 400, 1200, 800, 600]

TEXT = """
question = "Is a drawn arm found to be what it is?"
control = "control"
margin = 0.01
hours = 1
seeds = 8
tokens = [1_000_000]
judged = [64, 256]

[[arm]]
name = "control"

[[arm]]
name = "equal"

[[arm]]
name = "better"

[[arm]]
name = "leaky"
leaks = true
"""

TRUTH = {"control": 0.0, "equal": 0.0, "better": -0.05, "leaky": -1.0}


def study(folder: Path, text: str = TEXT) -> Study:
    """Write and read the study."""
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return Study.read(path)


def result(study: Study, arm: str, seed: int, **changes: Any) -> dict[str, Any]:
    """Return a result as a run writes it: 1.5 bits per byte, and what the seed and the arm add."""
    luck = generator(seed, "luck").normal(0, 0.02)  # which paired arms share
    own = generator(seed, f"luck of {arm}").normal(0, 0.003)
    nats = np.array(BYTES) * np.log(2) * (1.5 + luck + own + TRUTH[arm])
    rows = [[size, size // 4, round(each, 4), size // 8, each / 4] for size, each in zip(BYTES, nats, strict=True)]
    job = Job(arm, seed, "python-docs", "tokens", 1_000_000, None)
    found = {
        "job": vars(job).copy(),
        "study": study.digest(),
        "code": "abc",
        "versions": {"python": "3.11"},
        "arithmetic": "own",
        "hardware": "a machine",
        "settings": {"data": "python-docs", "seed": seed, "context": 256, "batch": 8, "accumulate": 1}
        | {"documents": "packed", "optimizer": "muon", "lr": 0.006},
        "parameters": 1_000_000,
        "text": "t",
        "validation_text": "v",
        "steps": 489,
        "tokens": 1_001_472,
        "seconds": 100.0,
        "order": f"order of {seed}",
        "copy": 8.0,
        "curve": [[100, 3.0], [500_000, 2.0 + luck], [1_001_472, 1.5 + luck]],
        "documents": {"64": rows, "256": rows},
    }
    return found | changes


def results(study: Study) -> list[dict[str, Any]]:
    """Return the results of all runs."""
    return [result(study, arm.name, seed) for arm in study.arm for seed in study.seeds_of(arm)]
