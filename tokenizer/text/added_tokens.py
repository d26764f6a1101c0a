r"""Special and added tokens: tokens that no merge makes, found in a text by their names.

A special token marks structure: the end of a document, the beginning of a user's message. If a user could type one, a
user could end the document or write as another speaker. So a special token counts only where the program allows it;
everywhere else its name is ordinary characters.

Tokenizers of other libraries also have added tokens that are not special, such as a run of twenty spaces. These are
split off every text. Hugging Face's tokenizers library finds most added tokens in the text as it came; those marked
`normalized` are found in the rest, after its normalisation. This module does the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import regex

from tokenizer.errors import TokenizerError, did_you_mean

SPECIAL_TOKENS = ("<|endoftext|>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>")
"""The special tokens of a new tokenizer: the border between documents, and those of a chat."""
Normalise = Callable[[str], str]
Allowed = bool | Iterable[str]  # the special tokens that count as such in a text: none (False), all (True), or those


def special_pattern(names: Iterable[str]) -> Any:
    """Return a pattern whose only group is one of the names; where two match, the longer is taken.

    >>> special_pattern(["<|end|>"]).split("Hello<|end|>you")
    ['Hello', '<|end|>', 'you']
    """
    longest_first = sorted(names, key=len, reverse=True)
    # (?!) matches nowhere: without names, a text is not split.
    return regex.compile("(" + ("|".join(map(regex.escape, longest_first)) or "(?!)") + ")")


class AddedTokens:
    """The special and added tokens of a tokenizer, by name, and their ids; `split` finds them in a text.

    The `normalized` ones are found after all others, in text that `normalise` has changed, if it is given.
    """

    def __init__(
        self, specials: dict[str, int], added: dict[str, int], normalized: frozenset[str], normalise: Normalise | None
    ) -> None:
        self._specials, self._added, self._normalise = specials, added, normalise or str
        self._normal_names = {name: self._normalise(name) for name in normalized}
        self._ids = specials | added
        self._ids |= {normal: self._ids[name] for name, normal in self._normal_names.items()}
        # Whether `split` yields each text unchanged, as one part, if no special token is allowed.
        self.keep_text_whole = not added and normalise is None
        self._patterns: dict[frozenset[str], tuple[Any, Any]] = {}

    def allowed(self, choice: Allowed) -> frozenset[str]:
        """Return the names of the special tokens that `choice` allows: all for True, none for False, or those it lists.

        Raises TokenizerError if a listed name is not a special token, or if `choice` is a single string.
        """
        if isinstance(choice, bool):
            return frozenset(self._specials if choice else ())
        if isinstance(choice, str):
            raise TokenizerError(f"allow_special={choice!r} is one string: pass True, False or a list of names.")
        names = frozenset(choice)
        for name in names:
            if name not in self._specials:
                known = f"the special tokens are {', '.join(self._specials) or 'none'}"
                raise TokenizerError(f"allow_special names {name!r}, and {known}{did_you_mean(name, self._specials)}")
        return names

    def split(self, text: str, allowed: frozenset[str] = frozenset()) -> Iterator[str | int]:
        """Yield the parts of a text: ordinary characters as str, special and added tokens as their ids."""
        first, last = self._two_patterns(allowed)
        # A pattern has one group, so its parts alternate: text, token, text, ...
        for i, part in enumerate(first.split(text) if first else [text]):
            if i % 2:
                yield self._ids[part]
                continue
            normal = self._normalise(part)
            for j, inner in enumerate(last.split(normal) if last else [normal]):
                yield self._ids[inner] if j % 2 else inner

    def _two_patterns(self, allowed: frozenset[str]) -> tuple[Any, Any]:
        """Return the patterns of the tokens to find first and last, or None where there are no such tokens."""
        if allowed not in self._patterns:
            wanted = allowed | self._added.keys()
            first = wanted - self._normal_names.keys()
            last = {normal for name, normal in self._normal_names.items() if name in wanted}
            first_pattern, last_pattern = (special_pattern(names) if names else None for names in (first, last))
            self._patterns[allowed] = first_pattern, last_pattern
        return self._patterns[allowed]
