"""Vidya v1's tokenizer, as its author built it, with one fault repaired.

Text is not split into words, so a merge may cross a space: ` of the ` can be one token. The base tokens are the bytes
that occur in the corpus, 185 in the author's. With 2,000 merges and 3 special tokens these are 2,188 ids, in this
order:

    bytes of the corpus, merges, <BOS>, <|user|>, <|assistant|>

The original drops every byte that its corpus did not contain, without notice: an unknown character disappears. Here
these bytes get the next ids. So every text is decoded unchanged, all other ids are as documented, and a model for texts
of every kind needs 71 more rows (2,259).

A conversation is one line, `<|user|> Hi! <|assistant|> Hello. <|user|> ...`, encoded by itself between two <BOS>.

Source: rolandnsharp/vidya at 0a4dfca, `ocaml/vidya/lib/bpe` (facts only), and the author's posts of February 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Unpack

from tokenizer import bpe
from tokenizer.bpe import Resources, Tokenizer
from tokenizer.errors import TokenizerError
from tokenizer.text.added_tokens import special_pattern
from tokenizer.text.chunks import checked
from tokenizer.text.unicode import encode_utf8
from tokenizer.vocabulary import Vocabulary

BORDER = "<BOS>"
SPECIALS = (BORDER, "<|user|>", "<|assistant|>")


def train(lines: Iterable[str], num_merges: int = 2000, **resources: Unpack[Resources]) -> Tokenizer:
    """Learn a tokenizer from conversations, one per line; no merge contains a special token.

    There are fewer than `num_merges` merges if no pair occurs twice any more. `resources` are those of
    `tokenizer.train`.
    Raises TokenizerError for a negative `num_merges`, or if `lines` is not an iterable of str.

    >>> tokenizer = train(["<|user|> Hi! <|assistant|> Hi!"] * 2, num_merges=3)
    >>> tokenizer.decode_bytes([0]), tokenizer.decode_bytes([4]), tokenizer.specials
    (b' ', b' H', {'<BOS>': 7, '<|user|>': 8, '<|assistant|>': 9})
    """
    if num_merges < 0:
        raise TokenizerError(f"num_merges={num_merges}: expected 0 or more.")
    seen: set[int] = set()
    size = len(SPECIALS) + 256 + num_merges
    learned = bpe.train(_collecting_bytes(lines, seen), size, split="none", special_tokens=SPECIALS, **resources)
    merges = learned.vocabulary.merges
    known = [*(bytes([byte]) for byte in sorted(seen)), *(left + right for left, right in merges)]
    unknown = [bytes([byte]) for byte in range(256) if byte not in seen]
    specials = {name: len(known) + i for i, name in enumerate(SPECIALS)}
    first = len(known) + len(specials)
    ids = {token: i for i, token in enumerate(known)} | {token: first + i for i, token in enumerate(unknown)}
    return Tokenizer(
        Vocabulary(
            split="none",
            ids=ids,
            merges=merges,
            specials=specials,
            size=len(ids) + len(specials),
            end_of_text=BORDER,
            begin_of_text=BORDER,
            before=(BORDER,),
            after=(BORDER,),
        )
    )


def train_to_size(texts: Iterable[str], vocab_size: int = 4096, **resources: Unpack[Resources]) -> Tokenizer:
    """Learn a tokenizer of `vocab_size` ids from the lines of texts, line by line.

    So a merge crosses spaces and never a line end. Raises TokenizerError if vocab_size is not a whole number, or too
    small for the bytes.

    >>> train_to_size(["to be or not to be", "to be or not"] * 2, 265).decode_bytes([10])
    b'to be'
    """
    num_merges = bpe.checked_size(vocab_size, len(SPECIALS)) - len(SPECIALS) - 256
    lines = (line for text in checked(texts) for line in text.splitlines())
    return train(lines, num_merges, **resources)


def _collecting_bytes(lines: Iterable[str], seen: set[int]) -> Iterator[str]:
    """Yield the lines unchanged, and add the bytes of their text, without special tokens, to `seen`."""
    if isinstance(lines, str):
        raise TokenizerError("lines is one string, expected a list of them: pass text.splitlines().")
    pattern = special_pattern(SPECIALS)
    for line in lines:
        if isinstance(line, str):  # training refuses anything else and names its index
            for part in pattern.split(line)[::2]:
                seen.update(encode_utf8(part))
        yield line


KINDS = {"byte-level": bpe.train, "vidya-v1": train_to_size}
"""What can be learned from texts, by name: functions of the texts and the number of ids."""
