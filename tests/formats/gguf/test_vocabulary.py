"""The vocabulary of a file: what tokenizer.json says, in llama.cpp's words, or a clear refusal."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

import tokenizer
from minigrad.errors import InputError
from minigrad.formats.gguf import vocabulary
from minigrad.formats.gguf.vocabulary import CONTROL, NORMAL, UNUSED, USER_DEFINED, read_vocabulary
from tokenizer.formats import pre_tokenizer

tok = tokenizer.train(["to be or not to be, that is the question"] * 3, vocab_size=290)
SIZE = 295


@pytest.fixture
def folder(tmp_path):
    tok.save(tmp_path)
    return tmp_path


def change(folder, name, **changes):
    path = folder / name
    path.write_text(json.dumps(json.loads(path.read_text(encoding="utf-8")) | changes), encoding="utf-8")


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
    refused(folder, "llama.cpp has no split like pre_tokenizer .*gpt2, digits, gpt4 and qwen2")


def test_whole_words_need_a_split_with_them(folder):
    tokenizer.Tokenizer(replace(tok.vocabulary, whole_words=True)).save(folder)
    refused(folder, "no split like pre_tokenizer .* with ignore_merges")


def test_every_spelling_of_a_split_that_can_be_loaded_can_be_written():
    for pattern, split in pre_tokenizer.SPELLINGS.items():
        step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated"}
        last = {"type": "ByteLevel", "use_regex": False, "add_prefix_space": False}
        steps = {"type": "Sequence", "pretokenizers": [step, last]}
        if split == "gpt4o":
            with pytest.raises(InputError, match=r"no split like"):
                vocabulary.split_name(steps)
        else:
            assert vocabulary.split_name(steps) == {"gpt2": "gpt-2", "gpt4": "dbrx", "qwen2": "qwen2"}[split]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("normalizer", {"type": "NFC"}, "normalizer is .*llama.cpp takes every text as it is"),
        ("pre_tokenizer", None, "no split like pre_tokenizer None"),
        ("pre_tokenizer", {"type": "ByteLevel", "add_prefix_space": True}, "no split like"),
        ("added_tokens", [], r"no special token '<\|endoftext\|>'"),
        ("added_tokens", 5, "added_tokens is 5, not a list"),
        ("model", {"type": "Unigram", "vocab": {}, "merges": []}, "model.type is 'Unigram', and only byte-level BPE"),
        (
            "model",
            {"byte_fallback": True, "vocab": {}, "merges": []},
            "model.type is 'BPE' with byte_fallback, and only",
        ),
        ("model", {"vocab": {"a": 0, "<|end|>": 7}, "merges": []}, "two ids have the same token"),
        ("model", {"vocab": {"a": SIZE}, "merges": []}, "has the id 295, but the model's ids end at 294"),
        ("model", {"vocab": {"a": -1}, "merges": []}, "has the id -1"),
        ("model", {"vocab": {}, "merges": ["ab"]}, r"model\.merges\[0\] is 'ab', not two tokens"),
        ("post_processor", {"type": "BertProcessing"}, "post_processor is .*it would add tokens of its own"),
        (
            "post_processor",
            {
                "type": "TemplateProcessing",
                "single": [{"SpecialToken": {"id": "<x>"}}, {"Sequence": {"id": "A"}}],
                "special_tokens": {},
            },
            r"post_processor\.single\[0\] is .*<x>.*neither a document nor one of the special tokens",
        ),
        (
            "post_processor",
            {
                "type": "TemplateProcessing",
                "single": [*({"SpecialToken": {"id": name}} for name in tok.specials), {"Sequence": {"id": "A"}}],
                "special_tokens": {name: {"ids": [number]} for name, number in tok.specials.items()},
            },
            r"post_processor puts \['<\|endoftext\|>', .*\] before and \[\] after",
        ),
    ],
)
def test_what_llama_cpp_cannot_do_is_refused(folder, field, value, message):
    change(folder, "tokenizer.json", **{field: value})
    refused(folder, rf"tokenizer\.json: .*{message}")


def test_a_tokenizer_of_another_model_is_refused(folder):
    refused(folder, "they do not belong together", size=280)


def test_a_missing_tokenizer_is_named(tmp_path):
    refused(tmp_path, r"cannot read .*tokenizer\.json")
