"""Hashes of what a run reads: by them a run that continues knows whether its text is still the same."""

from __future__ import annotations

import hashlib

from minigrad.data.token_files import MixedTokens, TokenFile
from minigrad.data.tokenized import TokenizedCorpus
from minigrad.training.teaching import Lessons

_PART = 1 << 22  # tokens that are hashed at a time


def fingerprints(text: TokenizedCorpus, lessons: Lessons | None, base: str = "") -> dict[str, str]:
    """Return the hashes of what a run reads, under the names of their fields in the record.

    `base` is that of the weights which adapters leave as they are.
    """
    texts = {"text": fingerprint(text.train), "held_out_text": fingerprint(text.held_out)}
    return texts | {"lessons": lessons.fingerprint() if lessons else "", "base": base}


def fingerprint(tokens: TokenFile | MixedTokens) -> str:
    """Return a hash of the tokens of one text or of several: it changes with the text and with the tokenizer."""
    digest = hashlib.blake2b(digest_size=16)
    for file in tokens.files if isinstance(tokens, MixedTokens) else (tokens,):
        for start in range(0, len(file), _PART):  # a file may be larger than the memory
            digest.update(file.tokens[start : start + _PART].tobytes())
    return digest.hexdigest()
