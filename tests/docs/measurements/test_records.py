"""The records of measurements are complete, and their numbers can be read."""

from __future__ import annotations

import re
import subprocess
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from benchmarks.evaluation.intervals import over_seeds
from docs.measurements.printed import numbers
from docs.measurements.records import Record, read
from minigrad.data.shares import length_as_one
from minigrad.training.planning import fitting, scaling
from tests.source_files import ROOT

RECORDS = read()
FIELDS = {
    "script": '"train.py"',
    "command": '"python train.py"',
    "machine": '"a laptop, 2 cores"',
    "openblas": '"Zen"',
    "variables": '"none"',
    "commit": '"dbba169"',
    "date": "2026-11-23",
    "runs": '"one run"',
    "columns": '["tokens/s", "peak MB"]',
    "figures": '{ nano = ["28,534", "376"], "in the end" = "1.37 bits per byte" }',
}


def git(*arguments: str, **options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False, **options)


def test_the_commits_of_the_records_are_in_the_history() -> None:
    if git("rev-parse", "--is-shallow-repository").stdout.strip() != "false":
        pytest.skip("this copy has no complete history")
    commits = sorted({record.commit.removeprefix("before ") for record in RECORDS.values()})
    found = git("cat-file", "--batch-check", input="\n".join(f"{each}^{{commit}}" for each in commits)).stdout
    assert [line for line in found.splitlines() if line.split(" ")[1] != "commit"] == []


def written(folder: Path, **changes: str | None) -> Path:
    fields = {name: value for name, value in {**FIELDS, **changes}.items() if value is not None}
    lines = [f"{name} = {value}" for name, value in fields.items()]
    (folder / "a.toml").write_text("\n".join(["[a-run]", *lines, ""]), encoding="utf-8")
    return folder


def test_a_record_is_read(tmp_path: Path) -> None:
    record = read(written(tmp_path))["a-run"]
    assert record.value("nano", "peak MB") == 376
    assert record.value("in the end") == 1.37
    assert record.entries() == ["nano | 28,534 | 376", "in the end | 1.37 bits per byte"]


@pytest.mark.parametrize("name", sorted(FIELDS.keys() - {"columns"}))
def test_a_record_that_lacks_a_field_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"a.toml: the measurement 'a-run' lacks {name}"):
        read(written(tmp_path, **{name: None}))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"machine": '""'}, "leaves machine empty"),
        ({"date": '"yesterday"'}, "the date 'yesterday'"),
        ({"processor": '"Zen 5"'}, "unknown fields: processor"),
        ({"columns": '["tokens/s"]'}, "'nano' has 2 values for 1 columns"),
        ({"figures": '{ nano = "fast" }'}, "'nano' has no number"),
    ],
)
def test_a_record_that_says_nothing_is_refused(changes: dict[str, str], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=words):
        read(written(tmp_path, **changes))


def test_no_two_records_have_a_name(tmp_path: Path) -> None:
    written(tmp_path)
    (tmp_path / "b.toml").write_bytes((tmp_path / "a.toml").read_bytes())
    with pytest.raises(ValueError, match="two measurements 'a-run'"):
        read(tmp_path)


def test_the_scripts_of_the_records_are_there() -> None:
    assert len(RECORDS) > 60
    assert not [record.name for record in RECORDS.values() if not (ROOT / record.script).is_file()]


def curves_of(record: Record) -> dict[str, list[scaling.Point]]:
    """Return the runs of a grid by model; a part of the text is that of `benchmarks/scaling.py`."""
    curves = defaultdict[str, list[scaling.Point]](list)
    for name in record.figures:
        if len(cells := record.values(name)) == len(record.columns):
            parameters, tokens = (int(each.replace(",", "")) for each in cells[:2])
            model = re.sub(r" \(\d+\)$", "", name)
            unique = {"4": QUARTER, "8": EIGHTH}.get(model.partition("text / ")[2], scaling.ALL)
            curves[model].append(scaling.Point(parameters, tokens, unique, float(cells[3])))
    return curves


QUARTER, EIGHTH = 444_334, 224_523  # the different tokens of parts of python-docs
EARLIER_CURVES = curves_of(RECORDS["scaling-law-of-smaller-heads"])
EARLIER_LAW = fitting.fit(point for curve in EARLIER_CURVES.values() for point in curve)


def test_runs_that_were_not_fitted_are_as_far_from_the_earlier_law_as_is_recorded() -> None:
    long, law = RECORDS["ten-minutes-in-larger-steps"], RECORDS["scaling-law-of-smaller-heads"]
    five, older = RECORDS["tokens-of-a-step"], RECORDS["ten-minutes-of-micro"]
    bits, row = "validation bits per byte", "five minutes, 16 x 256"
    micros = [(long.value("micro, seed 0; 9 min 56 s", name) for name in ("tokens", bits))]
    micros += [(older.value(name) for name in ("tokens", "validation"))]
    nanos = [(long.value(name, "tokens"), long.value(name, bits)) for name in long.figures if name.startswith("seed ")]
    nanos = [(five.value(row, "tokens"), five.value(row, bits)), *nanos]
    found = [
        bits_per_byte - EARLIER_LAW.loss(EARLIER_CURVES[size][0].parameters, tokens, scaling.ALL)
        for size, runs in (("micro", micros), ("nano", nanos))
        for tokens, bits_per_byte in runs
    ]
    rows = [law.values(name)[0] for name in law.figures if name.startswith("not fitted, above")]
    assert [float(each) for each in re.findall(r"-0[.]\d+", " ".join(rows))] == pytest.approx(found, abs=1.1e-3)


@pytest.mark.parametrize(
    ("name", "differences", "interval"),
    [
        ("growth", "better, grown", "95% interval over the seeds, and p"),
        ("a-student", "gain at equal tokens", "95% interval of the gain over the seeds, and p"),
        ("a-student", "loss at equal time", "95% interval of the loss over the seeds, and p"),
    ],
)
def test_intervals_over_three_seeds_are_those_of_the_recorded_differences(
    name: str, differences: str, interval: str
) -> None:
    mean, *each = (float(number.value) for number in numbers(RECORDS[name].values(differences)[0]))
    found = over_seeds(np.array(each)[:, None], np.ones(1))
    assert found.mean == pytest.approx(mean, abs=1e-3)
    printed = [float(number.value) for number in numbers(RECORDS[name].values(interval)[0]) if number.value != "95"]
    assert printed == pytest.approx([*found.interval(), found.p_differs()], abs=6e-4)


def test_the_earlier_law_expects_of_source_code_what_is_recorded() -> None:
    record, shares = RECORDS["source-by-passes"], RECORDS["source-by-share"]
    nano = EARLIER_CURVES["nano"][0].parameters
    parts, sources = (
        [float(each.value) for each in numbers(record.values(name)[0])]
        for name in record.figures
        if name.startswith("tokens of the")
    )
    rows = [record.figures[name] for name in record.figures if len(record.values(name)) == len(record.columns)]
    assert len(rows) == 8
    for read_in_all, passes, alone, by_law, mixed, mixed_by_law, difference in rows:
        tokens = {"4.1 million": 4_096_000, "7.2 million": 7_168_000, "12.3 million": 12_288_000}[read_in_all]
        (text,) = (each for each in parts if abs(tokens / each - float(passes)) < 0.1)
        source = sources[0] if text == max(parts) else sources[1]
        both = length_as_one([0.8, 0.2], [int(text), int(source)])
        assert float(by_law) == pytest.approx(EARLIER_LAW.loss(nano, tokens, text), abs=1.1e-3)
        assert float(mixed_by_law) == pytest.approx(EARLIER_LAW.loss(nano, tokens, both), abs=1.1e-3)
        assert float(difference) == pytest.approx(float(mixed) - float(alone), abs=1.1e-3)
    half, whole = ("half", 4_096_000, parts[1], sources[1]), ("all", 12_288_000, parts[0], sources[0])
    for part, tokens, text, source in (half, whole):
        (row,) = (name for name in shares.figures if name.startswith(part) and name.endswith("by the law"))
        for share, printed in zip((0.0, 0.1, 0.2, 0.4), shares.values(row), strict=True):
            both = length_as_one([1 - share, share], [int(text), int(source)])
            assert not printed or float(printed) == pytest.approx(EARLIER_LAW.loss(nano, tokens, both), abs=1.1e-3)


def test_the_recorded_laws_are_fitted_to_their_rows_and_the_newest_is_the_one_in_use() -> None:
    now = RECORDS["scaling-law"]
    rows = [point for curve in curves_of(now).values() for point in curve]
    for recorded, point in zip(rows, (point for curve in scaling.CURVES.values() for point in curve), strict=True):
        assert recorded[:3] == point[:3]
        assert recorded.bits_per_byte == pytest.approx(point.bits_per_byte, abs=6e-4)
    for record, law in ((now, scaling.LAW), (RECORDS["scaling-law-of-smaller-heads"], EARLIER_LAW)):
        (printed,) = record.values("E, A, alpha, B, beta, R of the law")
        assert [float(each.value) for each in numbers(printed)] == pytest.approx(list(law), rel=0.03)
    (spread,) = now.values("without one of the curves: alpha, beta, E, R")
    bounds = [
        each(getattr(law, name) for law in scaling.WITHOUT)
        for name in ("alpha", "beta", "entropy", "repeats")
        for each in (min, max)
    ]
    assert [float(each.value) for each in numbers(spread)] == pytest.approx(bounds, rel=0.02, abs=0.006)


def test_the_law_expects_of_later_runs_what_is_recorded() -> None:
    record, source = RECORDS["scaling-law-tested"], RECORDS["source-by-passes"]
    (code,) = source.values("tokens of the source code: beside all of the documentation, beside a part")
    both = length_as_one([0.8, 0.2], [scaling.ALL, int(numbers(code)[0].value)])
    for name in (name for name in record.figures if len(record.values(name)) == len(record.columns)):
        size, tokens, expected, bits = record.values(name)
        runs = RECORDS["an-hour-zen4-again" if name.startswith("micro") else "ten-minutes-with-source-zen4"]
        assert [tokens, bits] == runs.values(name)[:2]
        said = scaling.predict(scaling.CURVES[size][0].parameters, int(tokens.replace(",", "")), both)
        assert expected == f"{said.loss:.3f} ({said.low:.2f} to {said.high:.2f})"


def test_the_grid_with_two_heads_is_compared_as_its_figures_say() -> None:
    record = RECORDS["scaling-with-two-heads"]
    tokens = [int(name.replace(",", "")) for name in record.columns[1:]]
    runs = {}
    for name in record.figures:
        size, *scores = record.values(name)
        if len(scores) == len(tokens):
            pairs = zip(tokens, filter(None, scores), strict=False)
            runs[name] = [scaling.Point(int(size.replace(",", "")), n, scaling.ALL, float(score)) for n, score in pairs]
    del runs["width 64, 2 heads of 48"]
    lower = [
        before.bits_per_byte - now.bits_per_byte
        for name, run in runs.items()
        for before, now in zip(EARLIER_CURVES[name.split(",")[0]], run, strict=False)
    ]
    said = [record.values(name)[0] for name in record.figures if name.startswith(("lower than", "the same"))]
    assert [float(each) for each in re.findall(r"-?0[.]\d+", " ".join(said))] == pytest.approx(lower, abs=1.1e-3)
    points = [point for run in runs.values() for point in run]
    law = fitting.fit(points)
    error = record.value("residual standard error of a law fitted to these, without width 64 with heads of 48")
    assert error == pytest.approx(fitting.residual_error(law, points), abs=6e-4)
    above = [law.loss(*point[:3]) - point.bits_per_byte for point in runs["nano, 2 heads of 48"]]
    (span,) = record.values("this law, above nano")
    assert [float(each.value) for each in numbers(span)] == pytest.approx([min(above), max(above)], abs=1e-3)


def test_what_is_said_of_todays_ten_minutes_is_what_its_rows_give() -> None:
    now, before = RECORDS["ten-minutes-with-source-zen4"], RECORDS["ten-minutes-zen4-again"]

    def scores(record: Record, length: str, part: str) -> list[float]:
        rows = [name for name in record.figures if name.startswith(f"{length} minutes, seed")]
        return sorted(record.value(name, f"{part} bits per byte") for name in rows)

    for length in ("ten", "five"):
        ends = [scores(now, length, part) for part in ("validation", "test")]
        said = "; ".join(f"{middle:.3f} ({low:.3f} to {high:.3f})" for low, middle, high in ends)
        assert now.figures[f"validation; test after {length} minutes, three seeds"] == f"{said} bits per byte"

    below = [scores(before, each, "validation")[1] - scores(now, each, "validation")[1] for each in ("ten", "five")]
    said = now.figures["below the runs of the day before, middle of three: ten minutes, five"]
    assert said == f"{below[0]:.3f} and {below[1]:.3f} bits per byte"


def test_the_chapter_about_wiola_prints_what_its_record_says_of_each_part() -> None:
    record, parts = (
        RECORDS["wiola-without"],
        {
            "the spiral": "without the spiral (rotary)",
            "attention across layers": "without cross-layer attention",
            "its gate": "without the gate",
            "merging": "without merging",
            "the two streams": "without dual streams (SwiGLU)",
            "the offset": "without the offset (RMSNorm)",
        },
    )
    lines = (ROOT / "docs/course/wiola.md").read_text(encoding="utf-8").splitlines()
    for part, row in parts.items():
        cells = dict(zip(record.columns, record.values(row), strict=True))
        shown = [part, *(cells[name] for name in ("difference", "95% interval", "processor seconds"))]
        assert f"| {' | '.join(shown)} |" in lines
