"""The models that come with minigrad: their names, their files, and the scores in their cards."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from pretrained import PAGE, RECIPES, score

import generate
import models
import tokenizer
from docs.measurements.records import read as read_records
from minigrad import InputError
from minigrad.evaluate import __main__ as evaluation
from minigrad.formats.gguf import __main__ as gguf
from minigrad.formats.json_files import read_json
from minigrad.formats.safetensors import read_tensors, save_tensors
from minigrad.serving.settings import ServeConfig
from models.pretrained import FOLDER, find_run, find_runs, names
from tokenizer import TokenizerError
from tokenizer.cli import command_line
from train import main as train_main

NAMES = names()
FILES = {"config.json", "generation_config.json", "minigrad.json", "model.safetensors", "README.md"}
FILES |= {"tokenizer.json", "tokenizer_config.json"}


def printed(folder: Path) -> float:
    """Return the score that a card gives."""
    found = re.search(r"^Score on benchmarks/pretrained\.txt: ([\d.]+) bits", read(folder / "README.md"), re.MULTILINE)
    assert found is not None
    return float(found[1])


def read(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def test_they_are_small_and_hold_what_is_needed() -> None:
    assert "vidya-v2-nano" in NAMES
    assert set(NAMES) <= RECIPES.keys()
    assert sum(path.stat().st_size for path in FOLDER.rglob("*") if path.is_file()) <= 12e6
    for name in NAMES:
        assert {path.name for path in (FOLDER / name).iterdir()} == FILES
        assert f"    {RECIPES[name].command}\n" in read(FOLDER / name / "README.md")


@pytest.mark.parametrize("name", NAMES)
def test_the_score_in_a_card_is_that_of_the_files(name: str) -> None:
    assert score(FOLDER / name, data=PAGE) == pytest.approx(printed(FOLDER / name), abs=3e-4)


def test_the_measurements_of_these_models_are_those_of_their_runs() -> None:
    record = read_records()["models-that-come-along"]
    for row, name in (("nano, seed 0", "vidya-v2-nano"), ("micro, seed 1", "vidya-v2-micro")):
        result = read_json(FOLDER / name / "minigrad.json")["result"]
        losses = [result[key] for key in ("bits_per_byte", "test_bits_per_byte")]
        nats = [result[key] for key in ("loss_repeated", "loss_others")]
        shown = [f"{result['tokens']:,}", *(f"{each:.3f}" for each in losses), *(f"{each:.2f}" for each in nats)]
        assert record.values(row) == shown


def test_a_score_of_other_weights_is_noticed(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(FOLDER / "vidya-v2-nano", tmp_path / "other"))
    weights = dict(read_tensors(folder / "model.safetensors"))
    weights["model.norm.weight"] = np.asarray(weights["model.norm.weight"] * 0.97, np.float16)
    save_tensors(folder / "model.safetensors", weights)
    assert abs(score(folder, data=PAGE) - printed(FOLDER / "vidya-v2-nano")) > 1e-3


def test_a_name_stands_for_a_folder_unless_there_is_one_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(FOLDER.parents[1])
    assert find_run("vidya-v2-nano") == Path("models/pretrained/vidya-v2-nano")
    monkeypatch.chdir(tmp_path)
    assert find_run("vidya-v2-nano") == FOLDER / "vidya-v2-nano"
    assert find_run("runs/vidya-v2-nano") == Path("runs/vidya-v2-nano")
    asked = ServeConfig(runs=("vidya-v2-nano", "runs/a"))
    assert find_runs(asked).runs == (str(FOLDER / "vidya-v2-nano"), str(Path("runs/a")))
    assert capsys.readouterr().err == ""
    (tmp_path / "vidya-v2-nano").mkdir()
    assert find_runs(asked).runs[0] == "vidya-v2-nano"
    said = "[vidya-v2-nano is the folder here, not the model of that name that comes with minigrad]\n"
    assert capsys.readouterr().err == said
    with pytest.raises(TokenizerError, match=r"cannot read vidya-v2-nano.tokenizer\.json"):
        tokenizer.load("vidya-v2-nano")


def test_an_unknown_name_is_answered_with_the_names_that_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = f"nor a model that comes with minigrad \\({', '.join(NAMES)}\\)"
    with pytest.raises(InputError, match=f"^vidya-v2-nona is not a run folder, {known}; did you mean vidya-v2-nano"):
        models.load("vidya-v2-nona")
    with pytest.raises(TokenizerError, match=f"^vidya-v2-nona is not a file or folder, {known}"):
        tokenizer.load("vidya-v2-nona")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=f"^mine is not a run folder, {known}; did you mean {Path('runs/mine')}\\?$"):
        find_run("mine")
    assert generate.main(["nowhere"]) == 2
    assert re.search(f"^generate.py: nowhere is not a run folder, {known}$", capsys.readouterr().err, re.MULTILINE)


def test_every_program_takes_a_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert generate.main(["vidya-v2-nano", "--prompt", "The list type", "--tokens", "3"]) == 0
    assert capsys.readouterr().out.startswith("The list type")
    assert evaluation.main(["vidya-v2-nano", "--data", str(PAGE)]) == 0
    assert f"975,072 parameters, in {FOLDER / 'vidya-v2-nano'}" in " ".join(capsys.readouterr().out.split())
    assert gguf.main(["vidya-v2-nano", "--out", "a.gguf"]) == 2  # its keys are shifted
    assert f"{FOLDER / 'vidya-v2-nano' / 'config.json'} is of model_type" in capsys.readouterr().err
    assert command_line.main(["encode", "vidya-v2-nano", str(PAGE)]) == 0
    assert generate.main(["vidya-v2-nano", "--page", "model.html"]) == 0
    assert "<title>vidya-v2-nano</title>" in read(tmp_path / "model.html")
    (tmp_path / "words.txt").write_text("to be or not to be\n\n" * 200, encoding="utf-8")
    capsys.readouterr()
    words = "--init vidya-v2-nano --data words.txt --steps 1 --batch 1 --context 16 --threads 1 --plan"
    assert train_main(words.split()) == 0
    assert "vidya-v2 nano: 975,072 parameters" in capsys.readouterr().out


@pytest.mark.parametrize("name", NAMES)
def test_other_programs_end_a_text_where_a_taught_model_does(name: str) -> None:
    ends = read_json(FOLDER / name / "generation_config.json")["eos_token_id"]
    specials = tokenizer.load(name).specials
    answers = [specials["<|end|>"]] if "--objective" in RECIPES[name].flags else []
    assert ends == ([specials["<|endoftext|>"], *answers] if answers else specials["<|endoftext|>"])


def test_a_model_and_its_tokenizer_are_loaded_by_name() -> None:
    model, tok = models.load("vidya-v2-nano"), tokenizer.load("vidya-v2-nano")
    assert model.num_parameters() == 975_072
    assert model.head().dtype == np.float32  # so that --init can train on
    assert tok.decode(tok.encode("The list type")) == "The list type"
    assert tokenizer.load_chat("vidya-v2-nano", tok).encode([{"role": "user", "content": "Hi"}])
