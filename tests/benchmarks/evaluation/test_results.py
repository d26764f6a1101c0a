"""The tables of finished studies that are kept say what the pages print, and learning rates are chosen by all runs."""

from __future__ import annotations

import re
from collections import Counter
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.evaluation.checks import Result
from benchmarks.evaluation.intervals import holm, over_seeds, over_seeds_and_documents
from benchmarks.evaluation.one_run import RESULT
from benchmarks.evaluation.report import compare, spreads
from benchmarks.evaluation.results import Results, chosen_rate, nats, read_table, score
from benchmarks.evaluation.results import read as results_of
from benchmarks.evaluation.study import Study
from docs.measurements.records import Record, read
from minigrad.formats.json_files import write_json
from tests.benchmarks.evaluation import synthetic
from tests.benchmarks.evaluation.tables import FOLDER, Judged, difference, floats, judged, load, of_table

OPENED = read()["studies-on-test-text"]


@pytest.mark.parametrize(
    ("failed", "chosen"), [({0.003: 1}, 0.006), ({0.003: 1, 0.006: 1}, 0.003), ({0.003: 2}, 0.006)]
)
def test_a_learning_rate_with_more_failed_runs_loses_and_delays_nothing(
    failed: dict[float, int], chosen: float, tmp_path: Path
) -> None:
    tuning = "\n[tuning]\nrates = [0.006, 0.003]\ntokens = 1_000\nseeds = 2\n"
    study, found = synthetic.study(tmp_path, synthetic.TEXT + tuning), Results([], [])
    for job in study.tuning_jobs():
        if job.arm != "control":
            continue
        assert chosen_rate(study, found, "control", "python-docs") is None
        if job.seed - 1_000 < failed.get(job.rate, 0):
            found.failed.append((job, "it diverged"))
            continue
        row = synthetic.result(study, "control", job.seed, job=vars(job).copy())
        for each in row["documents"]["64"]:
            each[2] *= 0.5 if job.rate == 0.003 else 1.0
        found.finished.append(row)
    assert chosen_rate(study, found, "control", "python-docs") == chosen


@pytest.mark.parametrize(("documents", "group"), [(1_000, 1), (1_001, 2), (2_003, 3)])
def test_neighbours_are_summed_in_a_text_of_more_than_a_thousand_documents(
    documents: int, group: int, tmp_path: Path
) -> None:
    study = synthetic.study(tmp_path)
    written = synthetic.result(study, "control", 0)
    rows = [[size, 20, round(size / 7, 4), 4, 0.5] for size in range(100, 100 + documents)]
    written["documents"] = {"64": rows, "256": rows}
    place = tmp_path / "control" / "python-docs" / "length" / "seed-0"
    place.mkdir(parents=True)
    write_json(place / RESULT, written)
    (found,) = results_of(study, tmp_path).finished
    assert len(found["documents"]["256"]) == -(-documents // group)
    for row, start in zip(found["documents"]["256"], range(0, documents, group), strict=True):
        assert row == pytest.approx(np.sum(rows[start : start + group], axis=0), abs=1e-4)
    assert score(found, 256) == pytest.approx(score(written, 256))


@pytest.mark.parametrize("row", [row for row, cells in OPENED.figures.items() if isinstance(cells, list)])
def test_the_record_of_the_test_texts_is_what_the_tables_give(row: str) -> None:
    name, _, rest = row.partition(": ")
    arm, _, length = rest.rpartition(", ")
    study = Study.read(FOLDER / "studies" / f"{name}.toml")
    results, (comparison,) = read_table(FOLDER / "tables" / f"{name}.json.gz", study), study.comparisons()
    for part, short in (("documents", "validation"), ("test", "test")):
        compared = compare(study, results, comparison, int(length), part)
        tested = [each for each in compared if each.arm.name != study.control and not each.arm.leaks]
        ps = dict(zip([each.arm.name for each in tested], holm([e.both.p_differs() for e in tested]), strict=True))
        (found,) = (each.both for each in tested if each.arm.name == arm)
        assert OPENED.value(row, f"difference, {short}") == pytest.approx(found.mean, abs=5.1e-4)
        printed = OPENED.values(row)[OPENED.columns.index(f"p, {short}")]
        assert float(printed) == pytest.approx(ps[arm], abs=0.51 * 10 ** -len(printed.partition(".")[2]))
    ends = [OPENED.value(row, "95% interval, test", number) for number in (0, 1)]
    assert ends == pytest.approx(found.interval(), abs=1e-3)


def test_two_studies_of_equal_time_are_corrected_for_both() -> None:
    rows = [f"{name}: Wiola, 256" for name in ("wiola_or_llama_time", "wiola_or_llama_time_again")]
    (printed,) = OPENED.values("both studies of equal time, corrected: p, test; p, validation")
    found = [min(holm([OPENED.value(row, f"p, {text}") for row in rows])) for text in ("test", "validation")]
    assert [float(each) for each in printed.split(" and ")] == pytest.approx(found, abs=1.1e-3)


def test_all_nine_pairs_of_the_offset_are_pooled_and_corrected_for_eight_tests() -> None:
    both = difference("with the offset", "Llama", "wiola_added_short", "wiola_offset", part="test")
    (printed,) = OPENED.values("the offset, all nine pairs, test: gain; 95% interval; p, corrected")
    assert printed == "{:.3f}; {:.3f} to {:.3f}; {:.3f}".format(
        -both.mean, *sorted(-end for end in both.interval()), 8 * both.p_differs()
    )


def test_no_difference_on_other_tokens_is_shown_for_other_documents() -> None:
    (study, results), record = load("wiola_or_llama"), read()["wiola-or-llama"]
    (comparison,) = study.comparisons()

    def others(arm: str, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Return the loss of the other tokens by seed and document, and their number by document."""
        rows = np.array([run[part]["256"] for _, run in sorted(results.of(comparison, arm).items())])
        return rows[..., 2] - rows[..., 4], rows[0, :, 1] - rows[0, :, 3]

    found: list[float] = []
    for part in ("documents", "test"):
        (wiola, tokens), (llama, _) = (others(arm, part) for arm in ("Wiola", "Llama"))
        both = over_seeds_and_documents(wiola - llama, tokens)
        found += [both.mean, *both.interval()]
        if part == "documents":
            (printed,) = record.values("the same over the seeds alone, validation")
            assert floats(printed) == pytest.approx(over_seeds(wiola - llama, tokens).interval(), abs=5.1e-4)
    (printed,) = record.values("difference on other tokens, over seeds and documents: validation, test")
    assert floats(printed) == pytest.approx(found, abs=7e-4)


@pytest.mark.parametrize("table", sorted((FOLDER / "tables").iterdir()), ids=lambda table: table.name)
def test_the_record_of_a_study_is_what_its_table_gives(table: Path) -> None:
    study, results, name = of_table(table)
    assert len(results.finished) == study.count()
    record, several = read()[name.replace("_", "-")], len(study.comparisons()) > 1
    for comparison in study.comparisons():
        by_length = {length: judged(study, results, comparison, length) for length in study.judged}
        for each in by_length[study.judged[0]].values():
            arm = each.compared.arm.name
            row = f"{arm}, {comparison.corpus}" if several else arm
            runs = list(results.of(comparison, arm).values())
            check_row(record, row, expected(study, {length: found[arm] for length, found in by_length.items()}, runs))
            spread = re.search(r"\((.*)\)", record.values(row)[record.columns.index("bits per byte")])
            assert spread
            assert float(spread[1]) == pytest.approx(np.std(each.compared.scores, ddof=1), abs=5.1e-4)


def expected(study: Study, by_length: dict[int, Judged], runs: list[Result]) -> dict[str, Any]:
    """Return the figures of an arm by the columns of a record; a column that names no length is of the first one."""
    wanted: dict[str, Any] = {
        "parameters": by_length[study.judged[0]].compared.parameters,
        "steps": np.mean([run["steps"] for run in runs]),
        "tokens read, millions": np.mean([run["tokens"] for run in runs]) / 1e6,
        "processor seconds": np.mean([run["seconds"] for run in runs]),
        "merged, %": 100 * np.mean([run["merge_ratio"] for run in runs]) if "merge_ratio" in runs[0] else None,
    }
    for length, (compared, p) in by_length.items():
        of_length = "" if length == study.judged[0] else f", {length}"
        repeated, others = np.mean([nats(run, length) for run in runs], axis=0)
        found = {
            "nats, repeated pairs": repeated,
            "nats, other tokens": others,
            "bits per byte": np.mean([score(run, length) for run in runs]),
            "difference": compared.both.mean,
            "95% interval": compared.both.interval(),
            "p": p,
            "p, corrected": p,
        }
        is_control = p is None and compared.arm.name == study.control
        found |= dict.fromkeys(("difference", "95% interval")) if is_control else {}
        wanted |= {name + of_length: value for name, value in found.items()}
    return wanted


def check_row(record: Record, row: str, wanted: dict[str, Any]) -> None:
    """Compare what a record prints of an arm with what its runs give; a control is compared with nothing."""
    for column in record.columns:
        printed = record.values(row)[record.columns.index(column)]
        if not printed:
            assert wanted[column] is None
        elif "95% interval" in column:
            ends = [record.value(row, column, number) for number in (0, 1)]
            assert ends == pytest.approx(wanted[column], abs=1e-3)
        else:
            digits = len(printed.split()[0].partition(".")[2])
            assert record.value(row, column) == pytest.approx(wanted[column], abs=0.51 * 10**-digits)


@pytest.mark.parametrize("name", ["wiola_without_rates", "wiola_added_rates", "wiola_controls_rates"])
def test_the_scores_by_learning_rate_are_what_the_runs_give(name: str) -> None:
    (study, results), record = load(name), read()[name.replace("_", "-")]
    assert {name for name, cells in record.figures.items() if isinstance(cells, list)} == {a.name for a in study.arm}
    variances, behind, by_seed = [], [], []
    for arm in study.arm:
        found = results.tuned(arm.name, "python-docs")
        for rate, scores in found.items():
            assert record.value(arm.name, f"{rate:g}") == pytest.approx(np.mean(scores), abs=5.1e-5)
            variances.append(np.var(scores, ddof=1))
        assert record.value(arm.name, "chosen") == chosen_rate(study, results, arm.name, "python-docs")
        by_seed.append(np.subtract(found[0.0144], found[0.0072]))
        behind.append(by_seed[-1].mean())
    (printed,) = record.values("0.0144 behind 0.0072, least and most")
    assert floats(printed) == pytest.approx([min(behind), max(behind)], abs=1e-4)
    assert record.value("standard deviation of two seeds") == pytest.approx(np.sqrt(np.mean(variances)), abs=5.1e-5)
    spread = np.sqrt(np.var(by_seed, axis=1, ddof=1).mean())
    assert record.value("0.0144 minus 0.0072, seed by seed: standard deviation") == pytest.approx(spread, abs=5.1e-5)
    assert sum(bool((each > 0).all()) for each in by_seed) == len(study.arm) - 1


@pytest.mark.parametrize("name", ["wiola_or_llama_rates", "wiola_adamw"])
def test_the_rates_of_a_comparison_were_chosen_by_the_scores_that_are_printed(name: str) -> None:
    (study, results), record = load(name), read()[name.replace("_", "-")]
    for arm in study.arm:
        found = results.tuned(arm.name, "python-docs")
        (printed,) = record.values(f"after 600 steps, by rate: {arm.name}")
        assert floats(printed) == pytest.approx([np.mean(found[rate]) for rate in study.rates_of(arm)], abs=5.1e-5)


@pytest.mark.parametrize(
    "name", ["wiola_without_rates", "wiola_added_rates", "wiola_controls_rates", "wiola_or_llama_rates"]
)
def test_what_pairing_gains_in_short_runs_is_what_the_runs_give(name: str) -> None:
    study, results = load(name)
    by_arm = [results.tuned(arm.name, "python-docs") for arm in study.arm]
    control = results.tuned(study.control, "python-docs")
    scores = [each for by_rate in by_arm for each in by_rate.values()]
    apart = [
        np.subtract(each, control[rate])
        for arm, by_rate in zip(study.arm, by_arm, strict=True)
        for rate, each in by_rate.items()
        if arm.name != study.control and rate in control
    ]
    of_pairs, independent = np.var(apart, axis=1, ddof=1).mean(), 2 * np.var(scores, axis=1, ddof=1).mean()
    record = read()["what-the-studies-cost"]
    (printed,) = record.values(f"paired differences in runs of 600 steps, and if they were independent: {name}")
    assert floats(printed) == pytest.approx([np.sqrt(of_pairs), np.sqrt(independent)], abs=5.1e-5)


def test_the_differences_that_passed_again_on_the_test_text_are_counted() -> None:
    passed, again, on_longer = Counter[tuple[str, str]](), 0, 0
    for path in sorted((FOLDER / "tables").iterdir()):
        study, results, name = of_table(path)
        for comparison, length in product(study.comparisons(), study.judged):
            if not all("test" in run for run in results.of(comparison, study.control).values()):
                continue
            tried = judged(study, results, comparison, length)
            opened = judged(study, results, comparison, length, "test")
            for arm, (compared, p) in tried.items():
                if p is None or p > 0.05:
                    continue
                other, p_again = opened[arm]
                low, high = other.both.interval()
                assert compared.both.mean * other.both.mean > 0
                assert p_again is not None
                assert p_again < 0.05 or low < compared.both.mean < high
                passed[name, f"{arm}, {comparison.corpus}"] += 1
                again += p_again < 0.05
                learned = results.of(comparison, arm).values()
                control = results.of(comparison, study.control).values()
                contexts = {run["settings"]["context"] for run in (*learned, *control)}
                on_longer += p_again < 0.05 and length == 256 and 64 in contexts
    record = read()["passed-again"]
    assert record.value("passed on the validation text") == passed.total()
    assert record.value("of these, arms that passed at another length too") == passed.total() - len(passed)
    assert record.value("passed again on the test text") == again
    assert record.value("passed again, of models that learned from 64 tokens, on 256") == on_longer


def length_of(study: Study) -> str:
    """Return the length of the runs that a study compares, and of those that choose a learning rate."""
    if study.seconds:
        return f"{study.seconds[0]:,} s"
    tokens = [*study.tokens, *([study.tuning.tokens] if study.tuning else [])]
    return " and ".join(f"{each / 1e6:.1f}" for each in tokens) + " million tokens"


def test_what_the_studies_cost_and_how_much_their_seeds_differ_is_what_the_tables_give() -> None:
    record, found, rates, total = read()["what-the-studies-cost"], {}, set(), 0.0
    for path in sorted((FOLDER / "tables").iterdir()):
        study, results, name = of_table(path)
        hours = sum(run["seconds"] for run in results.finished) / 3_600
        total += hours
        if not study.comparisons():  # it only chooses learning rates
            scores = [each for arm in study.arm for each in results.tuned(arm.name, study.corpora[0]).values()]
            spread = np.sqrt(np.mean(np.var(scores, axis=1, ddof=1)))
            assert record.values(name)[3:] == [f"{spread:.4f}", ""]
            assert record.values(name)[1] == length_of(study)
            assert (record.value(name, "runs"), record.values(name)[2]) == (len(results.finished), f"{hours:.2f}")
            rates.add(name)
        places = [(comparison, length) for comparison in study.comparisons() for length in study.judged]
        for comparison, length in places:
            several = (len(study.comparisons()) > 1, len(study.judged) > 1)
            row = name + f", {comparison.corpus}" * several[0] + f", {length}" * several[1]
            compared = compare(study, results, comparison, length, "documents")
            (said,) = (each for each in spreads(compared) if isinstance(each, str))
            found[row] = floats(said)[:2]
            printed = record.values(row)
            assert [float(each) for each in printed[-2:]] == found[row]
            assert printed[1] == length_of(study)
            if (comparison, length) == places[0]:
                assert (int(printed[0]), float(printed[2])) == (len(results.finished), round(hours, 2))
            else:
                assert printed[0] == printed[2] == ""
    assert found.keys() | rates == {row for row, cells in record.figures.items() if isinstance(cells, list)}
    assert record.value("all of them") == pytest.approx(total, abs=0.05)
    median = np.median([of_pairs / of_scores for of_scores, of_pairs in found.values()])
    assert record.value("of differences over that of scores, median") == pytest.approx(median, abs=0.006)


def test_seeds_differ_much_the_same_on_both_texts_and_little_the_same_in_both_runs_of_a_pair() -> None:
    pairs, texts = list[tuple[list[float], list[float]]](), list[tuple[list[float], list[float]]]()
    for path in sorted((FOLDER / "tables").iterdir()):
        study, results, _ = of_table(path)
        for comparison, arm in product(study.comparisons(), study.arm):
            control, runs = results.of(comparison, study.control), results.of(comparison, arm.name)
            both = [(runs[seed], control[seed]) for seed in sorted(runs.keys() & control.keys())]
            if arm.name == study.control or arm.leaks or len(both) < 2:
                continue
            length = study.judged[0]
            if all(run["order"] == other["order"] for run, other in both):
                pairs.append(([score(run, length) for run, _ in both], [score(other, length) for _, other in both]))
            if all("test" in run and "test" in other for run, other in both):
                on_validation, on_test = (
                    [score(run, length, part) - score(other, length, part) for run, other in both]
                    for part in ("documents", "test")
                )
                texts.append((on_validation, on_test))
    record = read()["what-the-studies-cost"]
    assert record.value("correlation of the two runs of a pair") == pytest.approx(correlation(pairs), abs=0.006)
    said = record.value("correlation of paired differences on the validation text and on the test text")
    assert said == pytest.approx(correlation(texts), abs=0.006)


def correlation(arms: list[tuple[list[float], list[float]]]) -> float:
    """Return the correlation within arms: each score is taken from the mean of its arm."""
    rows = np.concatenate([np.array(each) - np.mean(each, axis=1, keepdims=True) for each in arms], axis=1)
    return float(np.corrcoef(rows)[0, 1])
