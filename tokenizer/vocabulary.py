"""The vocabulary of a tokenizer: tokens, their ids, the merges in order, and the special tokens."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass, field
from functools import cached_property
from unicodedata import unidata_version

from tokenizer.errors import TokenizerError
from tokenizer.text.added_tokens import END_OF_TEXT
from tokenizer.text.spelling import spell, unmark_spaces
from tokenizer.text.split import compiled
from tokenizer.text.unicode import encode_utf8
from tokenizer.text.word_rules import character_classes

LARGEST_SIZE = 2**24  # far beyond any real vocabulary: a larger id means a damaged file


@dataclass(frozen=True)
class Vocabulary:
    """Everything that decides encoding, as plain data that is checked when it is made.

    Ids are always looked up and never computed, because files of other libraries number their tokens differently.
    Raises TokenizerError if a byte has no token, a merge has no result, or two tokens share an id or a spelling.
    """

    split: str  # how text is split into words: a name in split.SPLITS, or a pattern
    ids: dict[bytes, int]  # every ordinary token: the 256 bytes and the results of merges
    merges: tuple[tuple[bytes, bytes], ...]  # in the order of learning, which is the order of merging
    specials: dict[str, int]  # tokens that no ordinary text is encoded to
    size: int  # all ids are smaller; some may have no token
    end_of_text: str = END_OF_TEXT  # the special token between documents
    # Tokens of other roles, "" where there are none. A model's config tells other programs their ids.
    begin_of_text: str = ""
    padding: str = ""
    # For files of other libraries; of our own, `bpe.train` may set `nfc`, and Vidya v1 sets `before` and `after`.
    added: dict[str, int] = field(default_factory=dict)  # split off every text, before it is split into words
    normalized: frozenset[str] = frozenset()  # the special and added tokens that are found last, after NFC
    nfc: bool = False  # text is first composed: `e` and an accent become `é` (Unicode's normal form C)
    whole_words: bool = False  # a word that is a token becomes that token, whatever the merges would give
    before: tuple[str, ...] = ()  # the special tokens before every document
    after: tuple[str, ...] = ()  # the special tokens after every document
    # The ids of the 256 bytes of characters without a token. If given, encoding begins with characters (see
    # encode/characters.py), the ordinary tokens are UTF-8 with marked spaces, and no byte need be one of them.
    byte_ids: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if self.size > LARGEST_SIZE:
            raise TokenizerError(f"the vocabulary has {self.size:,} ids, and at most {LARGEST_SIZE:,} can be used.")
        if len(self.byte_ids) not in (0, 256):
            raise TokenizerError(f"byte_ids has {len(self.byte_ids)} ids, expected one for each of the 256 bytes.")
        for byte in range(256):
            if bytes([byte]) not in self.ids and not self.byte_ids:
                raise TokenizerError(f"byte 0x{byte:02x} has no token, so some texts could not be encoded.")
        for left, right in self.merges:
            for token in (left, right, left + right):
                if token not in self.ids:
                    raise TokenizerError(
                        f"the merge of {self.spelling(left)!r} and {self.spelling(right)!r} needs the token "
                        f"{self.spelling(token)!r}, which is not in the vocabulary."
                    )
        if repeated := [merge for merge, count in Counter(self.merges).items() if count > 1]:
            raise TokenizerError(f"the merge of {' and '.join(map(self.spelling, repeated[0]))} is listed twice.")
        self._check_names()
        owners = Counter([*self.ids.values(), *self.specials.values(), *self.added.values(), *self.byte_ids])
        for number, count in owners.items():
            if not 0 <= number < self.size:
                raise TokenizerError(f"id {number} is out of range: expected 0 to {self.size - 1}.")
            if count > 1:
                raise TokenizerError(f"id {number} is given to {count} tokens, expected one.")

    def _check_names(self) -> None:
        """Check the names of the special and added tokens."""
        spellings = {self.spelling(token) for token in self.ids}
        for name in (*self.specials, *self.added):
            encode_utf8(name)
            if not name or name in spellings:
                raise TokenizerError(
                    f"the special token {name!r} is empty or spelled like an ordinary token; choose one "
                    "that no text contains, such as '<|name|>'."
                )
        if both := set(self.specials) & set(self.added):
            raise TokenizerError(f"{min(both)!r} is both a special token and an added one: choose one of the two.")
        for name in (*self.before, *self.after):
            if name not in self.specials:
                raise TokenizerError(f"{name!r} is placed around every document, but it is not a special token.")

    def spelling(self, token: bytes) -> str:
        """Return an ordinary token as files spell it: in the byte alphabet, or, with `byte_ids`, as it is."""
        return token.decode() if self.byte_ids else spell(token)

    @cached_property
    def token_bytes(self) -> dict[int, bytes]:
        """The bytes of each id that has a token; those of a special or added token are its name."""
        ordinary = {number: token for token, number in self.ids.items()}
        if self.byte_ids:
            ordinary = {number: unmark_spaces(token.decode()).encode() for number, token in ordinary.items()}
            ordinary |= {number: bytes([byte]) for byte, number in enumerate(self.byte_ids)}
        added = self.specials | self.added
        return ordinary | {number: name.encode() for name, number in added.items()}

    def fingerprint(self) -> str:
        """Return a hash of everything that decides encoding: equal hashes mean equal token ids for every text.

        The `regex` library decides which characters are letters, and Python how accents are composed: both count.
        """
        merges = [[spell(left), spell(right)] for left, right in self.merges]
        ids = sorted([number, spell(token)] for token, number in self.ids.items())
        specials, added = sorted(self.specials.items()), sorted(self.added.items())
        everything = [compiled(self.split).pattern, ids, merges, specials, self.size, self.end_of_text]
        more = [added, sorted(self.normalized), self.nfc, self.whole_words, self.before, self.after]
        everything += [each for each in (any(more) and more, self.byte_ids, self.nfc and unidata_version) if each]
        return hashlib.sha256(json.dumps(everything).encode() + character_classes().tobytes()).hexdigest()
