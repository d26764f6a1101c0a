"""The tokenizer of a web page gives the tokens of Python's, for any text."""

from __future__ import annotations

import random
import string
from dataclasses import replace
from typing import Any

import pytest

import tokenizer
from tokenizer import Tokenizer, TokenizerError
from tokenizer.formats.web_page import for_web_page
from tokenizer.text.split import SPLITS

CODE = "def f(x):\n\treturn {'a': [1, 22, 333, 4444]}  # it's HERE, we'LL\r\n\n    class Big_Name: pass\n"
SCRIPTS = (
    "naïve café Straße ſ K Привет мир 世界 日本語 한국어 ไทย العربية עברית हिन्दी "
    "½ ① Ⅻ ٣٤ e\u0301 🙂👩‍👩‍👧 \u00a0\u2003\ufeff\u0085"
)
SPECIAL = "<|endoftext|><|user|>a<|end|>"


def texts(count: int) -> list[str]:
    """Return texts of all kinds: code, many scripts, any Unicode, and names of special tokens."""
    draw = random.Random(0)
    alphabets = [CODE + SPECIAL, SCRIPTS, string.printable, " \n\t\r'’sStT12aé", CODE.split(" "), SCRIPTS.split(" ")]
    found = ["", CODE, SCRIPTS, SPECIAL, " " * 300, "a" * 3000]
    while len(found) < count:
        length = draw.choice([1, 3, 10, 40])
        if len(found) % 2:
            found.append("".join(draw.choices(draw.choice(alphabets), k=length)))
        else:
            some = [draw.randrange(draw.choice([0x3000, 0xD800, 0x110000])) for _ in range(length)]
            characters = [chr(code) for code in some if not 0xD800 <= code < 0xE000]
            found.append("".join(draw.choices([*characters, " ", "'"], k=length)))
    return found


ENCODE = """
const tokenizer = new Tokenizer({ ...given.words, begin: [] });
return given.texts.map((text) => {
  const ids = tokenizer.encode(text), pieces = tokenizer.pieces(ids);
  return [ids, pieces.join(""), ids.map((id) => tokenizer.name(id)).join("").length > 0 || !text];
});
"""


def check(run: Any, tok: Tokenizer, given: list[str], *, same_text: bool = True) -> None:
    found = run(ENCODE, words=for_web_page(tok.vocabulary), texts=given)
    for text, (ids, decoded, has_names) in zip(given, found, strict=True):
        assert ids == tok.encode(text), repr(text)
        assert has_names
        assert decoded == text or not same_text


@pytest.mark.parametrize("split", list(SPLITS))
def test_ten_thousand_texts_have_the_same_tokens(run: Any, split: str) -> None:
    tok = tokenizer.train([CODE * 3, SCRIPTS * 3, CODE + SCRIPTS], vocab_size=420, split=split)
    check(run, tok, texts(10_000 if split == "gpt2" else 2_000))


def test_added_tokens_accents_and_whole_words(run: Any) -> None:
    plain = tokenizer.train([CODE * 3, SCRIPTS * 3], vocab_size=400).vocabulary
    words = {b"whole": 410, "naïve".encode(): 411, " Straße".encode(): 412}
    added = {"[[": 420, "[[[": 421, "e\u0301\u0301": 422}
    changed = replace(
        plain,
        ids=plain.ids | words,
        added=added,
        normalized=frozenset(["e\u0301\u0301"]),
        size=430,
        nfc=True,
        whole_words=True,
    )
    given = [*texts(1_000), "[[[[ [[a whole naïve Straße e\u0301\u0301 \u00e9\u0301", "[[", "e\u0301[[[[["]
    check(run, Tokenizer(changed), given, same_text=False)


def test_a_split_of_ones_own_is_refused() -> None:
    with pytest.raises(TokenizerError, match="a web page splits text as"):
        for_web_page(tokenizer.train([], vocab_size=261, split=r"\w+|\W+").vocabulary)


def test_characters_of_several_tokens_and_broken_ones(run: Any) -> None:
    tok = tokenizer.train([], vocab_size=261)
    ids = [*tok.encode("é🙂"), *tok.encode("\ufeffa"), 5 + 0xE2, 5 + 0x82, 5 + 0x41, 5 + 0xFF, tok.end_of_text_id]
    found = run(
        "const t = new Tokenizer(given.words); return [t.pieces(given.ids), given.ids.map((id) => t.name(id))];",
        words=for_web_page(tok.vocabulary),
        ids=ids,
    )
    pieces, names = found
    assert pieces[:6] == ["", "é", "", "", "", "🙂"]
    assert "".join(pieces) == tok.decode(ids[:-1])
    assert names[0] == "\\xc3"
    assert names[-1] == "<|endoftext|>"


def test_merges_may_be_listed_before_those_that_make_their_parts(run: Any) -> None:
    tok = tokenizer.train([CODE * 3], vocab_size=300)
    tok = Tokenizer(replace(tok.vocabulary, merges=tok.vocabulary.merges[::-1], whole_words=True))
    assert for_web_page(tok.vocabulary)["others"]
    check(run, tok, texts(200))
