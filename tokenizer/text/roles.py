"""The roles of special tokens: which one ends a document, which begins one, and which fills the rows of a batch.

The settings of a tokenizer name them: `eos_token`, `bos_token` and `pad_token` in a tokenizer_config.json. Where they
do not, the token has one of the names that published tokenizers give it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TypedDict

from tokenizer.text.added_tokens import SPECIAL_TOKENS

END_OF_TEXT = SPECIAL_TOKENS[0]
# The roles by their names in a tokenizer_config.json, and the fields of a Vocabulary that name their tokens.
ROLES = {"bos_token": "begin_of_text", "eos_token": "end_of_text", "pad_token": "padding"}
KNOWN_NAMES = {
    "bos_token": ("<bos>", "<s>", "<|begin_of_text|>", "<BOS>", "[BOS]"),
    "eos_token": (END_OF_TEXT, "<eos>", "</s>", "<|end_of_text|>", "<EOS>", "[EOS]"),
    "pad_token": ("<pad>", "<|pad|>", "<PAD>", "[PAD]"),
}


class Roles(TypedDict):
    """The fields of a Vocabulary that name the tokens of the roles, "" for one that is missing."""

    begin_of_text: str
    end_of_text: str
    padding: str


def find(specials: Collection[str], given: Mapping[str, str]) -> Roles:
    """Return the tokens of the roles: as given by role, else the tokens with a usual name.

    A token that ends a document is always named, so that an error can name it where the tokenizer lacks it.

    >>> find(["<pad>", "<bos>", "<stop>"], {"eos_token": "<stop>"})
    {'begin_of_text': '<bos>', 'end_of_text': '<stop>', 'padding': '<pad>'}
    """
    usual = {role: next((name for name in KNOWN_NAMES[role] if name in specials), "") for role in ROLES}
    named = {**usual, **given}
    end = named["eos_token"] or END_OF_TEXT
    return Roles(begin_of_text=named["bos_token"], end_of_text=end, padding=named["pad_token"])
