"""Tokenizers that come from SentencePiece in tokenizer.json: Llama 2's, TinyLlama's and Mistral's.

Tokens are spelled as they are, with a mark in place of a space, and not in the byte alphabet. The bytes of a character
without a token have tokens of their own:

    "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "<0x00>": 3, ..., "<0xFF>": 258, "▁▁": 259, "▁t": 260, ...}

The fields around the vocabulary, below, say how spaces are marked and how the marks and bytes become text again.
"""

from __future__ import annotations

from typing import Any

from tokenizer.disk import Json
from tokenizer.errors import TokenizerError
from tokenizer.text.spelling import MARK

NORMALIZER: Json = {
    "type": "Sequence",
    "normalizers": [
        {"type": "Prepend", "prepend": MARK},
        {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
    ],
}
DECODER: Json = {
    "type": "Sequence",
    "decoders": [
        {"type": "Replace", "pattern": {"String": MARK}, "content": " "},
        {"type": "ByteFallback"},
        {"type": "Fuse"},
        {"type": "Strip", "content": " ", "start": 1, "stop": 0},
    ],
}
UNKNOWN = "<unk>"
"""The token of a character without one, in programs that know no byte fallback; no text is encoded to it here."""


def is_byte_fallback(document: Json) -> bool:
    """Return whether a tokenizer.json falls back to the bytes of characters that have no token."""
    model = document.get("model")
    return isinstance(model, dict) and model.get("byte_fallback") is True


def check_fields(document: Json) -> None:
    """Raise TokenizerError for a tokenizer.json with byte fallback whose spaces are marked in another way."""
    for name, expected in {"normalizer": NORMALIZER, "pre_tokenizer": None, "decoder": DECODER}.items():
        if document.get(name) != expected:
            raise TokenizerError(
                f"field {name} is {document.get(name)!r:.200}: with byte_fallback, only {expected!r} can be loaded."
            )
    if document["model"].get("ignore_merges"):
        raise TokenizerError("field model.ignore_merges is true: with byte_fallback, only false can be loaded.")


def byte_spelling(byte: int) -> str:
    """Return the spelling of the token of a byte.

    >>> byte_spelling(10)
    '<0x0A>'
    """
    return f"<0x{byte:02X}>"


def take_byte_ids(spelled: dict[str, Any]) -> tuple[int, ...]:
    """Remove the tokens of bytes from spellings with their ids and return the ids, in the order of bytes.

    Raises TokenizerError if a byte has none.
    """
    missing = [byte_spelling(byte) for byte in range(256) if byte_spelling(byte) not in spelled]
    if missing:
        raise TokenizerError(f"field model.vocab has no token {missing[0]}, so some texts could not be encoded.")
    return tuple(spelled.pop(byte_spelling(byte)) for byte in range(256))
