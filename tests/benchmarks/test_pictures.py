"""The pictures of the README: they stand by themselves, are small, and hold what the run wrote."""

from __future__ import annotations

import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks import moving_picture, pictures
from minigrad.generation.continuation import Token
from minigrad.training.folder import checkpoint, metrics
from minigrad.training.folder.checkpoint import Sample, State
from tests import small_runs

SVG = "{http://www.w3.org/2000/svg}"


def text_of(picture: str) -> str:
    return " ".join("".join(each.itertext()) for each in ElementTree.fromstring(picture).iter(f"{SVG}text"))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pictures")
    with small_runs.quick_runs():
        return small_runs.run(small_runs.write_text(folder / "text.txt"), folder / "run", sample_every=5).out


def test_a_run_folder_becomes_three_pictures(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["pictures.py", str(run), "--out", str(tmp_path / "out")])
    pictures.main()
    drawn = {path.stem: path.read_text(encoding="utf-8") for path in (tmp_path / "out").iterdir()}
    assert set(drawn) == {"loss", "sample", "graph"}
    for picture in drawn.values():
        assert ElementTree.fromstring(picture).tag == f"{SVG}svg"
        assert len(picture.encode()) < 100_000
        assert "prefers-color-scheme: dark" in picture
    assert "30 steps, seed 3" in text_of(drawn["loss"])
    assert "6-gram of bytes" in text_of(drawn["loss"])
    assert "xz: " in text_of(drawn["loss"])
    assert "after 5 steps" in text_of(drawn["sample"])
    assert "after 30 steps" in text_of(drawn["sample"])
    assert "gradient" in text_of(drawn["graph"])
    assert "loss.svg" in capsys.readouterr().out


def test_the_same_run_gives_the_same_pictures(run: Path) -> None:
    records, samples = metrics.read(run), State.read(checkpoint.load(run), run).samples
    assert pictures.loss_picture(records, [("xz", 2.0)], "a") == pictures.loss_picture(records, [("xz", 2.0)], "a")
    shown = pictures.chosen(samples)
    assert pictures.sample_picture(shown, "a") == pictures.sample_picture(shown, "a")


def test_samples_are_chosen_by_equal_ratios_of_their_steps() -> None:
    samples = [Sample(step, "") for step in range(50, 4001, 50)]
    assert [each.step for each in pictures.chosen(samples)] == [50, 200, 950, 4000]
    assert [each.step for each in pictures.chosen(samples[:1])] == [50] * 4
    assert [each.step for each in pictures.chosen(samples[::26])] == [50, 1350, 2650, 3950]


def test_the_prompt_is_shown_once_and_generated_text_cannot_break_the_picture() -> None:
    samples = [Sample(1, "The list\n<svg> \x1b & \ud800"), Sample(2, "The list\nis " + 30 * "long ")]
    shown = text_of(pictures.sample_picture([samples[0], *[samples[1]] * 3], "caption"))
    assert shown.count("The list") == 1
    assert "<svg> \ufffd & \ufffd" in shown
    assert "long" in shown


def test_no_line_of_a_sample_is_wider_than_the_picture() -> None:
    lines = pictures.wrapped("x" * 200 + "\n\n" + 100 * "word ")
    assert len(lines) > max(pictures.LINES)
    assert max(map(len, lines)) <= pictures.COLUMNS
    assert pictures.COLUMNS * 8.5 + 2 * pictures.MARGIN < pictures.WIDTH  # 8.5: of the widest usual font at 14 pixels


def test_tokens_appear_one_after_the_other_coloured_by_their_surprise() -> None:
    picture = moving_picture.moving_picture("write", "a <b", [token(" is", 0.5), token("\n", 9), token("new", 4)])
    assert text_of(picture) == "A small model writes $ write a <b is new"
    assert [each.get("class") for each in ElementTree.fromstring(picture).iter(f"{SVG}tspan")] == [
        "bits0",
        "bits0",
        "bits2",
    ]
    assert "animation-delay:0.18s" in picture
    assert "prefers-reduced-motion" in picture


def token(text: str, bits: float) -> Token:
    """Return a generated token with this text and surprise."""
    found = Token(0)
    found.text, found.log_probability = text, -bits * 0.6931471805599453
    return found
