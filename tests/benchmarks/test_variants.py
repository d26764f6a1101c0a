"""Variants are compared seed by seed; what was done is not done again, and a failure stays in the table."""

from __future__ import annotations

import json
import math
import signal
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from benchmarks import variants
from benchmarks.variants import interval, table
from minigrad.system import environment


def test_the_interval_is_that_of_students_t() -> None:
    mean, low, high = interval([0.1, 0.2, 0.3, 0.4, 0.5])
    assert mean == pytest.approx(0.3)
    half = 2.776 * math.sqrt(0.025) / math.sqrt(5)
    assert (low, high) == pytest.approx((0.3 - half, 0.3 + half), abs=1e-4)
    assert interval([0.1]) == (0.1, -math.inf, math.inf)
    assert interval([0.0, 1.0] * 20).high == pytest.approx(0.5 + 2.0227 * 0.50637 / math.sqrt(40), rel=1e-3)


def result(score: float, nats: float | None = 2.0, step: int | None = None) -> dict[str, Any]:
    return {"bits_per_byte": score, "loss_repeated": nats, "tokens_per_second": 1000.0, "copies_from": step}


def test_differences_are_paired_by_seed_and_failures_are_counted() -> None:
    default = [result(1.7, 2.9), result(1.6, step=1400), result(1.8, None)]
    better = [result(1.6, step=900), None, result(1.7, step=1100)]
    lines = table({"the default": default, "--lr 1": better, "--lr 99": [None, None, None]})
    assert "| the default | 3 of 3 | 1.7000 ± 0.1000 |  | 1 of 3, by step 1,400 | 2.45 | 1,000 |" in lines
    assert (
        "| --lr 1 | 2 of 3 | 1.6500 ± 0.0707 | -0.1000, -0.1000 to -0.1000 | 2 of 2, by step 1,100 | 2.00 | 1,000 |"
        in lines
    )
    assert "| --lr 99 | 0 of 3 | failed | | | | |" in lines


def test_runs_are_made_in_turns_once_and_a_stopped_one_continues(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    commands: list[list[str]] = []
    codes: list[int] = []

    def fake_train(words: list[str], env: dict[str, str]) -> Mock:
        assert env == environment.as_found()
        commands.append(words[2:])
        code = codes.pop(0) if codes else 0
        out = Path(words[words.index("--resume" if "--resume" in words else "--out") + 1])
        if code != 1:
            out.mkdir(parents=True, exist_ok=True)
            content = {"result": {}} if code else {"result": result(1.5 + len(commands) / 100)}
            (out / "minigrad.json").write_text(json.dumps(content), encoding="utf-8")
            lines = [
                {"step": 10 * n, "tokens_per_second": 1000.0, "val_loss_repeated": 2.65 - n / 10} for n in range(9)
            ]
            (out / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
        return Mock(wait=Mock(return_value=code))

    monkeypatch.setattr(variants.subprocess, "Popen", fake_train)
    words = ["variants.py", str(tmp_path), "--steps", "40", "--seeds", "2", "--common=--size nano", "--", "--lr 1"]
    monkeypatch.setattr(sys, "argv", words)
    codes += [0, 130]
    with pytest.raises(SystemExit) as stop:
        variants.main()
    assert stop.value.code == 130
    first, second = commands
    text = ["--data", "python-docs"]  # the same in all runs, however long they are
    assert first[:-1] == [*text, "--size", "nano", "--steps", "40", "--seed", "0", "--out"]
    assert second[:-1] == [*text, "--size", "nano", "--lr", "1", "--steps", "40", "--seed", "0", "--out"]
    codes += [-9]
    with pytest.raises(SystemExit):
        variants.main()
    assert commands.pop(2) == ["--resume", second[-1]]  # a run that was killed has not failed
    codes += [0, 0, 1]
    variants.main()
    assert commands[2] == ["--resume", second[-1]]
    assert [each[each.index("--seed") + 1] for each in commands[3:]] == ["1", "1"]
    variants.main()
    assert len(commands) == 5  # nothing is left to do, and what failed is not tried again
    shown = capsys.readouterr().out
    assert "BLAS is " in shown  # of the machine
    assert "--steps 40 --size nano" in shown
    assert "| --lr 1 | 1 of 2 |" in shown
    kept = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert kept["runs"]["--lr 1"][1] is None
    assert kept["runs"]["the default"][1]["bits_per_byte"] == 1.54
    assert kept["runs"]["the default"][1]["copies_from"] == 50


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "give at least one variant after --"),
        (["--"], "give at least one variant after --"),
        (
            ["--", "--lr 0.1", "--weight-decya 2"],
            "--weight-decya 2: unknown flag --weight-decya; did you mean --weight-decay?",
        ),
        (["--common=--batch many", "--", "--lr 1"], "the default: --batch takes a whole number"),
        (["--", "--dropout 2"], "--dropout 2: --dropout"),
        (["--", "--set 'a"], "--set 'a: No closing quotation"),
    ],
)
def test_all_flags_are_read_before_anything_is_trained(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    monkeypatch.setattr(variants.subprocess, "Popen", lambda *_, **__: pytest.fail("a run began"))
    monkeypatch.setattr(sys, "argv", ["variants.py", str(tmp_path), "--steps", "40", *words])
    with pytest.raises(SystemExit) as stop:
        variants.main()
    assert stop.value.code == 2
    assert f"error: {message}" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="Windows ends a process at once")
@pytest.mark.parametrize(("code", "expected"), [(143, 143), (-signal.SIGTERM, 143)])
def test_a_signal_that_ends_the_script_reaches_the_run_which_saves(code: int, expected: int) -> None:
    def wait() -> int:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)  # the terminal sends it to the run as well
        return code

    before, process = signal.getsignal(signal.SIGTERM), Mock(wait=wait)
    assert variants._wait(process) == expected
    process.send_signal.assert_called_once_with(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before
