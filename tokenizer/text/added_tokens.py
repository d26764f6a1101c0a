r"""Special and added tokens: tokens that no merge makes, found in a text by their names.

A special token marks structure: the end of a document, the beginning of a user's message. If a user could type one, a
user could end the document or write as another speaker. So a special token counts only where the program allows it;
everywhere else its name is ordinary characters.

Tokenizers of other libraries also have added tokens that are not special, such as a run of twenty spaces. These are
split off every text. Hugging Face's tokenizers library finds most added tokens in the text as it came; those marked
`normalized` are found in the rest, after its normalisation. This module does the same.

Some special tokens have a role: one ends a document, one begins it, one fills the rows of a batch. A
tokenizer_config.json names them; where it does not, the token has one of the names that published tokenizers give it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any, TypedDict

import regex

from tokenizer.errors import TokenizerError, did_you_mean

SPECIAL_TOKENS = ("<|endoftext|>", "<|user|>", "<|assistant|>", "<|system|>", "<|end|>")
"""The special tokens of a new tokenizer: the border between documents, and those of a chat."""
END_OF_TEXT = SPECIAL_TOKENS[0]
# The roles by their names in a tokenizer_config.json, and the fields of a Vocabulary that name their tokens.
ROLES = {"bos_token": "begin_of_text", "eos_token": "end_of_text", "pad_token": "padding"}
KNOWN_NAMES = {
    "bos_token": ("<bos>", "<s>", "<|begin_of_text|>", "<BOS>", "[BOS]"),
    "eos_token": (END_OF_TEXT, "<eos>", "</s>", "<|end_of_text|>", "<EOS>", "[EOS]"),
    "pad_token": ("<pad>", "<|pad|>", "<PAD>", "[PAD]"),
}
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


class Roles(TypedDict):
    """The fields of a Vocabulary that name the tokens of the roles, "" for one that is missing."""

    begin_of_text: str
    end_of_text: str
    padding: str


def find_roles(specials: Collection[str], given: Mapping[str, str]) -> Roles:
    """Return the tokens of the roles: as given by role, otherwise the tokens with a usual name.

    A token that ends a document is always named, so that an error can name it where the tokenizer lacks it.

    >>> find_roles(["<pad>", "<bos>", "<stop>"], {"eos_token": "<stop>"})
    {'begin_of_text': '<bos>', 'end_of_text': '<stop>', 'padding': '<pad>'}
    """
    usual = {role: next((name for name in KNOWN_NAMES[role] if name in specials), "") for role in ROLES}
    named = {**usual, **given}
    end = named["eos_token"] or END_OF_TEXT
    return Roles(begin_of_text=named["bos_token"], end_of_text=end, padding=named["pad_token"])
