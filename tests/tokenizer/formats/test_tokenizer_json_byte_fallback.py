import json

import pytest

import tokenizer
from tests.tokenizer import byte_fallback
from tokenizer import TokenizerError
from tokenizer.formats.tokenizer_json import FALLBACK

tok = tokenizer.Tokenizer(byte_fallback.vocabulary())


@pytest.fixture
def document(tmp_path):
    tok.save(tmp_path)
    return json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))


def reload(tmp_path, document):
    (tmp_path / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    return tokenizer.load(tmp_path)


def test_load_undoes_save(tmp_path, document):
    loaded = tokenizer.load(tmp_path)
    assert loaded.vocabulary == tok.vocabulary
    assert loaded.fingerprint() == tok.fingerprint()
    assert loaded.end_of_text_id == 2
    loaded.save(tmp_path / "again")
    assert (tmp_path / "again" / "tokenizer.json").read_bytes() == (tmp_path / "tokenizer.json").read_bytes()


def test_ids_without_a_token_have_none_after_saving_either(tmp_path, document):
    free = max(document["model"]["vocab"].values()) + 4
    document["added_tokens"].append({"id": free, "content": "<extra>", "special": True})
    found = reload(tmp_path, document)
    found.save(tmp_path / "again")
    again = tokenizer.load(tmp_path / "again")
    assert found.used < found.vocab_size
    assert (again.used, again.fingerprint()) == (found.used, found.fingerprint())


def test_the_file_says_what_other_programs_look_for(document):
    model = document["model"]
    assert (model["type"], model["byte_fallback"], model["fuse_unk"], model["unk_token"]) == (
        "BPE",
        True,
        True,
        "<unk>",
    )
    assert {name: document[name] for name in FALLBACK} == FALLBACK
    assert [model["vocab"][name] for name in ("<unk>", "<s>", "<0x00>", "<0x0A>", "<0xFF>")] == [0, 1, 3, 13, 258]
    assert {"▁", "▁the", "é"} <= set(model["vocab"])
    assert "▁ the" in model["merges"]


def test_merges_may_be_lists(tmp_path, document):
    document["model"]["merges"] = [merge.split(" ") for merge in document["model"]["merges"]]
    assert reload(tmp_path, document).vocabulary == tok.vocabulary


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("normalizer", None, "field normalizer is None: with byte_fallback, only .*Prepend"),
        ("normalizer", {"type": "NFC"}, "field normalizer is"),
        ("pre_tokenizer", {"type": "Metaspace"}, "field pre_tokenizer is .*Metaspace.*only None"),
        ("decoder", {"type": "ByteLevel"}, "field decoder is .*only .*ByteFallback"),
        ("post_processor", {"type": "BertProcessing"}, "post_processor"),
    ],
)
def test_other_ways_to_mark_spaces_are_refused(tmp_path, document, name, value, message):
    document[name] = value
    with pytest.raises(TokenizerError, match=message):
        reload(tmp_path, document)


def test_every_byte_needs_a_token(tmp_path, document):
    del document["model"]["vocab"]["<0x0A>"]
    with pytest.raises(TokenizerError, match=r"no token <0x0A>, so some texts could not be encoded"):
        reload(tmp_path, document)


def test_whole_words_are_refused(tmp_path, document):
    document["model"]["ignore_merges"] = True
    with pytest.raises(TokenizerError, match="ignore_merges is true"):
        reload(tmp_path, document)


@pytest.mark.parametrize(("format", "name"), [("gpt2", "x"), ("tiktoken", "x.tiktoken")])
def test_other_formats_cannot_store_it(tmp_path, format, name):
    with pytest.raises(TokenizerError, match=r"cannot store .*byte fallback"):
        tok.save(tmp_path / name, format=format)
