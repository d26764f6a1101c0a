"""The tables of finished studies that are kept say what the pages print."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.evaluation.report import compare
from benchmarks.evaluation.results import read_table
from benchmarks.evaluation.study import Study
from docs.measurements.records import read
from tests.source_files import ROOT

FOLDER = ROOT / "benchmarks" / "evaluation"


@pytest.mark.parametrize("table", sorted((FOLDER / "tables").iterdir()), ids=lambda table: table.name)
def test_the_record_of_a_study_is_what_its_table_gives(table: Path) -> None:
    name = table.name.removesuffix(".json.gz")
    study = Study.read(FOLDER / "studies" / f"{name}.toml")
    results = read_table(table, study)
    assert len(results.finished) == study.count()
    (comparison,) = study.comparisons()
    record = read()[name.replace("_", "-")]
    control, *others = compare(study, results, comparison, study.judged[0], "documents")
    for each in (control, *others):
        assert record.value(each.arm.name, "parameters") == each.parameters
        mean = sum(each.scores) / len(each.scores)
        assert record.value(each.arm.name, "bits per byte") == pytest.approx(mean, abs=5e-4)
    for each in others:
        assert record.value(each.arm.name, "difference") == pytest.approx(each.both.mean, abs=5e-4)
        found = [record.value(each.arm.name, "95% interval", number) for number in (0, 1)]
        assert found == pytest.approx(each.both.interval(), abs=1e-3)
