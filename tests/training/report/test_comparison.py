"""Runs on one page: what differs is shown, what is the same is not, and each run keeps its line."""

from __future__ import annotations

import dataclasses
import re

import pytest

from minigrad.errors import InputError
from minigrad.pages.chart import COLOURS
from minigrad.training.folder.metrics import Measurement, Metrics
from minigrad.training.folder.record import Record
from minigrad.training.report.comparison import comparison, read_runs
from tests.training.report.page_reader import PageReader


def write_run(folder, *, evaluated=True, result=None, **settings):
    folder.mkdir(parents=True)
    log = Metrics(folder)
    for step in (1, 100, 200):
        validation = {"val_loss": 4.0, "val_bits_per_byte": 2 - step / 400} if evaluated else {}
        fixed = {"learning_rate": 1e-3, "gradient_norm": 1.0, "tokens_per_second": 9_000.0, "memory_bytes": 10**8}
        figures = {"loss": 5.0, "bits_per_byte": 3.0, "seconds": step * 2.0}
        log.append(Measurement(step=step, tokens=step * 50_000, **figures, **fixed, **validation))
    used = {"seed": 0, "lr": 0.004, "documents": "packed", "optimizer": "adamw"} | settings
    facts = {"parameters": 984_288, "hardware": "a laptop", "validation_text": "ab"}
    Record(settings=used, result=result or {}, **facts).write(folder)
    return str(folder)


@pytest.fixture
def page(tmp_path):
    first = write_run(tmp_path / "first", result={"steps": 200, "bits_per_byte": 1.4567, "xz_bits_per_byte": 1.8})
    second = write_run(tmp_path / "second", evaluated=False, lr=0.008, tokenizer="a <b>.json")
    return comparison(read_runs([first, second]))


def rows(page):
    """Return the cells of each row of the tables."""
    found = re.findall(r"<tr>(.*?)(?=<tr>|</table>)", page, re.DOTALL)
    return [re.sub(r"<[^>]+>", "|", row).strip("|").split("|") for row in found]


def test_the_tables_hold_the_results_and_only_the_settings_that_differ(page):
    cells = {row[0]: row[1:] for row in rows(page)}
    assert cells["validation, bits per byte"] == ["1.457", "not measured"]
    assert cells["tokens"] == ["10,000,000", "10,000,000"]
    assert cells["lr"] == ["0.004", "0.008"]
    assert cells["tokenizer"] == ["none", "a &lt;b&gt;.json"]
    assert "seed" not in cells
    assert "A run that has not ended shows its last evaluation" in page
    assert "do not compare" not in page


def test_curves_are_over_tokens_and_over_time_and_are_described(page):
    reader = PageReader(page)
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    assert captions[:4] == [
        f"{loss} loss, bits per byte, over {axis}" for loss in ("Validation", "Training") for axis in ("tokens", "time")
    ]
    assert (
        "Validation loss, bits per byte, over tokens. first: 1.998 at 0.05 million tokens, 1.5 at 10 million tokens. "
        "second: no values."
    ) in reader.descriptions
    assert not reader.links
    assert "http" not in page


def test_a_run_keeps_its_colour_where_another_has_no_values(page):
    chart = re.search(r"Learning rate, over tokens</figcaption>(.*?)</figure>", page, re.DOTALL)
    assert chart is not None
    assert [colour in chart[1] for colour in COLOURS[:3]] == [True, True, False]
    validation = re.search(r"Validation loss.*?</figcaption>(.*?)</figure>", page, re.DOTALL)
    assert validation is not None
    assert [colour in validation[1] for colour in COLOURS[:2]] == [True, False]


def test_what_does_not_compare_is_said(tmp_path):
    folders = [write_run(tmp_path / name) for name in "ab"]
    other = dataclasses.replace(Record.read(tmp_path / "b"), validation_text="cd", hardware="a server")
    other.write(tmp_path / "b")
    page = comparison(read_runs(folders))
    assert "On different texts the figures do not compare." in page
    assert "their times do not compare" in page


def test_a_run_that_was_extended_shows_no_earlier_end(tmp_path):
    folders = [write_run(tmp_path / name, result={"steps": steps, "bits_per_byte": 1.9}) for name, steps in ENDS]
    cells = {row[0]: row[1:] for row in rows(comparison(read_runs(folders)))}
    assert cells["validation, bits per byte"] == ["1.500", "1.900"]


ENDS = (("extended", 100), ("ended", 200))


def test_equal_runs_have_no_settings_that_differ(tmp_path):
    page = comparison(read_runs([write_run(tmp_path / name) for name in "ab"]))
    assert "None: the runs were started with the same settings on the same machine." in page


def test_models_of_different_shapes_differ_although_their_settings_are_equal(tmp_path):
    folders = [write_run(tmp_path / name) for name in "ab"]
    for name, is_added in (("a", True), ("b", False)):
        shape = {"value_residual": is_added}
        dataclasses.replace(Record.read(tmp_path / name), architecture=shape).write(tmp_path / name)
        # One run alone may be of a version that did not note its shape, which is no difference.
        assert ("config value residual" in comparison(read_runs(folders))) == (name == "b")


def test_what_cannot_be_compared_is_refused(tmp_path):
    folder = write_run(tmp_path / "a")
    for folders, message in {
        (folder,): "a comparison needs two runs or more",
        (folder, folder): "a run is given twice",
        tuple(f"{folder}{number}" for number in range(9)): "9 runs are too many to tell apart; give at most 8",
        (folder, str(tmp_path)): "is not a run folder of train.py",
    }.items():
        with pytest.raises(InputError, match=message):
            read_runs(folders)
    empty = tmp_path / "empty"
    empty.mkdir()
    Record().write(empty)
    with pytest.raises(InputError, match="has no line in metrics"):
        read_runs([folder, str(empty)])
