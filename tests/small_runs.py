"""Runs small enough to be made in a second, for the tests of everything around a run."""

from __future__ import annotations

import contextlib
import json
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from minigrad.system import hardware
from minigrad.training.folder import checkpoint, metrics
from minigrad.training.planning import costs
from minigrad.training.settings import TrainConfig
from models import vidya_v2
from train import TrainResult, main, train

WORDS = (
    "to",
    "be",
    "or",
    "not",
    "that",
    "is",
    "the",
    "question",
    "whether",
    "nobler",
    "in",
    "mind",
    "suffer",
    "slings",
)

TINY = vidya_v2.VidyaV2Config(
    vocab_size=300, num_layers=2, width=32, num_heads=3, num_kv_heads=1, head_dim=16, feed_forward=64
)
"""The config that replaces the size nano."""


@contextlib.contextmanager
def quick_runs() -> Iterator[None]:
    """Make nano tiny and do not measure the machine; afterwards, reset the threads."""
    threads = hardware.threads()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(vidya_v2.SIZES, "nano", TINY)
        patch.setattr(costs, "measure_rates", lambda: costs.Rates(1e11, 1e9))
        yield
    hardware.prepare(threads)


def write_text(path: Path, *, lines: int = 1_500) -> Path:
    """Write lines of random words, and return the path."""
    draw = random.Random(0)
    text = "\n".join(" ".join(draw.choices(WORDS, k=8)) for _ in range(lines))
    path.write_text(text + "\n", encoding="utf-8")
    return path


def settings(data: Path, out: Path | None, **changes: Any) -> TrainConfig:
    """Return the settings of a run of a second: 30 steps of a tiny model on two sequences of 16 tokens."""
    small = {"size": "nano", "vocab": 300, "batch": 2, "context": 16, "dropout": 0.1, "threads": 1, "seed": 3}
    every = {"log_every": 1, "eval_every": 10, "save_every": 5, "sample_every": 20}
    limit = {} if {"minutes", "tokens", "steps"} & set(changes) else {"steps": 30}
    return TrainConfig(data=str(data), out=out and str(out), **{**small, **every, **limit, **changes})


def run(data: Path, out: Path, **changes: Any) -> TrainResult:
    """Train such a run to its end."""
    result = train(settings(data, out, **changes))
    assert result is not None
    return result


def timeless(folder: Path) -> list[dict[str, Any]]:
    """Return the metrics of a run without those that depend on the clock."""
    return [
        {name: value for name, value in line.items() if name not in metrics.TIMING_FIELDS}
        for line in metrics.read(folder)
    ]


def outcome(folder: Path) -> dict[str, Any]:
    """Return everything of a run that must not depend on interruptions, weights and moments as bytes."""
    saved = checkpoint.load(folder)
    arrays = {
        **{f"weight {k}": v for k, v in saved.weights.items()},
        **{f"moment {k}": v for k, v in saved.moments.items()},
    }
    return {
        "step": saved.step,
        "arrays": {name: array.tobytes() for name, array in arrays.items()},
        "state": {name: value for name, value in saved.state.items() if name != "seconds"},
        "metrics": timeless(folder),
        "published": (folder / "model.safetensors").read_bytes(),
    }


def record(folder: Path) -> dict[str, Any]:
    """Return minigrad.json of a run folder."""
    content: dict[str, Any] = json.loads((folder / "minigrad.json").read_text(encoding="utf-8"))
    return content


def flags(config: TrainConfig) -> list[str]:
    """Return the command line of these settings."""
    given = {name: value for name, value in vars(config).items() if value not in (None, False)}
    return [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in given.items()]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    """Run the command line, which must end with `code`, and return its one paragraph on standard error."""
    capsys.readouterr()
    try:
        found: Any = main([str(word) for word in arguments])
    except SystemExit as stop:
        found = stop.code
    error = capsys.readouterr().err
    assert found == code, error
    assert re.fullmatch(r"train\.py: .+\n", error), error
    return error.removeprefix("train.py: ").rstrip()
