"""Byte-pair encoding that begins with characters: Llama 2's, TinyLlama's and Mistral's.

A text begins as one token per character. A character that has none becomes the tokens of its bytes in UTF-8 ("byte
fallback"), which are spelled `<0x00>` to `<0xFF>`. Then pairs are merged as anywhere else, across the whole text, whose
spaces are marked (text/spelling.py).

Decoding follows Hugging Face's tokenizers library: bytes in a row that are not UTF-8 become one U+FFFD for each byte.
"""

from __future__ import annotations

from collections.abc import Iterable

from tokenizer.encode.merging import Workspace, merge_table, merge_word
from tokenizer.errors import TokenizerError
from tokenizer.text.unicode import encode_utf8
from tokenizer.vocabulary import Vocabulary


class CharacterEncoder:
    """Encodes texts whose spaces are marked; special tokens in a text are ordinary characters."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        ids = vocabulary.ids
        self._merges = merge_table((ids[left], ids[right], ids[left + right]) for left, right in vocabulary.merges)
        self._byte_ids = vocabulary.byte_ids
        texts = {token.decode(): number for token, number in ids.items()}
        self._characters = {text: [number] for text, number in texts.items() if len(text) == 1}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; raises TokenizerError for a lone surrogate."""
        encode_utf8(text)
        tokens: list[int] = []
        for character in text:
            tokens += self._characters.get(character) or [self._byte_ids[byte] for byte in character.encode()]
        work = Workspace.of(len(tokens))
        work.tokens[:] = tokens
        number = merge_word(work, len(tokens), self._merges)
        found: list[int] = work.tokens[:number].tolist()
        return found


def decode_with_fallback(vocabulary: Vocabulary, ids: Iterable[int], errors: str) -> str:
    """Return the text of ids, with the space before it; raises TokenizerError for broken bytes if errors="strict"."""
    bytes_by_id = {number: byte for byte, number in enumerate(vocabulary.byte_ids)}
    parts: list[str] = []
    row = bytearray()
    for number in [*ids, None]:
        if number in bytes_by_id:
            row.append(bytes_by_id[number])
            continue
        try:
            parts.append(row.decode())
        except UnicodeDecodeError as error:
            if errors == "strict":
                raise TokenizerError(f"the bytes {bytes(row)!r} in a row are not UTF-8 ({error.reason}).") from error
            parts.append("\ufffd" * len(row))
        row.clear()
        if number is not None:
            parts.append(vocabulary.token_bytes.get(number, b"").decode())
    return "".join(parts)
