"""Rank files (.tiktoken): the tokens of GPT-4 and others as OpenAI's tiktoken library reads them.

    IQ== 0
    Ig== 1

Each line has the bytes of a token in base64, and its rank, which is also its id. There are no merges: of all adjacent
tokens in a word that together are a token, those of the lowest rank are merged first. And a word that is a token
becomes this token at once.

The merges can be reconstructed. Encode the bytes of a token by the ranks; the last merge joins two parts, and this
token is never made of any others. The reason: within the token's bytes, merges happen in the same order in every word
in which no merge crosses the token's borders.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

from tokenizer.disk import read_file, write_file
from tokenizer.errors import TokenizerError
from tokenizer.text.added_tokens import find_roles
from tokenizer.vocabulary import Vocabulary

_FIM = {"<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260}

SUFFIX = ".tiktoken"
PUBLISHED: dict[str, tuple[str, dict[str, int]]] = {
    "r50k_base": ("gpt2", {"<|endoftext|>": 50256}),
    "p50k_base": ("gpt2", {"<|endoftext|>": 50256}),
    "cl100k_base": ("gpt4", {"<|endoftext|>": 100257, **_FIM, "<|endofprompt|>": 100276}),
    "o200k_base": ("gpt4o", {"<|endoftext|>": 199999, "<|endofprompt|>": 200018}),
}
"""The rank files that OpenAI publishes: the split of each, and its special tokens. Source: tiktoken 0.14."""

NO_RANK = 2**62  # greater than every rank


def check(vocabulary: Vocabulary) -> None:
    """Raise TokenizerError if tiktoken would encode some text differently."""
    ranks = vocabulary.ids
    unsupported = {
        "NFC": vocabulary.nfc,
        "added tokens that are not special": vocabulary.added,
        "byte fallback": vocabulary.byte_ids,
        "tokens around every document": vocabulary.before or vocabulary.after,
    }
    if found := [name for name, present in unsupported.items() if present]:
        raise TokenizerError(f"a rank file cannot store {', '.join(found)}: save as tokenizer.json.")
    merges_make_all = len(vocabulary.merges) == len(ranks) - 256
    if _merges_by(ranks) != vocabulary.merges or not (merges_make_all or vocabulary.whole_words):
        raise TokenizerError(
            "a rank file stores a token's id and its place in the order of merges as one number, and this tokenizer's "
            "ids do not rise in the order of its merges: save as tokenizer.json."
        )


def write(vocabulary: Vocabulary, file: Path) -> None:
    """Write the ordinary tokens; the split and the special tokens must be given to tiktoken, and to `read`."""
    ranks = vocabulary.ids
    in_order = sorted(ranks, key=ranks.__getitem__)
    write_file(file, b"".join([b"%b %d\n" % (base64.b64encode(token), ranks[token]) for token in in_order]))


def read(file: Path, split: str | None = None, special_tokens: Mapping[str, int] | None = None) -> Vocabulary:
    """Read a rank file, given what it does not contain: the split and the special tokens.

    Both may be left out for the files in PUBLISHED, which are recognised by their names.
    Raises TokenizerError naming the file and the line.
    """
    known_split, known_specials = PUBLISHED.get(file.stem, (None, {}))
    split = known_split if split is None else split
    if split is None:
        raise TokenizerError(
            f"{file} does not contain its split, and its name is none of {', '.join(PUBLISHED)}: "
            "load it with the name of a split, as in --split gpt4 of python -m tokenizer, or split='gpt4' in Python."
        )
    ranks = _ranks(file)
    specials = dict(known_specials if special_tokens is None else special_tokens)
    merges = _merges_by(ranks)
    try:
        return Vocabulary(
            split=split,
            ids=ranks,
            merges=merges,
            specials=specials,
            size=1 + max([*ranks.values(), *specials.values()], default=-1),
            **find_roles(specials, {}),
            whole_words=len(merges) < len(ranks) - 256,
        )
    except TokenizerError as error:
        raise TokenizerError(f"{file}: {error}") from error


def _ranks(file: Path) -> dict[bytes, int]:
    """Return the tokens of a rank file and their ranks."""
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(read_file(file).split(b"\n"), start=1):
        if not line:
            continue
        try:
            spelling, rank = line.split(b" ")
            token = base64.b64decode(spelling, validate=True)
            value = int(rank)
        except (ValueError, binascii.Error) as error:
            raise TokenizerError(f"{file}, line {number} is {line!r:.60}, expected base64, a space, a rank.") from error
        if not token or token in ranks:
            raise TokenizerError(f"{file}, line {number} is {line!r:.60}: the token is empty, or is there already.")
        ranks[token] = value
    return ranks


def _merges_by(ranks: Mapping[bytes, int]) -> tuple[tuple[bytes, bytes], ...]:
    """Return the merge that makes each token, in the order of ranks, without the tokens that no merge makes."""
    found = (_last_merge(token, ranks) for token in sorted(ranks, key=ranks.__getitem__) if len(token) > 1)
    return tuple(merge for merge in found if merge is not None)


def _last_merge(token: bytes, ranks: Mapping[bytes, int]) -> tuple[bytes, bytes] | None:
    """Merge the bytes of a token by the ranks; return the last two parts, or None if more than two are left.

    >>> _last_merge(b"aaa", {b"a": 0, b"aa": 1, b"aaa": 2})
    (b'aa', b'a')
    """
    parts = [bytes([byte]) for byte in token]
    while len(parts) > 2:
        joined = [ranks.get(left + right, NO_RANK) for left, right in pairwise(parts)]
        i = joined.index(min(joined))
        if joined[i] == NO_RANK:
            return None
        parts[i : i + 2] = [parts[i] + parts[i + 1]]
    return parts[0], parts[1]
