"""Words that are tokens although no merge makes them: Llama 3's `ignore_merges`, and every tokenizer of tiktoken.

Their rule is: a word that is a token as a whole becomes it at once, and only other words are merged. For nearly all
tokens that changes nothing, because merging the bytes of a token gives that token. So the few for which it does not
are found when a tokenizer is made; if there are none, the rule can be forgotten.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tokenizer.encode.encoder import Encoder
from tokenizer.text.split import compiled, cut
from tokenizer.vocabulary import Vocabulary


class WholeWordEncoder:
    """Encodes word by word, and looks each one up among the tokens that merges do not reach."""

    may_cut = False

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Find the tokens that merges do not reach."""
        self._split = compiled(vocabulary.split)
        self._merging = Encoder(replace(vocabulary, split="none", whole_words=False))
        words = {}
        for token, number in vocabulary.ids.items():
            word = token.decode("utf-8", "ignore")
            if word.encode() == token:  # a token that is no UTF-8 is never a word of a text
                words[word] = number
        merged = zip(words.items(), self._merging.encode_batch(words), strict=True)
        self.unreached = {word: number for (word, number), ids in merged if ids.tolist() != [number]}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text without special tokens; raises TokenizerError for a lone surrogate."""
        words = cut(self._split, text)
        different = list(dict.fromkeys(words))
        rows = {word: ids.tolist() for word, ids in zip(different, self._merging.encode_batch(different), strict=True)}
        rows |= {word: [self.unreached[word]] for word in different if word in self.unreached}
        return [number for word in words for number in rows[word]]

    def encode_batch(self, texts: Iterable[str], threads: int | None = None) -> list[NDArray[np.int32]]:
        """Return the ids of each text; these tokenizers are few, and their words are looked up by one thread."""
        return [np.array(self.encode(text), np.int32) for text in texts]


def encoder_of(vocabulary: Vocabulary) -> Encoder | WholeWordEncoder:
    """Return the encoder that a vocabulary needs: the plain one unless whole words make a difference."""
    if vocabulary.whole_words:
        careful = WholeWordEncoder(vocabulary)
        if careful.unreached:
            return careful
    return Encoder(vocabulary)
