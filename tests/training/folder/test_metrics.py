"""metrics.jsonl: exactly the promised keys, cut back on resume, and never a line that is not JSON."""

from __future__ import annotations

import json
import math
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.errors import InputError, RunError
from minigrad.training.folder import metrics
from minigrad.training.folder.metrics import Measurement, Metrics

KEYS = [
    "step", "tokens", "loss", "bits_per_byte", "learning_rate", "gradient_norm",
    "seconds", "tokens_per_second", "memory_bytes",
]  # fmt: skip


def line(step: int, **changes) -> dict:
    return dict.fromkeys(KEYS, 1.5) | {"step": step, "tokens": 64 * step, "memory_bytes": 10**9} | changes


def write(run: Path, *steps: int, after: int = 0) -> None:
    log = Metrics(run, after)
    for step in steps:
        log.append(Measurement(**line(step)))


def steps(run: Path) -> list[int]:
    return [record["step"] for record in metrics.read(run)]


def test_lines_carry_exactly_the_promised_keys(tmp_path):
    log = Metrics(tmp_path)
    evaluated = {"val_loss": 2.5, "val_bits_per_byte": 1.25, "val_loss_repeated": 2.0, "val_loss_others": 4.25}
    log.append(Measurement(**line(1)))
    log.append(Measurement(**line(2, **evaluated)))
    first, second = (json.loads(text) for text in (tmp_path / "metrics.jsonl").read_text(encoding="utf-8").splitlines())
    assert list(first) == KEYS
    assert list(second) == [*KEYS, *evaluated]
    assert [first, second] == metrics.read(tmp_path) == [line(1), line(2, **evaluated)]


def test_a_missing_or_unknown_key_is_refused(tmp_path):
    Metrics(tmp_path)
    with pytest.raises(TypeError, match="loss"):
        Measurement(**{key: value for key, value in line(1).items() if key != "loss"})
    with pytest.raises(TypeError, match="speed"):
        Measurement(**line(1), speed=3)
    assert metrics.read(tmp_path) == []


def test_a_value_of_a_guest_may_be_a_number_or_several_or_objects(tmp_path):
    numbers = {"mine": 0.5, "whole": 2, "own": np.array(2), "each": np.array([1, 2])}
    objects = {"chosen": [{"place": 3, "why": None}], "none": []}
    Metrics(tmp_path).append(Measurement(**line(1), extra=numbers | objects))
    assert metrics.read(tmp_path) == [line(1, mine=0.5, whole=2, own=2.0, each=[1.0, 2.0], **objects)]


def test_numpy_numbers_are_written_as_numbers(tmp_path):
    Metrics(tmp_path).append(Measurement(**{key: np.float32(value) for key, value in line(3).items()}))
    assert metrics.read(tmp_path) == [line(3)]
    assert isinstance(metrics.read(tmp_path)[0]["step"], int)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_hold_becomes_null(tmp_path, value):
    Metrics(tmp_path).append(Measurement(**line(1, loss=value, val_loss=value, val_loss_repeated=value)))
    Metrics(tmp_path, step=1)  # reads and writes the line again
    text = (tmp_path / "metrics.jsonl").read_text(encoding="utf-8")
    record = json.loads(text, parse_constant=pytest.fail)
    assert record["loss"] is None
    assert record["val_loss"] is None
    assert record["val_loss_repeated"] is None


def test_a_new_run_starts_empty_and_a_resumed_one_is_cut_back(tmp_path):
    write(tmp_path, 10, 20, 30, 40)
    before = (tmp_path / "metrics.jsonl").read_bytes()
    write(tmp_path, 30, 40, after=20)
    assert (tmp_path / "metrics.jsonl").read_bytes() == before
    write(tmp_path, after=25)
    assert steps(tmp_path) == [10, 20]
    write(tmp_path, after=0)
    assert steps(tmp_path) == []
    write(tmp_path, 10)
    write(tmp_path, 5)
    assert steps(tmp_path) == [5]


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(0, 400))
def test_a_kill_inside_a_line_costs_that_line_only(value, cut):
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder)
        write(run, 10)
        Metrics(run, step=10).append(Measurement(**line(20, loss=value)))
        path = run / "metrics.jsonl"
        content = path.read_bytes()
        start = content.index(b"\n") + 1
        path.write_bytes(content[: min(start + cut, len(content) - 1)])
        assert steps(run) == [10]
        write(run, 20, after=10)
        assert steps(run) == [10, 20]
        assert metrics.read(run)[0] == line(10)


def test_a_run_without_metrics_has_none(tmp_path):
    assert metrics.read(tmp_path) == []
    write(tmp_path, 10, after=5)
    assert steps(tmp_path) == [10]


@pytest.mark.parametrize("damage", ["{", "[1]", "{}", "3", '{"step": "x"}', "\0\0"])
def test_damage_in_the_middle_is_named(tmp_path, damage):
    write(tmp_path, 1)
    path = tmp_path / "metrics.jsonl"
    path.write_text(path.read_text(encoding="utf-8") + damage + "\n" + json.dumps(line(3)) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"metrics\.jsonl, line 2, is not"):
        metrics.read(tmp_path)


def test_a_disk_that_refuses_is_a_run_error(tmp_path):
    log = Metrics(tmp_path)
    (tmp_path / "metrics.jsonl").unlink()
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(RunError, match=r"cannot write .*metrics\.jsonl"):
        log.append(Measurement(**line(1)))
    with pytest.raises(InputError, match=r"cannot read .*metrics\.jsonl"):
        metrics.read(tmp_path)


def test_timing_fields_are_fields():
    assert set(metrics.TIMING_FIELDS) < set(KEYS)


def test_a_value_of_a_family_that_is_not_finite_becomes_null(tmp_path):
    Metrics(tmp_path).append(Measurement(**line(1), extra={"merged": [0.5, math.nan, math.inf]}))
    Metrics(tmp_path, step=1)
    assert metrics.read(tmp_path)[0]["merged"] == [0.5, None, None]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"loss": "x"}, "loss takes a finite number, not 'x'"),
        ({"memory_bytes": [1]}, r"memory_bytes takes a whole number of at least 0 .*, not \[1\]"),
        ({"memory_bytes": None}, r"memory_bytes takes a whole number of at least 0 .*, not None"),
        ({"tokens": 10**400}, r"tokens takes a whole number of at least 0 and at most 1,0.*, not 1000"),
        ({"seconds": None}, "seconds takes a finite number of at least 0, not None"),
        ({"step": -1}, r"step takes a whole number of at least 0 .*, not -1"),
        ({"val_loss": {}}, "val_loss takes a finite number, not {}"),
        ({"merged": "a"}, "merged is 'a', not a number, several, or objects"),
        ({"merged": [1.0, 10**400]}, r"merged is \[1.0, 1000.*, not a number, several, or objects"),
        ({"merged": [1.0, "a"]}, r"merged is \[1.0, 'a'\], not a number, several, or objects"),
    ],
)
def test_a_line_with_a_value_of_another_type_is_named(tmp_path, changes, message):
    (tmp_path / "metrics.jsonl").write_text(json.dumps(line(1) | changes) + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf"metrics\.jsonl, line 1, is not a line of metrics: {message}"):
        metrics.read(tmp_path)


def test_a_line_that_lacks_a_value_or_is_too_deep_is_named(tmp_path):
    for text in ('{"step": 1}', "[" * 100_000, '{"step":' * 100_000):
        (tmp_path / "metrics.jsonl").write_text(text + "\n", encoding="utf-8")
        with pytest.raises(InputError, match=r"metrics\.jsonl, line 1, is not a line of metrics"):
            metrics.read(tmp_path)
