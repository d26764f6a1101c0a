"""A wrong arm that is put in on purpose is caught before anything is compared."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from benchmarks.evaluation.checks import check, chosen_otherwise, problems
from benchmarks.evaluation.report import blocks, markdown
from benchmarks.evaluation.results import Results, read_table, write_table
from benchmarks.evaluation.study import Job
from minigrad.errors import InputError
from tests.benchmarks.evaluation.synthetic import TEXT, result, results, study

Wrong = Callable[[dict[str, Any]], object]


def shorter(row: dict[str, Any]) -> None:
    row["documents"] = {length: rows[:-1] for length, rows in row["documents"].items()}


def shorter_at_256(row: dict[str, Any]) -> None:
    row["documents"] = row["documents"] | {"256": row["documents"]["256"][:-1]}


def more_tokens(row: dict[str, Any]) -> None:
    row["documents"] = {length: [[r[0], r[1] + 1, *r[2:]] for r in rows] for length, rows in row["documents"].items()}


def more_tokens_at_256(row: dict[str, Any]) -> None:
    row["documents"] = row["documents"] | {"256": [[r[0], r[1] + 1, *r[2:]] for r in row["documents"]["256"]]}


def more_tokens_of_the_test(row: dict[str, Any]) -> None:
    row["test"] = {length: [[r[0], r[1] + 1, *r[2:]] for r in rows] for length, rows in row["test"].items()}


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda row: row.update(code="def"), r"more than one version of the code \(abc, def\)"),
        (
            lambda row: row.update(versions={"python": "3.12"}),
            r"more than one set of versions \({'python': '3.11'}, {'",
        ),
        (lambda row: row.update(study="other"), "made for another study, or another version of its file"),
        (lambda row: row.update(parameters=1_011_000), r"'equal' has 1,011,000 .*1,000,000: \+1\.1%, and 1% are"),
        (lambda row: row["settings"].update(seed=4), r"'equal' \(seed 3\) was trained with the seed 4"),
        (lambda row: row.update(order="order of 4"), r"seeds \[3, 4\] read the same tokens"),
        (lambda row: row.update(order="shuffled"), "with seed 3, .* read the text in another order"),
        (lambda row: row["settings"].update(context=128), "with seed 3, .* read other pieces of text"),
        (lambda row: row.update(text="another"), "with seed 3, .* read other pieces of text"),
        (lambda row: row["job"].update(seed=2), r"there are two runs of 'equal' \(seed 2\)"),
        (lambda row: row["job"].update(rate=0.01), r"'equal' \(seed 3\) is not one of the runs that the study plans"),
        (lambda row: row["job"].update(seed=8), r"'equal' \(seed 8\) is not one of the runs"),
        (lambda row: row["job"].update(amount=2_000_000), "is not one of the runs"),
        (lambda row: row["settings"].update(data="notes"), "was trained on notes, and its text is python-docs"),
        (
            lambda row: row["settings"].update(optimizer="adamw"),
            r"'equal' \(seed 3\) has optimizer adamw, the control muon, and the flags of neither name it",
        ),
        (lambda row: row["settings"].update(ema=0.999), "has ema 0.999, the control None"),
        (lambda row: row.update(test_text="another"), "judged on more than one test text"),
        (lambda row: row["settings"].update(set="width=12"), "trained with set width=12, which its flags do not have"),
        (lambda row: row.update(parameters=1_000_001), "the runs of the arm 'equal' differ in their numbers of param"),
        (lambda row: row.update(arm={"model": "a.py:B", "attributes": {}}), "is of the class and attributes .*a.py:B"),
        (lambda row: row.update(tokens=1_002_048), "read 1,002,048 tokens of 1,000,000"),
        (lambda row: row.update(tokens=999_999), "read 999,999 tokens of 1,000,000"),
        (lambda row: row.update(validation_text="w"), "judged on more than one validation text"),
        (lambda row: row.update(arithmetic="BLAS"), r"computed with more than one arithmetic \(BLAS; own\)"),
        (shorter, "judged on different documents"),
        (shorter_at_256, "judged on different documents"),
        (lambda row: row.update(test={length: rows[:-1] for length, rows in row["documents"].items()}), "on different"),
        (more_tokens, "documents differ in their numbers of tokens"),
        (more_tokens_at_256, "documents differ in their numbers of tokens"),
        (more_tokens_of_the_test, "documents differ in their numbers of tokens"),
        (
            lambda row: row["settings"].update(lr=0.003),
            r"the arm 'equal' have more than one value of lr \(0.003, 0.006",
        ),
        (lambda row: row["settings"].update(dropout=0.3), "the arm 'equal' have more than one value of dropout"),
        (lambda row: row.update(steps=7), r"the arm 'equal' have more than one value of steps \(489, 7\)"),
        (lambda row: row["settings"].update(decay="3:7"), "the arm 'equal' have more than one value of decay"),
    ],
)
def test_what_is_wrong_with_one_run_is_said(tmp_path: Path, spoil: Wrong, said: str) -> None:
    made = study(tmp_path)
    rows = results(made)
    for each in rows:
        each["test"] = each["documents"]
    check(made, rows)
    (row,) = (each for each in rows if (each["job"]["arm"], each["job"]["seed"]) == ("equal", 3))
    spoil(row)
    with pytest.raises(InputError, match=said):
        check(made, rows)


@pytest.mark.parametrize("part", ["documents", "test"])
@pytest.mark.parametrize(("arm", "seed"), [("control", 3), ("equal", 2)])
def test_two_runs_with_the_same_losses_are_not_compared(tmp_path: Path, part: str, arm: str, seed: int) -> None:
    """Nothing would be left to differ: an arm that changes nothing would be proven equal."""
    made = study(tmp_path)
    rows = [each | {"test": scaled(each["documents"])} for each in results(made)]
    by_name = {(each["job"]["arm"], each["job"]["seed"]): each for each in rows}
    by_name["equal", 3][part] = by_name[arm, seed][part]
    with pytest.raises(InputError, match="have the same losses to the last digit: the arm changes nothing, or one of"):
        check(made, rows)


def scaled(documents: dict[str, Any]) -> dict[str, Any]:
    return {length: [[*row[:2], row[2] * 1.01, *row[3:]] for row in rows] for length, rows in documents.items()}


def test_a_precision_that_is_left_to_the_machine_is_the_same_for_both(tmp_path: Path) -> None:
    made = study(tmp_path, TEXT.replace('name = "equal"\n', 'name = "equal"\nflags = "--precision auto"\n'))
    rows = [result(made, arm, 0) for arm in ("control", "equal")]
    for row, precision in zip(rows, ("bfloat16", "float32"), strict=True):
        row["settings"]["precision"] = precision
    assert list(problems(made, rows)) == [
        "'equal' (seed 0) has precision float32, the control bfloat16, and the flags of neither name it"
    ]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (
            lambda row: row["documents"]["256"][0].__setitem__(2, float("nan")),
            "'equal' .* is damaged: in its documents",
        ),
        (lambda row: row["documents"]["64"][1].__setitem__(2, -1.0), r"for each of the lengths \[64, 256\]"),
        (lambda row: row["documents"].pop("64"), "is damaged"),
        (lambda row: row["documents"].update({"64": []}), "judged on different documents"),
        (lambda row: row["job"].update(speed=1), "speed is unknown"),
        (lambda row: row["job"].pop("rate"), "rate is missing"),
    ],
)
def test_a_damaged_result_is_named(tmp_path: Path, spoil: Wrong, said: str) -> None:
    made = study(tmp_path)
    rows = [json.loads(json.dumps(each)) for each in results(made)]
    (row,) = (each for each in rows if (each["job"]["arm"], each["job"]["seed"]) == ("equal", 3))
    spoil(row)
    path = tmp_path / "table.json.gz"
    path.write_bytes(gzip.compress("".join(f"{json.dumps(each)}\n" for each in rows).encode()))
    with pytest.raises(InputError, match=said):
        read_table(path, made)


@pytest.mark.parametrize(
    ("seed", "said"),
    [
        (9, r"the failed run of 'equal' \(seed 9\) is not one of the runs"),
        (3, r"\(seed 3\) is also there as a finished"),
    ],
)
def test_a_failed_run_is_one_of_the_study_and_is_not_finished_as_well(tmp_path: Path, seed: int, said: str) -> None:
    made = study(tmp_path)
    failed = Job("equal", seed, "python-docs", "tokens", 1_000_000, None)
    write_table(tmp_path / "table.json.gz", Results(results(made), [(failed, "no reason")]))
    with pytest.raises(InputError, match=said):
        read_table(tmp_path / "table.json.gz", made)


def test_an_arm_may_differ_on_purpose_if_the_study_says_why(tmp_path: Path) -> None:
    allowed = 'name = "equal"\nunequal_parameters = "wider"\nown_order = "longer pieces"\n'
    made = study(tmp_path, TEXT.replace('name = "equal"\n', allowed))
    # A hash of other tokens, as of another vocabulary, differs for the same documents too.
    other = {"text": "other tokens", "validation_text": "other tokens to judge"}
    odd = result(made, "equal", 0, parameters=2_000_000, order="own", **other)
    assert not list(problems(made, [result(made, "control", 0), odd]))


def test_runs_have_the_settings_that_the_flags_of_their_arm_say(tmp_path: Path) -> None:
    made = study(tmp_path, TEXT.replace('name = "equal"\n', 'name = "equal"\nflags = "--lr 0.004 --precision auto"\n'))
    rows = [result(made, arm, 0) for arm in ("control", "equal")]
    assert list(problems(made, rows)) == ["'equal' (seed 0) was trained with lr 0.006, and its flags say 0.004"]
    rows[1]["settings"]["lr"] = 0.004
    assert not list(problems(made, rows))


def test_a_run_has_the_rate_that_was_chosen(tmp_path: Path) -> None:
    tuning = "\n[tuning]\nrates = [0.003, 0.006]\ntokens = 600_000\nseeds = 1\n"
    made = study(tmp_path, TEXT.replace("seeds = 8", "seeds = 2").replace("[[arm]]", tuning + "\n[[arm]]", 1))
    rows = [result(made, arm.name, seed) for arm in made.arm for seed in made.seeds_of(arm)]
    for row in rows:
        row["job"]["rate"] = 0.006
    for job in made.tuning_jobs():
        row = result(made, job.arm, job.seed, job=vars(job).copy(), tokens=600_064)
        row["settings"]["lr"], factor = job.rate, 1 if job.rate == 0.006 else 2
        for length, found in row["documents"].items():
            row["documents"][length] = [[*each[:2], each[2] * factor, *each[3:]] for each in found]
        row["order"] = f"order of {job.seed}"
        rows.append(row)
    write_table(tmp_path / "table.gz", Results(rows, []))
    assert len(read_table(tmp_path / "table.gz", made).finished) == made.count()
    rows[3]["settings"]["lr"] = rows[3]["job"]["rate"] = 0.003
    write_table(tmp_path / "table.gz", Results(rows, []))
    with pytest.raises(InputError, match=r"'equal' .seed 1. was trained with the learning rate 0.003, and .* 0.006"):
        read_table(tmp_path / "table.gz", made)
    rows[3]["job"]["rate"] = 0.006
    assert list(problems(made, rows)) == [
        "'equal' (seed 1) was trained with the learning rate 0.003, and 0.006 was chosen"
    ]


def test_a_warm_up_may_be_given_as_a_share_of_the_steps(tmp_path: Path) -> None:
    made = study(tmp_path, TEXT.replace('name = "equal"\n', 'name = "equal"\nflags = "--warmup 0.05"\n'))
    rows = [result(made, arm, 0, steps=400) for arm in ("control", "equal")]
    rows[1]["settings"]["warmup"] = 20
    assert not list(problems(made, rows))
    rows[1]["settings"]["warmup"] = 40
    assert list(problems(made, rows)) == ["'equal' (seed 0) was trained with warmup 40, and its flags say 20"]


def test_runs_of_equal_seconds_are_of_one_machine_and_as_long(tmp_path: Path) -> None:
    made = study(tmp_path, TEXT.replace("tokens = [1_000_000]", "seconds = [100]"))
    rows = results(made)
    for each in rows:
        each["job"].update(kind="seconds", amount=100)
        each["seconds"] = {0: 81.0, 1: 109.0}.get(each["job"]["seed"], 100.0)
    check(made, rows)
    rows[2]["seconds"] = 101.9
    check(made, rows)
    rows[2]["seconds"] = 102.1
    (said,) = problems(made, rows)
    assert said.endswith("took 100 seconds and 'control' (seed 2) 102: with equal seconds, times may differ by 2%")
    rows[0]["hardware"] = "another"
    rows[0]["seconds"], rows[1]["seconds"] = 79.0, 111.0
    found = " ".join(problems(made, rows))
    assert "different machines" in found
    assert "took 79 seconds of 100" in found
    assert "took 111 seconds of 100" in found


def test_what_train_py_chooses_by_the_size_may_differ_and_is_reported(tmp_path: Path) -> None:
    made = study(tmp_path)
    rows = results(made)
    for each in rows:
        if each["job"]["arm"] == "better":
            each["settings"] |= {"lr": 0.0036, "dropout": 0.02}
    assert not list(problems(made, rows))
    for each in rows:  # as in equal time
        if each["job"]["arm"] == "better":
            each["settings"]["dropout"] = 0.01 * each["job"]["seed"]
    assert list(chosen_otherwise(made, rows)) == [
        "better: train.py chose a dropout of 0 to 0.07, and for the control of 0.",
        "better: train.py chose a learning rate of 0.0036, and for the control of 0.006.",
    ]
    report = markdown(list(blocks(made, Results(rows, []), {})))
    assert report.count("train.py chose a") == 2


def test_a_rate_that_the_study_chose_is_not_said_to_be_the_choice_of_train_py(tmp_path: Path) -> None:
    made = study(tmp_path, TEXT + "\n[tuning]\nrates = [0.003, 0.006]\ntokens = 1_000\n")
    rows = results(made)
    for each in rows:
        each["settings"]["lr"] = each["job"]["rate"] = 0.003 if each["job"]["arm"] == "better" else 0.006
    assert not list(chosen_otherwise(made, rows))


def test_a_flag_that_is_set_back_leaves_the_choice_to_train_py(tmp_path: Path) -> None:
    own = TEXT.replace('name = "better"\n', 'name = "better"\nflags = "--dropout none"\n')
    made = study(tmp_path, own.replace("[[arm]]", 'flags = "--dropout 0.1"\n[[arm]]', 1))
    rows = results(made)
    for each in rows:
        each["settings"]["dropout"] = 0.02 if each["job"]["arm"] == "better" else 0.1
    assert not list(problems(made, rows))


def test_no_flag_excuses_a_setting_of_another_arm(tmp_path: Path) -> None:
    made = study(tmp_path, TEXT.replace('name = "better"\n', 'name = "better"\nflags = "--optimizer adamw"\n'))
    rows = results(made)
    for each in rows:
        if each["job"]["arm"] == "better":
            each["settings"]["optimizer"] = "adamw"
    assert not list(problems(made, rows))
    (row,) = (each for each in rows if (each["job"]["arm"], each["job"]["seed"]) == ("equal", 3))
    row["settings"]["optimizer"] = "adamw"
    assert [each.partition(",")[0] for each in problems(made, rows)] == ["'equal' (seed 3) has optimizer adamw"]


def test_the_last_step_may_read_more_tokens_than_are_left(tmp_path: Path) -> None:
    made = study(tmp_path)
    rows = [result(made, arm, 0, tokens=1_003_520) for arm in ("control", "equal")]
    for row in rows:
        row["settings"]["accumulate"] = 2
    assert not list(problems(made, rows))
    for row in rows:
        row["settings"]["accumulate"] = 1
    assert len(list(problems(made, rows))) == 2


def test_each_precision_may_have_an_arithmetic_of_its_own(tmp_path: Path) -> None:
    made = study(tmp_path, TEXT.replace('name = "equal"\n', 'name = "equal"\nflags = "--precision bfloat16"\n'))
    rows = [result(made, "control", 0), result(made, "equal", 0, arithmetic="tiles")]
    for row, precision in zip(rows, ("float32", "bfloat16"), strict=True):
        row["settings"]["precision"] = precision
    assert not list(problems(made, rows))
