"""The main job trains once for each seed, and prints one line for each run, and their spread."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from benchmarks import main_job


def fake_run(out: Path, seed: int, flags: Sequence[str]) -> dict[str, Any]:
    assert list(flags) == ["--minutes", "2"]
    facts = {
        "hardware": "a machine",
        "arithmetic": "BLAS",
        "size": "nano",
        "parameters": 984288,
        "tokens": 8_500_000,
        "seconds": 599.6,
    }
    scores = {"bits_per_byte": (1.6, 1.72, 1.59)[seed], "xz_bits_per_byte": 1.782, "test_bits_per_byte": 1.7 + seed}
    return {"seed": seed, **facts, **scores, "loss_repeated": 2.04, "loss_others": 4.13}


def test_every_seed_has_a_line_and_the_spread_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["main_job.py", "--runs", "3", "--minutes", "2"])
    monkeypatch.setattr(main_job, "run", fake_run)
    main_job.main()
    shown = capsys.readouterr().out.splitlines()
    assert "a machine; BLAS; nano, 984,288 parameters" in shown
    assert "| 0 | 8,500,000 | 1.600 | 1.700 | 2.04 | 4.13 | 10 min 00 s |" in shown
    assert shown[-2] == (
        "bits per byte: validation 1.600 (median; 1.590 to 1.720), test 2.700 (median; 1.700 to 3.700); "
        "xz -9e: 1.782 (validation)"
    )
    assert [each["bits_per_byte"] for each in json.loads(shown[-1])] == [1.6, 1.72, 1.59]


def test_xz_may_be_missing() -> None:
    assert main_job.show([fake_run(Path(), 0, ["--minutes", "2"]) | {"xz_bits_per_byte": None}])[-1].endswith(
        "xz: not measured (validation)"
    )
