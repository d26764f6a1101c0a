"""`train.py --tokenizer`: which token ends a document, whatever its name is, and tokenizers of another kind."""

from __future__ import annotations

import dataclasses
import json

import pytest

import generate
import models
import tokenizer
from minigrad.formats.json_files import read_json, write_json
from tests.small_runs import flags, refusal, run, settings
from train import train

WIOLA = ["<pad>", "<bos>", "<eos>", "<unk>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>"]
SHAPE = "width=16,num_heads=4,num_kv_heads=1,dsff_narrow=8,dsff_wide=16"


@pytest.fixture
def trained(text, tmp_path):
    """Return a function that trains a tokenizer with some special tokens and saves it."""

    def trained(*specials, **config):
        folder = tmp_path / "tokenizer"
        tokenizer.train([text.read_text(encoding="utf-8")], 300, special_tokens=specials).save(folder)
        path = folder / "tokenizer_config.json"
        write_json(path, read_json(path) | config)
        return str(folder)

    return trained


def plan_of(text, tmp_path, capsys, **changes):
    """Return what ``train.py --plan`` prints."""
    assert train(settings(text, tmp_path / "run", plan=True, **changes)) is None
    return " ".join(capsys.readouterr().out.split())


def test_wiola_is_trained_with_its_eight_special_tokens(text, tmp_path, trained, capsys):
    path = trained(*WIOLA)
    changes = {"model": "wiola", "tokenizer": path, "vocab": None, "set": SHAPE, "steps": 2}
    assert "<eos> ends a document" in plan_of(text, tmp_path, capsys, **changes)
    folder = run(text, tmp_path / "run", **changes).out
    capsys.readouterr()
    for file in ("config.json", "generation_config.json"):
        ids = read_json(folder / file)
        assert [ids[f"{role}_token_id"] for role in ("pad", "bos", "eos")] == [0, 2, 2]  # nothing begins with <bos>
    tok = tokenizer.load(folder)
    assert tok.specials == {name: number for number, name in enumerate(WIOLA)}
    asked = [{"role": "user", "content": "to be?"}]
    ids = tokenizer.load_chat(folder, tok).encode(asked)
    assert tok.decode(ids) == "<|user|>to be?<|end|><|assistant|>"
    assert generate.main([str(folder), "--prompt", "to be", "--tokens", "3"]) == 0
    assert capsys.readouterr().out.startswith("to be")


def test_other_programs_begin_a_text_with_the_token_that_begins_the_documents_of_a_run(text, tmp_path, trained):
    path = trained("<s>", "</s>")
    tok = tokenizer.load(path)
    tokenizer.Tokenizer(dataclasses.replace(tok.vocabulary, before=("<s>",))).save(path)
    folder = run(text, tmp_path / "run", tokenizer=path, vocab=None, steps=1).out
    models.load(folder).save(tmp_path / "again")
    for place in (folder, tmp_path / "again"):
        for file in ("config.json", "generation_config.json"):
            ids = read_json(place / file)
            assert (ids["bos_token_id"], ids["eos_token_id"]) == (0, 1)


def test_a_tokenizer_may_name_the_token_that_ends_a_document(text, tmp_path, trained, capsys):
    path = trained("<a>", "<stop>", eos_token="<stop>")
    assert "<stop> ends a document" in plan_of(text, tmp_path, capsys, tokenizer=path, vocab=None, steps=2)
    folder = run(text, tmp_path / "run", tokenizer=path, vocab=None, steps=2).out
    assert read_json(folder / "config.json")["eos_token_id"] == 1
    assert read_json(folder / "tokenizer_config.json")["eos_token"] == "<stop>"


def test_a_tokenizer_without_such_a_token_is_refused_in_a_sentence(text, tmp_path, trained, capsys):
    wanted = settings(text, tmp_path / "run", tokenizer=trained("<a>", "<b>"), vocab=None)
    error = refusal(capsys, *flags(wanted))
    assert error.startswith("this tokenizer has no token '<|endoftext|>' to put between documents; its special tokens")
    assert "Name one of them as eos_token in its tokenizer_config.json" in error


def test_the_tokenizer_of_a_model_that_comes_with_minigrad_goes_by_its_name(text, tmp_path):
    folder = run(text, tmp_path / "run", tokenizer="vidya-v2-nano", vocab=None, steps=1).out
    assert tokenizer.load(folder).fingerprint() == tokenizer.load("vidya-v2-nano").fingerprint()


def test_the_tokenizer_of_vidya_v1_is_trained_kept_and_used(text, tmp_path, capsys):
    changes = {"model": "vidya-v1", "tokenizer": "vidya-v1", "steps": 2, "set": "num_layers=1,width=16"}
    assert "<BOS> ends a document" in plan_of(text, tmp_path, capsys, **changes)
    result = run(text, tmp_path / "run", **changes)
    capsys.readouterr()
    assert "--tokenizer vidya-v1 --vocab 300" in result.command
    tok = tokenizer.load(result.out)
    assert set(tok.specials) == {"<BOS>", "<|user|>", "<|assistant|>"}
    assert tok.vocabulary.split == "none"  # merges cross spaces
    assert json.loads((result.out / "config.json").read_text(encoding="utf-8"))["vocab_size"] == tok.vocab_size == 300
    assert generate.main([str(result.out), "--prompt", "to be", "--tokens", "3"]) == 0
    assert capsys.readouterr().out.startswith("to be")
    again = run(text, tmp_path / "again", **changes)
    assert tokenizer.load(again.out).fingerprint() == tok.fingerprint()
