import json
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tokenizer
from tokenizer import TokenizerError
from tokenizer.text.split import SPLITS

CORPUS = ["to be or not to be, that is the question", "日本語 日本語\n\n12 + 12"] * 3
tok = tokenizer.train(CORPUS, vocab_size=320)


@pytest.fixture
def document(tmp_path):
    """The JSON of a saved tokenizer; `reload` loads it again after changes."""
    tok.save(tmp_path)
    return json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))


def reload(tmp_path, document):
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return tokenizer.load(path)


@pytest.mark.parametrize("name", SPLITS)
@pytest.mark.parametrize("vocab_size", [261, 300, 1000])
def test_load_undoes_save(tmp_path, name, vocab_size):
    saved = tokenizer.train(CORPUS, vocab_size, split=name)
    saved.save(tmp_path / "run")
    saved.save(str(tmp_path / "deep" / "own.json"))
    for path in (tmp_path / "run", tmp_path / "run" / "tokenizer.json", str(tmp_path / "deep" / "own.json")):
        loaded = tokenizer.load(path)
        assert loaded.vocabulary == saved.vocabulary
        assert loaded.fingerprint() == saved.fingerprint()
        assert (loaded.vocab_size, loaded.used) == (saved.vocab_size, saved.used)
        assert loaded.encode(CORPUS[1]) == saved.encode(CORPUS[1])
    assert sorted(file.name for file in (tmp_path / "run").iterdir()) == [
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert sorted(file.name for file in (tmp_path / "deep").iterdir()) == ["own.json"]


@pytest.mark.parametrize(
    "fields",
    [
        {"nfc": True},
        {"added": {"   ": 320, "<tool>": 321}, "size": 322},
        {"added": {"   ": 320, "<tool>": 321}, "size": 322, "normalized": frozenset(["   ", "<|end|>"]), "nfc": True},
        {"whole_words": True},
        {"before": ("<|endoftext|>",)},
        {"before": ("<|user|>", "<|end|>"), "after": ("<|endoftext|>",)},
    ],
)
def test_tokenizer_json_holds_everything(tmp_path, fields):
    saved = tokenizer.Tokenizer(replace(tok.vocabulary, **fields))
    saved.save(tmp_path)
    loaded = tokenizer.load(tmp_path)
    assert loaded.vocabulary == saved.vocabulary
    assert loaded.fingerprint() == saved.fingerprint() != tok.fingerprint()


def test_the_files_say_what_other_programs_look_for(tmp_path, document):
    config = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert config["tokenizer_class"] == "PreTrainedTokenizerFast"
    assert config["eos_token"] == "<|endoftext|>"
    assert "<|assistant|>" in config["chat_template"]
    assert "model_max_length" not in config
    assert document["model"]["type"] == "BPE"
    assert document["pre_tokenizer"]["type"] == document["decoder"]["type"] == "ByteLevel"
    assert document["pre_tokenizer"]["add_prefix_space"] is False
    assert sorted(document["model"]["vocab"].values()) == list(range(tok.vocab_size))
    assert [token["content"] for token in document["added_tokens"]] == list(tokenizer.SPECIAL_TOKENS)


def test_without_the_chat_tokens_there_is_no_chat_template(tmp_path):
    tokenizer.train(CORPUS, 300, special_tokens=["<s>"]).save(tmp_path)
    config = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    assert "chat_template" not in config
    assert "eos_token" not in config
    assert tokenizer.load(tmp_path).specials == {"<s>": 0}


def test_a_file_with_another_order_of_ids_loads(tmp_path, document):
    # GPT-2's order: bytes first, by their characters, special tokens last. And the newer way to write merges.
    vocab, specials = document["model"]["vocab"], document["added_tokens"]
    ordinary = sorted(set(vocab) - {token["content"] for token in specials}, key=lambda text: (len(text), text))
    document["model"]["vocab"] = {spelling: number for number, spelling in enumerate(ordinary)}
    for i, token in enumerate(specials):
        token["id"] = len(ordinary) + i
    document["model"]["merges"] = [merge.split(" ") for merge in document["model"]["merges"]]
    document["pre_tokenizer"] = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": False}
    document["post_processor"] = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": False}
    other = reload(tmp_path, document)
    assert other.vocab_size == tok.vocab_size
    assert other.end_of_text_id == len(ordinary)
    assert other.fingerprint() != tok.fingerprint()
    for text in [*CORPUS, "something new<|end|>"]:
        pieces = [tok.decode_bytes([number]) for number in tok.encode(text)]
        assert [other.decode_bytes([number]) for number in other.encode(text)] == pieces
    other.save(tmp_path / "again")
    assert tokenizer.load(tmp_path / "again").vocabulary == other.vocabulary


@pytest.mark.parametrize("token", ["<|end|>", {"content": "<|end|>", "lstrip": False}])
def test_the_end_of_text_is_the_configs_eos_token(tmp_path, token):
    tok.save(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"eos_token": token}), encoding="utf-8")
    assert tokenizer.load(tmp_path).end_of_text_id == tok.specials["<|end|>"]


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("model.type", "WordPiece", "field model.type is 'WordPiece': only byte-level 'BPE'"),
        ("model.vocab", None, "field model.vocab is missing, expected dict"),
        ("model.vocab", [], r"field model.vocab is \[\], expected dict"),
        ("model.vocab.Ġ", "x", "field model.vocab: the id of 'Ġ' is 'x'"),
        ("model.vocab.Ġ", 0, "id 0 is given to 2 token"),
        ("model.vocab.Ġ", -4, "id -4"),
        ("model.vocab.Ġ", 2**40, "1,099,511,627,777 ids"),
        ("model.merges", ["Ġ t"] * 2, "the merge of Ġ and t is listed twice"),
        ("model.merges", ["x"], r"field model.merges\[0\] is 'x', expected two tokens"),
        ("model.merges", [["Ġ", " "]], r"field model.merges\[0\]"),
        ("model.merges", ["Ġ z"], "the merge of 'Ġ' and 'z' needs the token 'Ġz'"),
        ("model.dropout", 0.1, "field model.dropout is 0.1"),
        ("normalizer", {"type": "NFKC"}, "field normalizer is {'type': 'NFKC'}: only null and NFC"),
        ("normalizer", {"type": "Sequence", "normalizers": 5}, "field normalizer is .*only null and NFC"),
        ("normalizer", [], r"field normalizer is \[\]"),
        ("truncation", {"max_length": 5}, "field truncation is"),
        ("pre_tokenizer", None, "field pre_tokenizer is missing"),
        ("pre_tokenizer.add_prefix_space", True, "field pre_tokenizer is .*only these"),
        ("pre_tokenizer", {"type": "Whitespace"}, 'field pre_tokenizer is {"type": "Whitespace"}'),
        ("decoder", None, "field decoder.type is missing"),
        ("decoder.type", "WordPiece", "field decoder.type is 'WordPiece'"),
        (
            "post_processor",
            {"type": "BertProcessing"},
            r"field post_processor is {'type': 'BertProcessing'}.*only null, 'ByteLevel' and one 'TemplateProcessing'",
        ),
        ("post_processor", {"type": "TemplateProcessing"}, "field post_processor is"),
        ("post_processor", {"type": "Sequence"}, "field post_processor is"),
        ("post_processor", {"type": "Sequence", "processors": [5]}, "field post_processor is {'type': 'Sequence'"),
        (
            "post_processor",
            {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<x>"}}], "special_tokens": {}},
            r"field post_processor.single\[0\] is .*<x>.*, which is neither a document nor one of the special tokens",
        ),
        (
            "post_processor",
            {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>"}}], "special_tokens": {}},
            r"field post_processor.special_tokens.<\|end\|> is None, expected the id 4",
        ),
        (
            "post_processor",
            {"type": "TemplateProcessing", "single": [], "special_tokens": {}},
            "field post_processor.single has 0 documents, expected one",
        ),
        ("added_tokens", None, "field added_tokens is missing"),
        ("added_tokens", [7], r"field added_tokens\[0\] is 7, expected an object"),
        ("added_tokens", [{"id": 0}], r"field added_tokens\[0\].content is missing, expected str"),
        ("added_tokens", [{"id": "0", "content": "<s>"}], r"field added_tokens\[0\].id is '0', expected int"),
        ("added_tokens", [{"id": 0, "content": "x", "lstrip": True}], r"added_tokens\[0\].lstrip is true"),
        ("added_tokens", [{"id": 0, "content": ""}], "special token '' is empty"),
        (
            "added_tokens",
            [{"id": number, "content": "<x>", "special": number == 900} for number in (900, 901)],
            r"field added_tokens\[1\].content is '<x>', which an added token before it has already",
        ),
        (
            "added_tokens",
            [{"id": 9, "content": "<|end|>", "special": True}],
            r"added_tokens\[0\].id is 9, but model.vocab gives '<\|end\|>' 4",
        ),
    ],
)
def test_a_field_that_cannot_be_used_is_named(tmp_path, document, field, value, message):
    *parents, last = field.split(".")
    place = document
    for parent in parents:
        place = place[parent]
    place[last] = value
    with pytest.raises(TokenizerError, match=message) as caught:
        reload(tmp_path, document)
    assert "changed.json" in str(caught.value)


def test_a_missing_byte_is_named(tmp_path, document):
    del document["model"]["vocab"]["Ġ"]
    document["model"]["merges"] = []
    with pytest.raises(TokenizerError, match=r"changed.json: byte 0x20 has no token"):
        reload(tmp_path, document)


@pytest.mark.parametrize("content", ["", "{", "[1]", "null", "\x00", "[" * 100_000])
def test_a_file_that_is_no_json_object_is_named(tmp_path, content):
    path = tmp_path / "tokenizer.json"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(TokenizerError, match=r"tokenizer\.json"):
        tokenizer.load(tmp_path)


def test_a_folder_of_folders_with_tokenizers_names_them(tmp_path):
    for name in ("a", "b", "c/d"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "tokenizer.json").touch()
    with pytest.raises(TokenizerError) as caught:
        tokenizer.load(tmp_path)
    meant = f"did you mean {tmp_path / 'a'} or {tmp_path / 'b'}?"
    assert str(caught.value) == f"{tmp_path} holds no tokenizer.json; {meant}"


def test_a_missing_or_undecodable_file_is_named(tmp_path):
    with pytest.raises(TokenizerError, match=r"cannot read .*tokenizer\.json: No such file"):
        tokenizer.load(tmp_path)
    (tmp_path / "other.json").write_bytes(b"\xff\xfe{}")
    with pytest.raises(TokenizerError, match=r"other\.json is not JSON text"):
        tokenizer.load(tmp_path / "other.json")


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_never_loaded(tmp_path, share):
    path = tmp_path / "tokenizer.json"
    tok.save(path)
    data = path.read_bytes().rstrip()
    path.write_bytes(data[: int(share * len(data))])
    with pytest.raises(TokenizerError, match=r"tokenizer\.json is not JSON text, or is cut short"):
        tokenizer.load(path)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
    max_leaves=4,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data(), junk)
def test_junk_anywhere_loads_or_is_a_clear_error(tmp_path, data, value):
    tok.save(tmp_path)
    place = document = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    while True:
        keys = sorted(place) if isinstance(place, dict) else range(len(place))
        key = data.draw(st.sampled_from(list(keys)))
        if not isinstance(place[key], (dict, list)) or not place[key] or data.draw(st.booleans()):
            place[key] = value
            break
        place = place[key]
    try:
        loaded = reload(tmp_path, document)
    except TokenizerError as error:
        assert "changed.json" in str(error)  # noqa: PT017  (either outcome is right)
    else:
        assert loaded.decode(loaded.encode("to be")) == "to be"


@pytest.mark.parametrize("value", ["x", 1, 0, [], None])
@pytest.mark.parametrize("flag", ["special", "normalized", "lstrip"])
def test_a_flag_that_is_neither_true_nor_false_is_refused(tmp_path, document, flag, value):
    document["added_tokens"][1][flag] = value
    with pytest.raises(TokenizerError, match=rf"field added_tokens\[1\]\.{flag} is .*, expected bool"):
        reload(tmp_path, document)


@pytest.mark.parametrize("value", ["x", 1, []])
def test_settings_of_the_model_of_another_type_are_refused(tmp_path, document, value):
    for name in ("ignore_merges", "dropout"):
        changed = document | {"model": document["model"] | {name: value}}
        with pytest.raises(TokenizerError, match=rf"field model\.{name} is "):
            reload(tmp_path, changed)
