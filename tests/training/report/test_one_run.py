"""The report: one page that refers to no other file and holds the figures of the run."""

from __future__ import annotations

import json
import math

import pytest

from minigrad.training.folder import metrics
from minigrad.training.folder.checkpoint import Sample
from minigrad.training.folder.metrics import Measurement, Metrics
from minigrad.training.folder.record import Record
from minigrad.training.report.one_run import write_report
from tests.training.report.page_reader import PageReader

FIGURES = {"bits_per_byte": 1.71, "xz_bits_per_byte": 1.80, "no_xz": "", "ngram_bits_per_byte": None}

EVALUATED = {"val_loss": 4.0, "val_bits_per_byte": 1.9, "val_loss_repeated": 2.5, "val_loss_others": 4.5}


@pytest.fixture
def run(tmp_path):
    log = Metrics(tmp_path)
    for step in range(10, 410, 10):
        validation = EVALUATED if step % 100 == 0 else {}
        log.append(
            Measurement(
                step=step,
                tokens=step * 1000,
                loss=5 - step / 200,
                bits_per_byte=3 - step / 400,
                learning_rate=1e-3,
                gradient_norm=1.0,
                seconds=step / 2,
                tokens_per_second=27000.0 + step,
                memory_bytes=380_000_000,
                **validation,
            )
        )
    return tmp_path


def write(run, figures=None, settings=None, **changes) -> str:
    result = FIGURES | {"command": 'python train.py --data "a & b"'} | (figures or {})
    samples = [
        Sample(200, "The list <b>type</b> & more"),
        Sample(400, "said\x1b[31m 🙂 \ud800"),
    ]
    settings = settings or {"seed": 0, "out": "<runs>"}
    given = {
        "samples": samples,
        "record": Record("vidya-v2", "nano", "python-docs", parameters=984288, settings=settings, result=result),
    }
    path = write_report(run, seconds=200.0, memory=380_000_000, **given | changes)
    assert path == run / "report.html"
    return path.read_text(encoding="utf-8")


def test_the_page_names_the_model_and_its_result(run):
    text = PageReader(write(run)).text
    for expected in (
        "vidya-v2 nano",
        "984,288 parameters, trained on python-docs",
        "Validation: 1.71 bits per byte (lower is better; xz -9e: 1.80).",
        "400,000",  # tokens
        "3m 20s",
        "27,205",  # the median of the tokens per second
        "380.0 MB",
        'python train.py --data "a & b"',
        "seed0",
    ):
        assert expected in text


def test_the_context_has_a_picture_if_it_adapts(run):
    assert "<figcaption>Context</figcaption>" not in write(run)
    Metrics(run).append(Measurement(*[1] * 9, extra={"context": 64, "decisions": [{"context": 64, "before": 32}]}))
    assert "<figcaption>Context</figcaption>" in write(run)
    assert "Decisions" not in write(run)


def test_the_baselines_are_lines_beside_the_loss(run):
    text = PageReader(write(run, {"ngram_bits_per_byte": 2.346})).text
    assert "xz 1.80" in text
    assert "6-gram of bytes 2.35" in text
    assert "-gram" not in PageReader(write(run)).text


def test_what_only_a_family_measures_has_a_picture(run):
    assert "Merge ratio" not in write(run)
    Metrics(run).append(Measurement(*[1] * 9, extra={"merge_ratio": [0.25, 0.5]}))
    assert "<figcaption>Merge ratio</figcaption>" in write(run)


def test_the_page_refers_to_no_other_file(run):
    page = write(run)
    reader = PageReader(page)
    assert "http" not in page
    assert "@import" not in page
    assert not {"script", "link", "img", "iframe", "object"} & set(reader.elements)
    assert not reader.links
    assert reader.elements.count("svg") == 6


def test_copying_from_the_context_is_a_curve_that_is_explained(run, tmp_path):
    text = PageReader(write(run)).text
    assert "Copying from the context, nats per token" in text
    assert "repeated pairs" in text
    assert "The curve falls when it learns to." in text
    lines = [{name: value for name, value in each.items() if "loss_" not in name} for each in metrics.read(run)]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    assert "Copying" not in PageReader(write(tmp_path)).text  # a run of before it was measured


def test_generated_text_is_escaped(run):
    reader = PageReader(write(run))
    assert "b" not in reader.elements
    assert "The list <b>type</b> & more" in reader.text
    assert "<runs>" in reader.text
    assert "said\ufffd[31m 🙂 \ufffd" in reader.text


def test_the_pictures_follow_the_colours_of_the_page(run):
    page = write(run)
    assert "currentColor" in page
    assert "#ffffff" not in page


def test_the_same_run_gives_the_same_page(run):
    assert write(run) == write(run)


def test_names_inside_the_pictures_are_not_shared(run):
    names = PageReader(write(run)).names
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("ours", "xz", "expected"),
    [
        (1.71, 1.80, "Validation: 1.71 bits per byte (lower is better; xz -9e: 1.80)."),
        (math.nan, 1.80, "Validation: nan bits per byte (lower is better; xz -9e: 1.80)."),
        (1.71, None, "Validation: 1.71 bits per byte (lower is better; no figure of xz: the reason)."),
    ],
)
def test_the_headline_compares_the_figures(run, ours, xz, expected):
    figures = {"bits_per_byte": ours, "xz_bits_per_byte": xz, "no_xz": "the reason"}
    assert expected in PageReader(write(run, figures)).text


def test_a_score_on_text_that_may_have_been_trained_on_has_a_warning(run):
    assert "better; xz -9e: 1.80). Caution: it was read." in PageReader(write(run, {"caution": "it was read"})).text
    assert "Caution" not in PageReader(write(run)).text


def test_a_run_without_a_logged_step_has_a_report(tmp_path):
    reader = PageReader(write(tmp_path, samples=[]))
    assert "No step was logged." in reader.text
    assert "What it wrote" not in reader.text


def test_a_diverged_run_has_a_report(tmp_path):
    fields = (
        "loss",
        "bits_per_byte",
        "learning_rate",
        "gradient_norm",
        "tokens_per_second",
        "val_bits_per_byte",
    )
    log = Metrics(tmp_path)
    for step in (1, 2):
        log.append(Measurement(step=step, tokens=1, seconds=1.0, memory_bytes=1, **dict.fromkeys(fields, math.nan)))
    assert PageReader(write(tmp_path)).elements.count("svg") == 5


def test_settings_that_were_not_given_are_left_out(run):
    page = write(run, settings={"seed": 0, "init": None})
    assert "<th>seed<td>0" in page
    assert "<th>init" not in page
