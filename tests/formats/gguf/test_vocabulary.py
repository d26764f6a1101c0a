"""The vocabulary of a file: that of the tokenizer, in llama.cpp's words, or a clear refusal."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import tokenizer
from minigrad.errors import InputError
from minigrad.formats.gguf.vocabulary import CONTROL, NORMAL, UNUSED, USER_DEFINED, describe_vocabulary

tok = tokenizer.train(["to be or not to be, that is the question"] * 3, vocab_size=290)
SIZE = 295


@pytest.fixture
def folder(tmp_path):
    tok.save(tmp_path)
    return tmp_path


def change(folder, name, **changes):
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


def read_vocabulary(folder, size=SIZE):
    return describe_vocabulary(tokenizer.load(folder).vocabulary, size)


def refused(folder, message, size=SIZE):
    with pytest.raises(InputError, match=message):
        read_vocabulary(folder, size)


def test_every_row_has_a_token_and_its_kind(folder):
    found = read_vocabulary(folder, SIZE)
    names, kinds = found["tokenizer.ggml.tokens"], found["tokenizer.ggml.token_type"]
    assert len(names) == len(kinds) == len(set(names)) == SIZE
    assert names[: len(tokenizer.SPECIAL_TOKENS)] == list(tokenizer.SPECIAL_TOKENS)
    spelled = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    for name, number in spelled.items():
        assert names[number] == name
        assert kinds[number] == (CONTROL if name in tok.specials else UNUSED if "<unused" in name else NORMAL)
    assert kinds[tok.vocab_size :] == [UNUSED] * (SIZE - tok.vocab_size)
    assert found["tokenizer.ggml.model"] == "gpt2"
    assert found["tokenizer.ggml.pre"] == "gpt-2"
    assert len(found["tokenizer.ggml.merges"]) == len(tok.vocabulary.merges)
    assert all(merge.count(" ") == 1 for merge in found["tokenizer.ggml.merges"])


def test_documents_and_turns(folder):
    found = read_vocabulary(folder, SIZE)
    ends = {name: tok.specials[name] for name in ("<|endoftext|>", "<|end|>")}
    assert found["tokenizer.ggml.bos_token_id"] == found["tokenizer.ggml.eos_token_id"] == ends["<|endoftext|>"]
    assert found["tokenizer.ggml.eot_token_id"] == ends["<|end|>"]
    assert found["tokenizer.ggml.add_bos_token"] is True
    assert found["tokenizer.ggml.add_eos_token"] is False


def test_the_tokens_around_documents_are_those_of_the_file(folder):
    around = {"before": ("<|user|>",), "after": ("<|endoftext|>",)}
    tokenizer.Tokenizer(replace(tok.vocabulary, **around)).save(folder)
    found = read_vocabulary(folder, SIZE)
    assert found["tokenizer.ggml.bos_token_id"] == tok.specials["<|user|>"]
    assert found["tokenizer.ggml.add_eos_token"] is True


def test_added_tokens_are_found_in_every_text(folder):
    tokenizer.Tokenizer(replace(tok.vocabulary, added={"<tool>": 290}, size=291)).save(folder)
    assert read_vocabulary(folder, SIZE)["tokenizer.ggml.token_type"][290] == USER_DEFINED


def test_newer_files_write_merges_as_lists(folder):
    before = read_vocabulary(folder, SIZE)
    model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    change(folder, "tokenizer.json", model=model | {"merges": [merge.split(" ") for merge in model["merges"]]})
    change(folder, "tokenizer_config.json", eos_token={"content": "<|endoftext|>"})
    assert read_vocabulary(folder, SIZE) == before


@pytest.mark.parametrize(
    ("split", "whole_words", "name"),
    [
        ("gpt2", False, "gpt-2"),
        ("digits", False, "smollm"),
        ("gpt4", False, "dbrx"),
        ("gpt4", True, "llama-bpe"),
        ("qwen2", False, "qwen2"),
    ],
)
def test_the_splits_that_llama_cpp_has(split, whole_words, name, folder):
    ours = tokenizer.train(["to be"], vocab_size=262, split=split).vocabulary
    tokenizer.Tokenizer(replace(ours, whole_words=whole_words)).save(folder)
    assert read_vocabulary(folder, SIZE)["tokenizer.ggml.pre"] == name


@pytest.mark.parametrize("split", ["none", "gpt4o", r"\p{L}+|\P{L}+"])
def test_other_splits_are_refused(split, folder):
    tokenizer.train(["to be"], vocab_size=262, split=split).save(folder)
    refused(folder, "llama.cpp has no split like .*gpt2, digits, gpt4 and qwen2")


def test_whole_words_need_a_split_with_them(folder):
    tokenizer.Tokenizer(replace(tok.vocabulary, whole_words=True)).save(folder)
    refused(folder, "no split like 'gpt2' with ignore_merges")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"nfc": True}, "composes characters .*llama.cpp takes every text as it is"),
        ({"before": tuple(tok.specials)}, r"it puts \['<\|endoftext\|>', .*\] before and \[\] after"),
        ({"after": ("<|end|>",)}, r"before and \['<\|end\|>'\] after"),
        ({"specials": {}}, r"no special token '<\|endoftext\|>'"),
    ],
)
def test_what_llama_cpp_cannot_do_is_refused(folder, changes, message):
    tokenizer.Tokenizer(replace(tok.vocabulary, **changes)).save(folder)
    refused(folder, message)


def test_byte_fallback_is_refused(folder):
    byte_ids = tuple(range(256))
    fallback = tokenizer.Vocabulary("none", {}, (), {"<|endoftext|>": 256}, 257, byte_ids=byte_ids)
    tokenizer.Tokenizer(fallback).save(folder)
    refused(folder, "byte fallback, and only byte-level BPE can be written")


def test_older_folders_have_their_vocabulary_in_two_files(folder):
    before = read_vocabulary(folder, SIZE)
    model = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    (folder / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    (folder / "merges.txt").write_text("\n".join(model["merges"]), encoding="utf-8")
    (folder / "tokenizer.json").unlink()
    found = read_vocabulary(folder, SIZE)
    assert {name for name in before if found.get(name) != before[name]} <= {"tokenizer.ggml.token_type"}


def test_a_tokenizer_of_another_model_is_refused(folder):
    refused(folder, "they do not belong together", size=280)
