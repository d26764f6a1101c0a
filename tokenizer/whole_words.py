"""Words that are tokens although no merge makes them: Llama 3's `ignore_merges`, and every tokenizer of tiktoken.

Their rule is: a word that is a token as a whole becomes it at once, and only other words are merged. For nearly all
tokens that changes nothing, because merging the bytes of a token gives that token. So the few for which it does not
are found when a tokenizer is made; if there are none, the rule can be forgotten.
"""

from __future__ import annotations

from dataclasses import replace

from tokenizer.encoder import Encoder
from tokenizer.split import compiled
from tokenizer.vocabulary import Vocabulary


class WholeWordEncoder:
    """Encodes word by word, and looks each one up among the tokens that merges do not reach."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Find the tokens that merges do not reach."""
        self._split = compiled(vocabulary.split)
        self._merging = Encoder(replace(vocabulary, split="none", whole_words=False))
        self.unreached: dict[str, int] = {}
        for token, number in vocabulary.ids.items():
            word = token.decode("utf-8", "replace")
            # A token that is no UTF-8 is never a word of a text.
            if word.encode() == token and list(self._merging.encode(word)) != [number]:
                self.unreached[word] = number

    def encode(self, text: str) -> list[int]:
        """Return the ids of a text without special tokens; raises TokenizerError for a lone surrogate."""
        ids: list[int] = []
        for word in self._split.findall(text):
            ids += [self.unreached[word]] if word in self.unreached else self._merging.encode(word)
        return ids


def encoder_of(vocabulary: Vocabulary) -> Encoder | WholeWordEncoder:
    """Return the encoder that a vocabulary needs: the plain one unless whole words make a difference."""
    if vocabulary.whole_words:
        careful = WholeWordEncoder(vocabulary)
        if careful.unreached:
            return careful
    return Encoder(vocabulary)
