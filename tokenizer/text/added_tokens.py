r"""Special and added tokens: the tokens that no merge makes, found in a text by their names.

A special token says something *about* the text: here a document ends, here the user speaks. If a user could
type one, a user could end the document or speak as somebody else. So a special token is looked for only where
the program allows it; anywhere else its name is ordinary characters.

Other people's tokenizers also have added tokens that are not special, such as a run of twenty spaces. These are
cut out of every text. Hugging Face's tokenizers library looks for most tokens in the text as it came, and for
those marked `normalized` afterwards, in what is left, when the text has been composed (NFC); so does this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any
from unicodedata import normalize

from tokenizer.errors import TokenizerError
from tokenizer.text.split import special_pattern
from tokenizer.vocabulary import Vocabulary

Allowed = bool | Iterable[str]
"""Which special tokens count as such in a text: none (False), all (True), or those named."""


def composed(texts: Iterable[str]) -> Iterator[str]:
    """Go through the texts in Unicode's normal form C; what is no text is handed on for others to refuse."""
    return (normalize("NFC", text) if isinstance(text, str) else text for text in texts)


class Cutter:
    """Cuts special and added tokens out of a text, and composes the text between them if the tokenizer wants it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Look up what can be cut out."""
        self._vocabulary = vocabulary
        self._numbers = vocabulary.specials | vocabulary.added
        self._patterns: dict[frozenset[str], tuple[Any, Any]] = {}

    @property
    def is_idle(self) -> bool:
        """Whether a text is one piece, as it is, wherever no special token is allowed."""
        return not self._vocabulary.added and not self._vocabulary.nfc

    def allowed(self, choice: Allowed) -> frozenset[str]:
        """Return the special tokens that a text may contain as such; TokenizerError for a name that is none."""
        specials = self._vocabulary.specials
        if isinstance(choice, bool):
            return frozenset(specials if choice else ())
        if isinstance(choice, str):
            raise TokenizerError(f"allow_special={choice!r} is one string: pass True, False or a list of names.")
        names = frozenset(choice)
        for name in names:
            if name not in specials:
                nearest = get_close_matches(str(name), specials, n=1)
                hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
                raise TokenizerError(
                    f"allow_special names {name!r}, and the special tokens are {', '.join(specials) or 'none'}{hint}"
                )
        return names

    def cut(self, text: str, allowed: frozenset[str] = frozenset()) -> Iterator[str | int]:
        """Go through a text: pieces of ordinary characters as str, special and added tokens as their ids."""
        early, late = self._pair_of_patterns(allowed)
        # A pattern has one group, so its pieces alternate: text, token, text, ...
        for i, piece in enumerate(early.split(text) if early else [text]):
            if i % 2:
                yield self._numbers[piece]
                continue
            if self._vocabulary.nfc:
                piece = normalize("NFC", piece)
            for j, part in enumerate(late.split(piece) if late else [piece]):
                yield self._numbers[part] if j % 2 else part

    def _pair_of_patterns(self, allowed: frozenset[str]) -> tuple[Any, Any]:
        """Return the patterns of what to look for first and last; None spares a walk through the text for nothing."""
        if allowed not in self._patterns:
            wanted = allowed | self._vocabulary.added.keys()
            last = wanted & self._vocabulary.late
            early, late = (special_pattern(names) if names else None for names in (wanted - last, last))
            self._patterns[allowed] = early, late
        return self._patterns[allowed]
