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
    facts = {"hardware": "a machine", "size": "nano", "parameters": 984288, "tokens": 8_500_000, "seconds": 599.6}
    scores = {"bits_per_byte": (1.6, 1.72, 1.59)[seed], "xz_bits_per_byte": 1.782}
    return {"seed": seed, **facts, **scores, "loss_repeated": 2.04, "loss_others": 4.13}


def test_every_seed_has_a_line_and_the_spread_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["main_job.py", "--runs", "3", "--minutes", "2"])
    monkeypatch.setattr(main_job, "run", fake_run)
    main_job.main()
    shown = capsys.readouterr().out.splitlines()
    assert "a machine; nano, 984,288 parameters" in shown
    assert "| 0 | 8,500,000 | 1.600 | 2.04 | 4.13 | 10 min 00 s |" in shown
    assert shown[-2] == "median 1.600 bits per byte, from 1.590 to 1.720; xz -9e: 1.782"
    assert [each["bits_per_byte"] for each in json.loads(shown[-1])] == [1.6, 1.72, 1.59]


def test_xz_may_be_missing() -> None:
    assert main_job.show([fake_run(Path(), 0, ["--minutes", "2"]) | {"xz_bits_per_byte": None}])[-1].endswith(
        "xz: not measured"
    )
