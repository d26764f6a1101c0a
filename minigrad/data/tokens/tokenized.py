"""A corpus as tokens: training, validation and test text, and the number of bytes of each token."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from minigrad.data.corpus import Corpus
from minigrad.data.mixture import Mixture
from minigrad.data.tokens.token_files import TokenFile, TokenMixture, prepare
from minigrad.typing import Array, Tokenizer


@dataclass(frozen=True)
class TokenizedCorpus:
    """The text of a run, as documents and as tokens."""

    corpus: Corpus | Mixture
    tokenizer: Tokenizer
    train: TokenFile | TokenMixture
    validation: TokenFile
    byte_lengths: Array  # (vocab_size of the model,), to convert nats per token into bits per byte

    @classmethod
    def of(cls, corpus: Corpus | Mixture, tokenizer: Tokenizer, vocab_size: int = 0) -> TokenizedCorpus:
        """Encode a corpus, whose tokens are kept in the cache folder; the model may know more tokens (`vocab_size`)."""
        each = corpus.parts if isinstance(corpus, Mixture) else (corpus.split(),)
        files = tuple(prepare(parts.train, tokenizer) for parts in each)
        train = TokenMixture(files, corpus.shares) if isinstance(corpus, Mixture) else files[0]
        validation = prepare(corpus.split().validation, tokenizer)
        lengths = token_byte_lengths(tokenizer, max(vocab_size, tokenizer.vocab_size))
        return cls(corpus, tokenizer, train, validation, lengths)

    @functools.cached_property
    def test(self) -> TokenFile:
        """The test text, encoded when it is first used."""
        return prepare(self.corpus.split().test, self.tokenizer)


def token_byte_lengths(tokenizer: Tokenizer, vocab_size: int) -> Array:
    """Return the number of bytes of each token (vocab_size,); 0 for special tokens and unused ids.

    A tokenizer with byte fallback puts a space before each text. Each document has one token that ends it; this token
    then counts as -1 byte, so that the bytes of a text's tokens add up to those of the text.
    """
    specials = set(tokenizer.specials.values())
    lengths = np.zeros(vocab_size, np.int64)
    for token in tokenizer.ids:
        if token < vocab_size and token not in specials:
            lengths[token] = len(tokenizer.decode_bytes([token]))
    if added := len(tokenizer.decode_bytes(tokenizer.encode("a"))) - 1:
        lengths[tokenizer.end_of_text_id] = -added
    return lengths
