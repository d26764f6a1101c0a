"""A report says of arms whose truth is known what is true, and no more than the number of pairs carries."""

from __future__ import annotations

import gzip
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks.evaluation import report
from benchmarks.evaluation.report import (
    Compared,
    Table,
    at_end,
    blocks,
    compare,
    details,
    differences,
    html_page,
    markdown,
    paired,
    plan,
    spreads,
    spreads_along,
    verdict,
)
from benchmarks.evaluation.results import Results, read_table, write_table
from benchmarks.evaluation.study import Job
from minigrad.errors import InputError
from tests.benchmarks.evaluation.synthetic import TEXT, TRUTH, result, results, study


def verdicts(tmp_path: Path, seeds: int) -> dict[str, str]:
    made = study(tmp_path, TEXT.replace("seeds = 8", f"seeds = {seeds}"))
    compared = compare(made, Results(results(made), []), made.comparisons()[0], 256, "documents")
    return {row[0]: row[-1] for row in differences(made, compared).rows}


def test_the_verdicts_are_the_truth(tmp_path: Path) -> None:
    expected = {"control": "the control", "equal": "no difference beyond 0.01", "better": "better"}
    assert verdicts(tmp_path, 8) == expected | {"leaky": "leaks, on purpose"}
    few = verdicts(tmp_path, 4)
    assert few["better"] == "better"
    assert few["equal"].startswith("open")


def test_nothing_is_said_while_runs_are_missing_or_of_those_that_did_not_fail(tmp_path: Path) -> None:
    made = study(tmp_path)
    failed = (Job("better", 7, "python-docs", "tokens", 1_000_000, None), "it diverged")
    for lost, reasons, said in ((2, [], "incomplete"), (7, [failed], "open: 1 of its runs or of the control's failed")):
        rows = [each for each in results(made) if (each["job"]["arm"], each["job"]["seed"]) != ("better", lost)]
        compared = compare(made, Results(rows, reasons), made.comparisons()[0], 256, "documents")
        shown = {row[0]: row[-1] for row in differences(made, compared).rows}
        assert shown["better"] == said
        assert shown["equal"] == ("no difference beyond 0.01" if reasons else "incomplete")


def test_each_threshold_of_a_verdict_decides(tmp_path: Path) -> None:
    made = study(tmp_path)
    compared = compare(made, Results(results(made), []), made.comparisons()[0], 256, "documents")
    (better,) = (each for each in compared if each.arm.name == "better")
    worse = better._replace(both=better.both._replace(mean=0.05))

    def said(differs: float, equivalent: float, pairs: int = 8, each: Compared = better) -> str:
        return verdict(each._replace(pairs=pairs), differs, equivalent, 0.01, incomplete=False)

    assert said(0.051, 0.051) == "open"
    assert said(0.049, 0.051) == "better"
    assert said(0.049, 0.051, each=worse) == "worse"
    assert said(0.049, 0.049) == "better, by less than 0.01"
    assert said(0.049, 0.049, pairs=7) == "better"
    assert said(0.051, 0.049) == "no difference beyond 0.01"
    assert said(0.051, 0.049, pairs=7) == "open: fewer than 8 pairs"
    assert said(0.049, 0.049, pairs=1) == "too few pairs"


def test_the_correction_counts_every_arm_that_was_planned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRUTH, "leaky", 0.0)  # so its p-value, which does not count, would not be the smallest
    made = study(tmp_path, TEXT.replace("seeds = 8", "seeds = 2"))
    alone = [each for each in results(made) if each["job"]["arm"] != "equal"]
    failed = [(Job("equal", seed, "python-docs", "tokens", 1_000_000, None), "it diverged") for seed in (0, 1)]
    compared = compare(made, Results(alone, failed), made.comparisons()[0], 256, "documents")
    shown = {row[0]: row for row in differences(made, compared).rows}
    assert shown["equal"][1:4] == ["0", "", ""]
    assert shown["equal"][-1] == "open: 2 of its runs or of the control's failed"
    (better,) = (each.both for each in compared if each.arm.name == "better")
    assert shown["better"][7] == f"{min(1, 2 * better.p_differs()):.4f}"  # of two arms, though one has no run
    compared = compare(made, Results(alone, []), made.comparisons()[0], 256, "documents")
    shown = {row[0]: row for row in differences(made, compared, {"better"}).rows}
    assert shown["better"][-1] == "incomplete; its learning rate is an end of those tried"


def test_a_failure_beyond_the_pairs_does_not_stand_for_a_missing_run(tmp_path: Path) -> None:
    made = study(tmp_path, TEXT.replace('name = "equal"\n', 'name = "equal"\nseeds = 12\n'))
    failed = [(Job("equal", 10, "python-docs", "tokens", 1_000_000, None), "it diverged")]
    rows = [
        each for each in results(made) if (each["job"]["arm"], each["job"]["seed"]) not in {("equal", 3), ("equal", 10)}
    ]
    compared = compare(made, Results(rows, failed), made.comparisons()[0], 256, "documents")
    assert {row[0]: row[-1] for row in differences(made, compared).rows}["better"] == "incomplete"


def test_the_control_is_compared_with_nothing(tmp_path: Path) -> None:
    made = study(tmp_path)
    compared = compare(made, Results(results(made), []), made.comparisons()[0], 64, "documents")
    assert [each.pairs for each in compared] == [0, 8, 8, 8]
    equal = compared[1]
    shown = {row[0]: row for row in differences(made, compared).rows}
    assert shown["equal"][7] == f"{min(1, equal.both.p_differs()):.4f}"  # of two comparisons, the larger p
    assert shown["control"][4:9] == [""] * 5


def test_an_arm_has_the_interval_and_the_spread_of_its_pairs(tmp_path: Path) -> None:
    made = study(tmp_path)
    compared = compare(made, Results(results(made), []), made.comparisons()[0], 64, "documents")
    table = differences(made, compared)
    control, _, better, _ = compared
    (row,) = (dict(zip(table.head, row, strict=True)) for row in table.rows if row[0] == "better")
    for column, found in (("95%, seeds and documents", better.both), ("95%, seeds alone", better.seeds)):
        assert row[column] == "{:+.4f} to {:+.4f}".format(*found.interval())
    assert better.both.freedom < better.seeds.freedom  # of eight documents, which are large and small
    pairs = np.subtract(better.scores, control.scores)
    assert better.seeds.mean == pytest.approx(np.mean(pairs))
    assert better.spread == pytest.approx(np.std(pairs, ddof=1))


def test_spreads_are_pooled_over_arms_and_followed_along_the_training(tmp_path: Path) -> None:
    made = study(tmp_path)
    found, comparison = Results(results(made), []), made.comparisons()[0]
    compared = compare(made, found, comparison, 64, "documents")
    (text,), (table,) = spreads(compared), spreads_along(made, found, comparison)
    within = math.sqrt(np.mean([np.var(each.scores, ddof=1) for each in compared]))
    of_pairs = math.sqrt(np.mean([each.spread**2 for each in compared if each.pairs]))
    assert text == (
        f"Standard deviation of seeds, in bits per byte: {within:.4f} within an arm (pooled from 4 arms), of paired "
        f"differences {of_pairs:.4f} (of 3)."
    )
    luck = np.std([result(made, "control", seed)["curve"][1][1] for seed in range(8)], ddof=1)
    row = ["standard deviation of seeds", "0.0000", f"{luck:.4f}", f"{luck:.4f}"]
    assert table == Table(["tokens read", "100", "500,000", "1,001,472"], [row])


def test_the_details_of_an_arm_are_the_means_of_its_runs(tmp_path: Path) -> None:
    made = study(tmp_path)
    documents = {
        "64": [[10, 6, 9.0, 2, 3.0], [20, 10, 15.0, 4, 9.0]]
    }  # bytes, tokens, nats, and those of repeated pairs
    runs = [
        result(
            made, "better", 0, documents=documents, tokens=1_001_472, seconds=100.0, copy=8.0, merge_ratio=[0.2, 0.4]
        ),
        result(made, "better", 1, documents=documents, tokens=1_001_472, seconds=50.0, copy=7.0, merge_ratio=[0.5]),
    ]
    table = details(made, Results(runs, []), made.comparisons()[0], 64)
    assert table.head[1:3] == ["nats of repeated pairs", "of other tokens"]
    assert table.rows == [["better", "2.000", "1.200", "7.500", "15,022", "40.0%"]]


def test_both_ends_of_the_rates_that_were_tried_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuning = "\n[tuning]\nrates = [0.006, 0.003, 0.012]\ntokens = 1_000\n"
    made = study(tmp_path, TEXT + tuning)
    chosen = {"control": 0.003, "equal": 0.006, "better": 0.012, "leaky": None}
    monkeypatch.setattr(report, "chosen_rate", lambda study, results, name, corpus: chosen[name])
    assert at_end(made, Results([], []), "python-docs") == {"control", "better"}


def test_the_table_of_rates_shows_the_runs_that_finished_and_how_many_failed(tmp_path: Path) -> None:
    made, found = study(tmp_path, TEXT + "\n[tuning]\nrates = [0.006, 0.003]\ntokens = 1_000\n"), Results([], [])
    for job in made.tuning_jobs():
        if job.arm == "control" and job.seed == 1_000:
            found.finished.append(result(made, "control", job.seed, job=vars(job).copy()))
        elif job.arm == "control":
            found.failed.append((job, "it diverged"))
    cells = next(row for row in report.rates(made, found, "python-docs").rows if row[0] == "control")
    assert all(re.fullmatch(r"\d\.\d{4}, 1 failed", cell) for cell in cells[1:3])


def test_pairs_are_made_by_seed_and_share_their_luck(tmp_path: Path) -> None:
    made = study(tmp_path)
    rows = [result(made, "better", seed) for seed in (2, 0, 1)]
    control = {seed: result(made, "control", seed) for seed in (0, 1, 2, 5)}
    bits, sizes = paired({each["job"]["seed"]: each for each in rows}, control, 64, "documents")
    scores = bits.sum(1) / sizes.sum()
    assert scores == pytest.approx([-0.05] * 3, abs=0.015)
    other = {seed: control[5 - seed] for seed in (0, 5)}
    unpaired, _ = paired({seed: result(made, "better", seed) for seed in (0, 5)}, other, 64, "documents")
    assert np.ptp(unpaired.sum(1)) > 2 * np.ptp(bits.sum(1))  # a swapped seed is no pair
    control[1]["documents"]["64"][0][0] += 1
    with pytest.raises(InputError, match="cannot be paired"):
        paired({1: rows[2]}, control, 64, "documents")


def test_a_report_has_all_parts_and_says_when_runs_are_missing(tmp_path: Path) -> None:
    made = study(tmp_path)
    rows = results(made)
    failed = [(Job("equal", 9, "python-docs", "tokens", 1_000_000, None), "it diverged")]
    parts = list(blocks(made, Results(rows[:-1], failed), {}))
    text = markdown(parts)
    assert "Incomplete" not in text
    assert "31 of 32 runs finished, 1 failed" in text
    assert "| equal/python-docs" in text
    assert "it diverged |" in text
    assert "Incomplete: 30 of 32" in markdown(list(blocks(made, Results(rows[:-2], []), {})))
    assert "Standard deviation of seeds, in bits per byte: 0.0" in text
    assert "sequences of 64 tokens" in text
    page = html_page(parts)
    assert "nan" not in text + page
    assert page.count("<svg role") == 3
    assert "a margin of 0.01" in page
    for each in compare(made, Results(rows[:-1], failed), made.comparisons()[0], 64, "documents")[1:]:
        ends = "{:+.4f} to {:+.4f}".format(*each.both.interval())
        assert f"{each.arm.name}: {each.both.mean:+.4f}, {ends}" in page
    assert all(len(row) == len(each.head) for each in parts if isinstance(each, Table) for row in each.rows)
    assert "32 runs, about 1 hour of one core" in plan(made)
    assert "about 1.5 hours of one core" in plan(replace(made, hours=1.5))


def test_a_folder_without_runs_is_refused_and_no_table_written(tmp_path: Path) -> None:
    made, empty, table = study(tmp_path), tmp_path / "empty", tmp_path / "table.json.gz"
    empty.mkdir()
    for folder in (empty, tmp_path / "nowhere"):
        with pytest.raises(InputError, match=f"no run in {folder} has ended; make them with benchmarks/evaluation/run"):
            report.make(report.ReportConfig(study=str(made.path), runs=str(folder), pack=str(table)))
    assert not table.exists()


def test_a_compressed_table_gives_the_same_report(tmp_path: Path) -> None:
    made = study(tmp_path)
    failed = Job("equal", 7, "python-docs", "tokens", 1_000_000, None)
    finished = [each for each in results(made) if each["job"] != vars(failed)]
    found = Results(finished, [(failed, "it diverged")])
    write_table(tmp_path / "table.gz", found)
    assert read_table(tmp_path / "table.gz", made) == found
    whole = (tmp_path / "table.gz").read_bytes()
    contents = [
        b"no",
        whole[: len(whole) // 2],
        whole[:20] + b"x" * 200,
        *map(gzip.compress, (b"null\n", b"{}", b"\xff")),
    ]
    for content in contents:
        (tmp_path / "broken.gz").write_bytes(content)
        with pytest.raises(InputError, match="holds no results"):
            read_table(tmp_path / "broken.gz", made)
    other = study(tmp_path, TEXT.replace('name = "better"', 'name = "another"'))
    with pytest.raises(InputError, match="was made for another study"):
        read_table(tmp_path / "table.gz", other)


def test_test_figures_are_shown_once_all_runs_have_them(tmp_path: Path) -> None:
    made = study(tmp_path)
    rows = results(made)
    for each in rows:
        each["test"] = each["documents"]
    assert "test text" in markdown(list(blocks(made, Results(rows, []), {})))
    del rows[0]["test"]
    assert "test text" not in markdown(list(blocks(made, Results(rows, []), {})))
    assert report.LEAST_PAIRS == 8


def test_an_arm_counts_by_its_runs_in_the_pooled_spread() -> None:
    assert report._pooled([(2, 4.0), (4, 1.0)]) == pytest.approx(math.sqrt((1 * 4.0 + 3 * 1.0) / 4))
