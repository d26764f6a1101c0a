"""The tables of finished studies, and the differences that they give."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.evaluation.intervals import Difference, holm, over_seeds_and_documents
from benchmarks.evaluation.report import Compared, compare, paired
from benchmarks.evaluation.results import Results, read_table
from benchmarks.evaluation.study import Comparison, Study
from tests.source_files import ROOT

FOLDER = ROOT / "benchmarks" / "evaluation"


def load(name: str) -> tuple[Study, Results]:
    study = Study.read(FOLDER / "studies" / f"{name}.toml")
    return study, read_table(FOLDER / "tables" / f"{name}.json.gz", study)


def difference(arm: str, control: str, *names: str, part: str, corpus: int = 0) -> Difference:
    """Return how an arm differs from another one, over the pairs of all these studies."""
    bits = []
    for study, results in map(load, names):
        runs = [results.of(study.comparisons()[corpus], each) for each in (arm, control)]
        found, sizes = paired(runs[0], runs[1], study.judged[0], part)
        bits.append(found)
    return over_seeds_and_documents(np.concatenate(bits), sizes)


class Judged(NamedTuple):
    """An arm on sequences of one length; p is corrected for the number of arms, and None for the control."""

    compared: Compared
    p: float | None


def judged(
    study: Study, results: Results, comparison: Comparison, length: int, part: str = "documents"
) -> dict[str, Judged]:
    """Return the arms of a study by their names, on sequences of `length` tokens of the validation text or the test."""
    compared = compare(study, results, comparison, length, part)
    tested = [each for each in compared if each.arm.name != study.control and not each.arm.leaks]
    ps = holm([each.both.p_differs() for each in tested])
    corrected = {each.arm.name: p for each, p in zip(tested, ps, strict=True)}
    return {each.arm.name: Judged(each, corrected.get(each.arm.name)) for each in compared}


def shown(found: Difference) -> list[float]:
    return [found.mean, *found.interval(), found.p_differs()]


def floats(printed: str) -> list[float]:
    return [float(each) for each in re.findall(r"[+-]?\d+\.\d+", printed)]


def of_table(path: Path) -> tuple[Study, Results, str]:
    """Return the study of a table, or the round of a search, with its results and its name."""
    name = path.name.removesuffix(".json.gz")
    of_study, _, number = name.partition("-round-")
    study = Study.read(FOLDER / "studies" / f"{of_study}.toml")
    results = read_table(path, study)
    if number:
        study = study.in_round(int(number) - 1, {each["job"]["arm"] for each in results.finished})
    return study, results, name
