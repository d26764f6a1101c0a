"""A corpus as tokens: training and held-out text, and the number of bytes of each token."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from minigrad.data.corpus import Corpus
from minigrad.data.mixture import Mixture
from minigrad.data.token_files import MixedTokens, TokenFile, prepare
from minigrad.typing import Array, Tokenizer


@dataclass(frozen=True)
class TokenizedCorpus:
    """The text of a run, as documents and as tokens."""

    corpus: Corpus | Mixture
    tokenizer: Tokenizer
    train: TokenFile | MixedTokens
    held_out: TokenFile
    byte_lengths: Array  # (V,), to convert nats per token into bits per byte

    @classmethod
    def of(cls, corpus: Corpus | Mixture, tokenizer: Tokenizer) -> TokenizedCorpus:
        """Encode a corpus; the tokens are kept in the cache folder."""
        corpora = corpus.corpora if isinstance(corpus, Mixture) else (corpus,)
        files = tuple(prepare(each.split()[0], tokenizer) for each in corpora)
        train = MixedTokens(files, corpus.shares) if isinstance(corpus, Mixture) else files[0]
        held_out = prepare(corpus.split()[1], tokenizer)
        return cls(corpus, tokenizer, train, held_out, token_byte_lengths(tokenizer, tokenizer.vocab_size))


def token_byte_lengths(tokenizer: Tokenizer, vocab_size: int) -> Array:
    """Return the number of bytes of each token (vocab_size,); 0 for special tokens and unused ids."""
    specials = set(tokenizer.specials.values())
    lengths = np.zeros(vocab_size, np.int64)
    for token in tokenizer.ids:
        if token < vocab_size and token not in specials:
            lengths[token] = len(tokenizer.decode_bytes([token]))
    return lengths
