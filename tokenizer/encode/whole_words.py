"""Words that are tokens although no merge makes them: Llama 3's `ignore_merges`, and every tokenizer of tiktoken.

Their rule is: a word that is a token becomes this token at once, and only other words are merged. For nearly all tokens
the rule changes nothing, because merging the bytes of a token gives that token. The few exceptions are found when a
tokenizer is made; if there are none, the plain encoder is used.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from tokenizer.encode.encoder import Encoder
from tokenizer.text.split import compiled, words_of
from tokenizer.vocabulary import Vocabulary


class WholeWordEncoder:
    """Encodes word by word; words whose token no merges make are looked up."""

    may_cut = False

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Find the tokens that merges do not make."""
        self._split = compiled(vocabulary.split)
        self._merging = Encoder(replace(vocabulary, split="none", whole_words=False))
        words = {}
        for token, number in vocabulary.ids.items():
            word = token.decode("utf-8", "ignore")
            if word.encode() == token:  # a token that is not UTF-8 is never a word of a text
                words[word] = number
        merged = zip(words.items(), self._merging.encode_batch(words), strict=True)
        self.unreached = {word: number for (word, number), ids in merged if ids.tolist() != [number]}

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text; raises TokenizerError for a lone surrogate."""
        words = words_of(text, self._split)
        different = list(dict.fromkeys(words))
        ids = {
            word: found.tolist() for word, found in zip(different, self._merging.encode_batch(different), strict=True)
        }
        ids |= {word: [self.unreached[word]] for word in different if word in self.unreached}
        return [number for word in words for number in ids[word]]

    def encode_batch(self, texts: Iterable[str], threads: int | None = None) -> list[NDArray[np.int32]]:
        """Return the ids of each text; one thread looks up the words, as few tokenizers need this encoder."""
        return [np.array(self.encode(text), np.int32) for text in texts]


def encoder_of(vocabulary: Vocabulary) -> Encoder | WholeWordEncoder:
    """Return the encoder that a vocabulary needs: the plain one unless `whole_words` changes some encoding."""
    if vocabulary.whole_words:
        encoder = WholeWordEncoder(vocabulary)
        if encoder.unreached:
            return encoder
    return Encoder(vocabulary)
