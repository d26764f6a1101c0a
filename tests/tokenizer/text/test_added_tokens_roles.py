from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from tokenizer.text import added_tokens

NAMES = st.sampled_from([name for names in added_tokens.KNOWN_NAMES.values() for name in names]) | st.just("<|user|>")


@given(st.lists(NAMES, unique=True))
def test_a_role_has_its_usual_name_or_none(names):
    found = added_tokens.find_roles(names, {})
    for role, field in added_tokens.ROLES.items():
        usual = [name for name in added_tokens.KNOWN_NAMES[role] if name in names]
        assert found[field] == (usual[0] if usual else added_tokens.END_OF_TEXT if role == "eos_token" else "")


@given(st.lists(NAMES, unique=True), st.dictionaries(st.sampled_from(list(added_tokens.ROLES)), NAMES))
def test_what_the_settings_of_a_tokenizer_name_comes_first(names, given_roles):
    found = added_tokens.find_roles(names, given_roles)
    assert all(found[added_tokens.ROLES[role]] == name for role, name in given_roles.items())


@pytest.mark.parametrize("format", ["huggingface", "gpt2"])
def test_the_files_keep_the_roles(tmp_path, format):
    specials = ["<x>", "<pad>", "<bos>", "</s>"]
    saved = tokenizer.train(["to be or not"], 270, special_tokens=specials)
    assert (saved.end_of_text_id, saved.vocabulary.begin_of_text, saved.padding_id) == (3, "<bos>", 1)
    other = tokenizer.Tokenizer(replace(saved.vocabulary, end_of_text="<x>", begin_of_text="</s>", padding=""))
    for number, each in enumerate((saved, other)):
        each.save(tmp_path / str(number), format=format)
        loaded = tokenizer.load(tmp_path / str(number))
        for field in ("end_of_text", "begin_of_text"):
            assert getattr(loaded.vocabulary, field) == getattr(each.vocabulary, field)
    assert tokenizer.train([], 261).vocabulary.begin_of_text == ""
