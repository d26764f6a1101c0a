"""The command line: a run becomes one file, and every mistake gets one clear paragraph."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import tokenizer
from minigrad.formats.gguf.__main__ import main
from minigrad.formats.gguf.network import read_network
from minigrad.formats.gguf.vocabulary import describe_vocabulary
from tests.formats.gguf import reader
from tests.models import tiny

LLAMA = {"width": 32, "head_dim": 8, "feed_forward": 48, "vocab_size": 272, "key_shift": False, "value_residual": False}
tok = tokenizer.train(["to be or not to be"] * 3, vocab_size=270)


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    tiny.build("vidya-v2", **LLAMA).save(folder)
    tok.save(folder)
    return folder


def refusal(capsys, *arguments, code=2):
    found = main([str(each) for each in arguments])
    output = capsys.readouterr()
    assert (found, output.out) == (code, "")
    assert re.fullmatch(r"python -m minigrad\.formats\.gguf: .+\n", output.err)
    return output.err


@pytest.mark.parametrize(("kind", "code"), [("f32", 0), ("f16", 1), ("q8_0", 7)])
def test_a_run_becomes_a_file(run, kind, code, capsys):
    assert main([str(run), "--type", kind]) == 0
    path = run / f"model-{kind}.gguf"
    assert str(path) in capsys.readouterr().out
    content, network = reader.read(path), read_network(run)
    expected = network.metadata | describe_vocabulary(tokenizer.load(run).vocabulary, 272)
    for key, value in expected.items():
        close = isinstance(value, float)
        assert np.isclose(content.metadata[key], value) if close else content.metadata[key] == value
    assert content.metadata["general.file_type"] == code
    assert content.arrays.keys() == network.arrays.keys()
    for name, array in network.arrays.items():
        error = {0: 0.0, 1: 2.0**-11, 8: 0.51 / 127}[content.storages[name]]
        assert np.abs(content.arrays[name] - array).max() <= error * np.abs(array).max()
    # 48 is no multiple of 32
    assert content.storages["blk.0.ffn_down.weight"] == {"f32": 0, "f16": 1, "q8_0": 1}[kind]
    assert content.storages["blk.0.attn_q.weight"] == {"f32": 0, "f16": 1, "q8_0": 8}[kind]
    assert sorted(each.name for each in run.iterdir() if each.suffix in (".gguf", ".tmp")) == [path.name]


def test_half_precision_is_the_default_and_out_names_the_file(run, tmp_path):
    assert main([str(run), "--out", str(tmp_path / "mine.gguf")]) == 0
    assert reader.read(tmp_path / "mine.gguf").metadata["general.file_type"] == 1


@pytest.mark.parametrize("place", ["ours", "text", "list", "file", "none"])
def test_the_chat_template_is_taken_from_each_place_that_has_one(run, place):
    path = run / "tokenizer_config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    several = [{"name": "tools", "template": "x"}, {"name": "default", "template": "{{ messages }}"}]
    config["chat_template"] = {"ours": config["chat_template"], "text": "{{ messages }}", "list": several}.get(place)
    path.write_text(json.dumps(config), encoding="utf-8")
    if place == "file":
        (run / "chat_template.jinja").write_text("{{ messages }}", encoding="utf-8")
    assert main([str(run)]) == 0
    found = reader.read(run / "model-f16.gguf").metadata.get("tokenizer.chat_template")
    assert found == {"ours": config["chat_template"], "none": None}.get(place, "{{ messages }}")


def test_a_tokenizer_that_cannot_be_loaded_cannot_be_written(run, capsys):
    path = run / "tokenizer.json"
    path.write_text(path.read_text(encoding="utf-8").replace('"Ā"', r'"\ud800"'), encoding="utf-8")
    assert "tokenizer.json: byte 0x00 has no token" in refusal(capsys, run)


def test_an_existing_file_is_not_overwritten(run, capsys):
    path = run / "model-f16.gguf"
    path.write_text("mine", encoding="utf-8")
    assert "exists and is not overwritten; delete it, or name another file" in refusal(capsys, run)
    assert path.read_text(encoding="utf-8") == "mine"


def test_a_fault_leaves_no_file(run, capsys):
    tiny.build("vidya-v2", init_std=1e6, **LLAMA).save(run)
    assert "try --type f32" in refusal(capsys, run)
    assert not list(run.glob("*.gguf"))
    assert not list(run.glob(".*"))


def test_mistakes_are_explained(run, tmp_path, capsys):
    assert "--type takes one of f32, f16, q8_0, not 'q8'" in refusal(capsys, run, "--type", "q8")
    assert "is not a run folder" in refusal(capsys, tmp_path)
    assert "there is no folder" in refusal(capsys, tmp_path / "nothing")
    assert "there is no folder" in refusal(capsys, run, "--out", tmp_path / "a" / "b.gguf")
    assert "unknown flag --output; did you mean --out?" in refusal(capsys, run, "--output", "x")
    assert "RUN is missing" in refusal(capsys)
    tiny.build("wiola").save(tmp_path / "wiola")
    assert "model_type 'wiola', which llama.cpp cannot run" in refusal(capsys, tmp_path / "wiola")
