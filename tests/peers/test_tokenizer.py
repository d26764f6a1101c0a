"""The same ids as Hugging Face's tokenizers library, from the files that we save."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tokenizer
from tokenizer.formats.tokenizer_json import CHAT_TEMPLATE
from tokenizer.text.split import SPLITS

pytestmark = pytest.mark.peers

CORPUS = [
    "It's 12:45 o'clock, they'll say; don't   wait!\n\n\tdef f(x):\n        return x ** 2\n",
    "Zwölf Boxkämpfer. 日本語のテキスト。 Привет! مرحبا 👩‍👩‍👧 ½ Ⅷ\u00a0x\u2028y",
] * 4
# Characters that have been in Unicode for long: the two libraries may know different versions of it.
old_characters = st.characters(exclude_categories=["Cs", "Cn"]).filter(
    lambda letter: unicodedata.ucd_3_2_0.category(letter) == unicodedata.category(letter)
)
some_text = st.text(old_characters) | st.text("ab 1'\n\ts!") | st.sampled_from(CORPUS)


@pytest.fixture(scope="module", params=list(SPLITS))
def pair(request, tmp_path_factory):
    peers = pytest.importorskip("tokenizers")
    ours = tokenizer.train(CORPUS, vocab_size=400, split=request.param)
    folder = tmp_path_factory.mktemp("saved")
    ours.save(folder)
    return ours, peers.Tokenizer.from_file(str(folder / "tokenizer.json"))


@given(text=some_text)
def test_the_same_ids_and_the_same_text(pair, text):
    ours, theirs = pair
    ids = ours.encode(text)
    assert theirs.encode(text).ids == ids
    assert theirs.decode(ids, skip_special_tokens=False) == text


def test_special_tokens_have_the_same_ids(pair):
    ours, theirs = pair
    text = "<|user|>It's 12<|end|><|assistant|>"
    assert theirs.encode(text).ids == ours.encode(text, allow_special=True)
    assert theirs.get_vocab_size() == ours.vocab_size


@pytest.mark.parametrize("split", ["gpt2", "digits"])
def test_a_tokenizer_that_they_trained_loads(tmp_path, split):
    peers = pytest.importorskip("tokenizers")
    byte_level = peers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    digits = peers.pre_tokenizers.Digits(individual_digits=True)
    theirs = peers.Tokenizer(peers.models.BPE())
    theirs.pre_tokenizer = byte_level if split == "gpt2" else peers.pre_tokenizers.Sequence([digits, byte_level])
    theirs.decoder = peers.decoders.ByteLevel()
    theirs.train_from_iterator(
        CORPUS,
        peers.trainers.BpeTrainer(
            vocab_size=400,
            special_tokens=["<|endoftext|>"],
            initial_alphabet=peers.pre_tokenizers.ByteLevel.alphabet(),
            show_progress=False,
        ),
    )
    theirs.save(str(tmp_path / "tokenizer.json"))
    ours = tokenizer.load(tmp_path)
    assert ours.vocab_size == theirs.get_vocab_size()
    for text in [*CORPUS, "Something else: 'naïve' 2024"]:
        assert ours.encode(text) == theirs.encode(text).ids


def test_the_chat_template_renders_what_encode_chat_encodes():
    jinja2 = pytest.importorskip("jinja2")
    messages = [{"role": "user", "content": "It's 12"}, {"role": "assistant", "content": "Wait!"}]
    tok = tokenizer.train(CORPUS, vocab_size=400)
    for prompt in (False, True):
        row = jinja2.Template(CHAT_TEMPLATE).render(messages=messages, add_generation_prompt=prompt)
        ids = tokenizer.encode_chat(tok, messages, add_generation_prompt=prompt)
        assert tok.encode(row, allow_special=True) == ids


def test_transformers_reads_the_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    tok = tokenizer.train(CORPUS, vocab_size=400)
    tok.save(tmp_path)
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    messages = [{"role": "user", "content": "It's 12"}]
    ids = theirs.apply_chat_template(messages, add_generation_prompt=True, tokenize=True, return_dict=False)
    assert ids == tokenizer.encode_chat(tok, messages, add_generation_prompt=True)
    assert theirs.eos_token_id == tok.end_of_text_id
    assert len(theirs) == tok.vocab_size
    assert json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))["eos_token"] == theirs.eos_token
