"""python -m minigrad.evaluate: the figures of a run, and one clear paragraph for every mistake."""

from __future__ import annotations

import dataclasses
import json
import math
import re
import shutil
from unittest.mock import Mock

import numpy as np
import pytest

import models
import tokenizer
from minigrad.data import corpus
from minigrad.data.tokens import reading
from minigrad.data.tokens.token_files import prepare
from minigrad.data.tokens.tokenized import token_byte_lengths
from minigrad.evaluate.__main__ import main
from minigrad.evaluate.losses import evaluate, evaluation_batches, predictions
from minigrad.generation.decoding import document
from minigrad.kernels.gemm import backend
from tests.models import tiny
from tests.small_runs import quick_runs, record, run, write_text


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    return write_text(tmp_path_factory.mktemp("text") / "words.txt", lines=600)


@pytest.fixture(scope="module")
def finished(text, tmp_path_factory):
    with quick_runs():
        return run(text, tmp_path_factory.mktemp("evaluate") / "run", steps=4, precision="float32").out


@pytest.fixture
def evaluated(capsys):
    def evaluated(*arguments, code=0):
        capsys.readouterr()
        found = main([str(word) for word in (*arguments, "--threads", 1)])
        output = capsys.readouterr()
        assert found == code, output.err
        if not code:
            return json.loads(output.out) if "--json" in arguments else output.out
        assert output.out == ""
        complaint = output.err.splitlines()[-1]
        assert re.fullmatch(r"(python -m minigrad\.evaluate: |loading .*s\Z).+", complaint), complaint
        return complaint

    return evaluated


def test_without_data_the_figures_of_the_run_are_repeated(finished, evaluated):
    found = evaluated(finished, "--json")
    assert found["bits_per_byte"] == record(finished)["result"]["bits_per_byte"]
    assert found["loss_repeated"] == pytest.approx(record(finished)["result"]["loss_repeated"])
    assert "perplexity per word" in evaluated(finished)


def test_a_text_of_ones_own_is_evaluated_whole_with_words_as_papers_on_wikitext_count_them(
    finished, evaluated, tmp_path
):
    path, text = tmp_path / "wiki.test.raw", " \n = to be = \n \n to be or not to be . \n" * 3
    path.write_text(text, encoding="utf-8")
    found = evaluated(finished, "--data", path, "--documents", "windows", "--context", 8, "--overlap", 0.25, "--json")
    tokens, model = prepare([text], tokenizer.load(finished)), models.load(finished)
    batches = evaluation_batches(reading.spans("windows", tokens, 8), context=8, overlap=0.25, rows=100)
    nats = sum(nats.sum() for _, nats in predictions(model, batches))
    assert (found["loss"], found["tokens"]) == (pytest.approx(nats / (len(tokens) - 1)), len(tokens) - 1)
    words = sum(len([*line.split(), "<eos>"]) for line in text.splitlines())
    assert found["perplexity_per_word_with_line_ends"] == pytest.approx(math.exp(nats / words))
    assert [part["name"] for part in found["by_document"]] == ["= to be ="]
    assert sum(part["tokens"] for part in found["by_position"]) == found["tokens"]
    assert found["by_position"][0]["tokens"] == -(-found["tokens"] // 8)  # of sequences that do not overlap


def test_of_its_own_text_a_run_reads_the_part_that_it_held_out(finished, evaluated):
    name = record(finished)["data"]
    parts = corpus.load(name).split()
    for split, texts in (("validation", parts.validation), ("test", parts.test)):
        found = evaluated(finished, "--data", name, "--split", split, "--json")
        assert found["text"].startswith(f"{split} text of the run")
        assert found["bytes"] == sum(len(text.encode()) for text in texts)


def test_a_text_is_read_as_in_training(finished, evaluated, tmp_path, monkeypatch):
    copy, use = shutil.copytree(finished, tmp_path / "copy"), Mock(wraps=backend.use)
    monkeypatch.setattr(backend, "use", use)
    content = record(copy) | {"validation_text": ""}  # an old run did not say what its text was
    content["chosen"]["precision"] = "bfloat16"
    for documents, way in (("packed", "each document alone"), ("windows", "all documents in a row")):
        content["chosen"] |= {"context": 8, "documents": documents}
        (copy / "minigrad.json").write_text(json.dumps(content), encoding="utf-8")
        assert evaluated(copy, "--json")["reading"].startswith(f"{way}, at most 8 tokens at a time")
        assert use.call_args_list[-2].args[1] == "bfloat16"


def test_longer_sequences_are_evaluated_with_each_rotary_scaling(finished, evaluated):
    found = evaluated(finished, "--lengths", "16,24", "--json")
    rows = found["bits_per_byte_by_length"]
    assert rows["16"] == {"none": found["bits_per_byte"], "linear": None, "ntk": None, "yarn": None}
    model = models.load(finished, rope_scaling="yarn", rope_factor=1.5)
    tok = tokenizer.load(finished)
    validation = prepare(corpus.load(record(finished)["data"]).split().validation, tok)
    spans = reading.spans("windows", validation, 24)  # of one document, so that both ways are the same
    score = evaluate(model, spans, token_byte_lengths(tok, model.config.vocab_size), context=24)
    assert rows["24"]["yarn"] == pytest.approx(score.bits_per_byte, rel=1e-6)
    assert len({rows["24"][kind] for kind in ("none", "linear", "ntk", "yarn")}) == 4
    assert "rotary scaling" in evaluated(finished, "--lengths", "24")


def test_a_model_that_was_not_trained_here_needs_a_text_and_may_learn_its_positions(evaluated, text, tmp_path):
    tok = tokenizer.train(["to be or not to be"] * 3, vocab_size=270)
    tiny.build("gpt2", vocab_size=272).save(tmp_path)
    tok.save(tmp_path)
    found = evaluated(tmp_path, "--data", text, "--context", 8, "--json")
    assert found["model"].endswith(f"parameters, in {tmp_path}")
    assert found["bytes"] == text.stat().st_size
    assert "names no text: it was not written by train.py. Give --data" in evaluated(tmp_path, code=2)
    assert "learns its positions" in evaluated(tmp_path, "--data", text, "--lengths", 8, code=2)


def test_documents_begin_as_texts_that_the_model_writes(evaluated, tmp_path):
    plain = tokenizer.train(["to be or not to be"] * 3, vocab_size=270)
    tok = tokenizer.Tokenizer(dataclasses.replace(plain.vocabulary, before=("<|system|>",)))
    model, texts = tiny.build("gpt2", vocab_size=272), ["to be", "or not"]
    model.save(tmp_path)
    tok.save(tmp_path)
    path = tmp_path / "texts.jsonl"
    path.write_text("\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8")
    found = evaluated(tmp_path, "--data", path, "--context", 8, "--json")
    for text, part in zip(texts, found["by_document"], strict=True):
        ids = [*document(tok, text), tok.end_of_text_id]
        loss = model.loss(np.array([ids[:-1]]), np.array([ids[1:]])).item()
        assert (part["tokens"], part["bytes"], part["loss"]) == (len(ids) - 1, len(text), pytest.approx(loss, rel=1e-5))
    assert found["bytes"] == len("".join(texts))


def test_of_text_that_only_judges_a_run_nothing_else_is_read(finished, evaluated, tmp_path):
    copy, judged = shutil.copytree(finished, tmp_path / "copy"), tmp_path / "judged.txt"
    judged.write_text("to be or not to be\n" * 3, encoding="utf-8")
    tokens = prepare([judged.read_text(encoding="utf-8")], tokenizer.load(copy))

    def write(data: str, held_out: str, validation_text: str) -> None:
        content = record(copy) | {"data": data, "validation_text": validation_text}
        content["settings"] |= {"data": data, "held_out": held_out}
        (copy / "minigrad.json").write_text(json.dumps(content), encoding="utf-8")

    write("gone.txt", str(judged), tokens.digest)
    found = evaluated(copy, "--json")
    assert found["text"] == f"validation text of the run (text in {judged})"
    assert found["bytes"] == len(judged.read_bytes())
    write("gone.txt", str(judged), "another text")
    assert f"the validation text of {judged} is not the one" in evaluated(copy, code=2)
    write(f"gone.txt:1,{judged}:1", "other.txt", "")
    found = evaluated(copy, "--data", judged, "--json")
    assert found["text"] == f"text in {judged}, on which the model was trained"
    began = shutil.copytree(copy, tmp_path / "began")
    write("other.txt", "third.txt", "")
    content = record(copy)
    content["settings"]["init"], content["result"]["caution"] = str(began), "the text has changed"
    (copy / "minigrad.json").write_text(json.dumps(content), encoding="utf-8")
    found = evaluated(copy, "--data", judged, "--json")
    assert found["text"] == f"text in {judged}, on which a model that it began or learned from was trained"
    write("gone.txt", str(judged), tokens.digest)
    assert evaluated(copy, "--json")["text"].endswith(f"(text in {judged}). Caution: the text has changed")
    write("gone.txt", "python-docs", "that of another Python")
    for data in ([], ["--data", "python-docs"]):
        complaint = evaluated(copy, *data, code=2)
        assert f"the validation text of python-docs is not the one that {copy} held out" in complaint


def test_a_text_shorter_than_a_window_is_evaluated_too(finished, evaluated, tmp_path):
    short = tmp_path / "short.txt"
    short.write_text("to be or not", encoding="utf-8")
    for way in ("packed", "windows"):
        found = evaluated(finished, "--data", short, "--documents", way, "--lengths", "4096", "--json")
        assert found["bytes"] == len(short.read_bytes())


def test_mistakes_are_explained(finished, evaluated, text, tmp_path):
    copy = shutil.copytree(finished, tmp_path / "copy")
    text_there = shutil.copy(text, tmp_path / "words.txt")
    content = record(copy)
    content["data"] = content["settings"]["data"] = str(text_there)
    (copy / "minigrad.json").write_text(json.dumps(content), encoding="utf-8")
    evaluated(copy)
    with (tmp_path / "words.txt").open("a", encoding="utf-8") as file:
        file.write("more words at the end\n")
    assert "minigrad encodes the text, has changed, or Python has" in evaluated(copy, code=2)
    assert "held out: the text has changed, or Python has" in evaluated(copy, "--split", "test", code=2)
    assert "there is no data called" in evaluated(finished, "--data", "nowhere", code=2)
    assert "--context 64 is more than the model's 16; --lengths 64 extends it" in evaluated(
        finished, "--context", 64, code=2
    )
    assert evaluated(tmp_path / "nothing", code=2)
    assert "unknown flag --text" in evaluated(finished, "--text", "x", code=2)
