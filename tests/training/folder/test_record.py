"""minigrad.json: what is stored, and that it is read as it was written."""

from __future__ import annotations

from dataclasses import replace

import pytest

from minigrad.errors import InputError
from minigrad.formats.folders import RECORD
from minigrad.formats.json_files import read_json, write_json
from minigrad.kernels.gemm import backend as products
from minigrad.system import environment
from minigrad.training.folder.record import NOT_STORED, Record, stored, was_taught_to_talk
from minigrad.training.settings import TrainConfig

ASKED = TrainConfig(data="words.txt", steps=30, seed=3, resume="x", out="y")
USED = replace(ASKED, size="nano", batch=2, context=16, lr=0.01)


def test_given_and_chosen_settings_are_kept_apart():
    record = Record.new(ASKED, USED, parameters=5)
    assert record.settings == stored(ASKED)
    assert record.chosen == {"size": "nano", "batch": 2, "context": 16, "lr": 0.01}
    assert record.used == stored(USED)
    assert not set(NOT_STORED) & set(record.settings)
    assert (record.family, record.size, record.seed, record.parameters) == ("vidya-v2", "nano", 3, 5)


def test_a_record_is_read_as_it_was_written(tmp_path):
    record = Record.new(ASKED, USED)
    record.write(tmp_path)
    assert not {"stages", "decays", "result"} & set(read_json(tmp_path / RECORD))
    assert Record.read(tmp_path) == record
    record.stages, record.decays, record.result = [30], ["20:35,25:30"], {"steps": 30}
    record.write(tmp_path)
    assert Record.read(tmp_path) == record
    record.result = {"steps": 30, "found": float("nan")}
    record.write(tmp_path)
    assert Record.read(tmp_path).result == {"steps": 30, "found": None}


def test_the_best_model_of_a_run_is_known_by_the_record_of_the_run(tmp_path):
    record = Record.new(ASKED, USED)
    record.write(tmp_path)
    for name in ("best", "other"):
        (tmp_path / name).mkdir()
    assert Record.known(tmp_path) == Record.known(tmp_path / "best") == record
    assert Record.known(tmp_path / "other") is None
    assert Record.known(tmp_path / "absent") is None
    replace(record, family="mine").write(tmp_path / "best")  # a run of its own
    assert Record.known(tmp_path / "best") == Record.read(tmp_path / "best")


def test_a_run_from_before_precision_was_chosen_is_continued_in_float32(tmp_path):
    record = Record.new(ASKED, USED)
    del record.settings["precision"]
    record.write(tmp_path)
    assert Record.read(tmp_path).used["precision"] == "float32"


def test_keys_of_a_later_version_are_ignored(tmp_path):
    record = Record.new(ASKED, USED)
    record.write(tmp_path)
    write_json(tmp_path / RECORD, read_json(tmp_path / RECORD) | {"colour": "blue"})
    assert Record.read(tmp_path) == record


def test_a_run_from_before_there_was_a_choice_reads_windows(tmp_path):
    Record.new(ASKED, USED).write(tmp_path)
    content = read_json(tmp_path / RECORD)
    assert content["settings"].pop("documents") == "packed"
    write_json(tmp_path / RECORD, content)
    assert Record.read(tmp_path).used["documents"] == "windows"


def test_an_old_run_with_sgd_forgets_the_beta2_that_it_did_not_use(tmp_path):
    for optimizer, beta2 in (("sgd", None), ("adamw", 0.95)):
        old = {"optimizer": optimizer, "beta2": 0.95}
        Record.new(replace(ASKED, **old), replace(USED, **old)).write(tmp_path)
        assert Record.read(tmp_path).used["beta2"] == beta2


def test_a_larger_limit_replaces_every_limit_and_the_chosen_steps():
    record = Record.new(replace(ASKED, steps=None, minutes=5.0), USED)
    record.chosen |= {"steps": 77, "decay_start": 60, "decay": "60:70,65:77"}
    longer = record.with_limit({"tokens": 900})
    assert {name: longer.used[name] for name in ("steps", "tokens", "minutes")} == {
        "steps": None,
        "tokens": 900,
        "minutes": None,
    }
    assert "decay_start" not in longer.used
    assert longer.used["decay"] is None
    assert longer.used["batch"] == 2


@pytest.mark.parametrize("content", [{}, {"settings": {}}, {"settings": [], "chosen": {}}])
def test_a_file_of_another_program_is_refused(tmp_path, content):
    write_json(tmp_path / RECORD, content)
    with pytest.raises(InputError, match=r"was not written by train\.py"):
        Record.read(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"stages": 5}, "stages is 5, not a list"),
        ({"stages": ["x"]}, r"stages\[0\] takes a whole number, not 'x'"),
        ({"architecture": 5}, "architecture is 5, not an object"),
        ({"seed": "x"}, "seed takes a whole number, not 'x'"),
        ({"settings": {"steps": "x"}}, "steps takes a whole number of at least 1 and at most 1,000,000,000, not 'x'"),
        ({"settings": {"colour": "blue"}}, "'colour' is unknown"),
        ({"settings": {"resume": "x"}}, "'resume' is unknown"),
        ({"chosen": {"lr": -1}}, "lr takes a finite number above 0, not -1"),
        ({"chosen": {"decay_start": 1.5}}, "decay_start takes a whole number"),
    ],
)
def test_a_damaged_value_is_named(tmp_path, changes, message):
    Record.new(ASKED, USED).write(tmp_path)
    write_json(tmp_path / RECORD, read_json(tmp_path / RECORD) | changes)
    with pytest.raises(InputError, match=rf"minigrad\.json is damaged: {message}"):
        Record.read(tmp_path)


@pytest.mark.parametrize(
    ("result", "message"),
    [({"bits_per_byte": "x"}, "bits_per_byte 'x'"), ({"steps": [1]}, r"steps \[1\]"), ({"command": 3}, "command 3")],
)
def test_a_damaged_result_is_named(tmp_path, result, message):
    replace(Record.new(ASKED, USED), result=result).write(tmp_path)
    with pytest.raises(InputError, match=f"is damaged: its result has {message}"):
        Record.read(tmp_path)


def test_the_record_names_the_variables_that_change_speed(monkeypatch):
    monkeypatch.setattr(environment, "FOUND", {"OPENBLAS_CORETYPE": "Haswell"})
    assert Record.new(ASKED, USED).hardware.endswith(", OPENBLAS_CORETYPE=Haswell")


def test_the_record_says_what_multiplied_and_a_difference_is_one_line():
    record = Record.new(ASKED, USED)
    assert record.arithmetic == products.describe_arithmetic()
    assert "auto" not in record.arithmetic
    assert "BLAS is " in record.arithmetic
    assert record.difference_in_arithmetic() == ""
    assert replace(record, arithmetic="").difference_in_arithmetic() == ""  # of an earlier version
    products.use("blas", "bfloat16")
    try:
        said = record.difference_in_arithmetic()
    finally:
        products.use()
    assert f"one that never stopped. It began with {record.arithmetic}; here it is " in said
    assert "\n" not in said


def test_a_model_was_taught_to_talk_by_its_run_or_by_one_that_it_began_from(tmp_path):
    assert was_taught_to_talk(tmp_path) is None
    write_json(tmp_path / RECORD, {"settings": {"init": str(tmp_path / "base")}, "chosen": {}})
    assert was_taught_to_talk(tmp_path) is False
    (tmp_path / "base").mkdir()
    write_json(tmp_path / "base" / RECORD, {"settings": {"objective": "sft"}, "chosen": {}})
    assert was_taught_to_talk(tmp_path) is True
