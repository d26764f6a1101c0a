"""A corpus as tokens: training and held-out text, and the number of bytes of each token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minigrad.data.corpus import Corpus
from minigrad.data.token_files import TokenFile, prepare
from minigrad.typing import Array, Tokenizer


@dataclass(frozen=True)
class TokenizedCorpus:
    """The text of a run, as documents and as tokens."""

    corpus: Corpus
    tokenizer: Tokenizer
    train: TokenFile
    held_out: TokenFile
    byte_lengths: Array  # (V,), to convert nats per token into bits per byte

    @classmethod
    def of(cls, corpus: Corpus, tokenizer: Tokenizer) -> TokenizedCorpus:
        """Encode a corpus; the tokens are kept in the cache folder."""
        train, held_out = (prepare(documents, tokenizer) for documents in corpus.split())
        return cls(corpus, tokenizer, train, held_out, token_byte_lengths(tokenizer, tokenizer.vocab_size))


def token_byte_lengths(tokenizer: Tokenizer, vocab_size: int) -> Array:
    """Return the number of bytes of each token (vocab_size,); 0 for special tokens and unused ids."""
    specials = set(tokenizer.specials.values())
    lengths = np.zeros(vocab_size, np.int64)
    for token in tokenizer.ids:
        if token < vocab_size and token not in specials:
            lengths[token] = len(tokenizer.decode_bytes([token]))
    return lengths
