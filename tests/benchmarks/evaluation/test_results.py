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
    _, arm = compare(study, results, comparison, study.judged[0], "documents")
    record, (low, high) = read()[name.replace("_", "-")], arm.both.interval()
    assert record.value("difference") == pytest.approx(arm.both.mean, abs=5e-4)
    found = [record.value("95% interval, seeds and documents", number=number) for number in (0, 1)]
    assert found == pytest.approx([low, high], abs=1e-3)
