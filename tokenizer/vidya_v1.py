"""Vidya v1's tokenizer and its conversation files, as its author built them, with one fault repaired.

Text is not split into words, so a merge may cross a space: ` of the ` can be one token. The base tokens are the bytes
that occur in the corpus, 185 in the author's. With 2,000 merges and 3 special tokens these are 2,188 ids, in this
order:

    bytes of the corpus, merges, <BOS>, <|user|>, <|assistant|>

The original drops every byte that its corpus did not contain, without a notice: an unknown character disappears. Here
these bytes get the next ids. So every text is decoded unchanged, all other ids are as documented, and a model for texts
of every kind needs 71 more rows (2,259).

A conversation is one line, `<|user|> Hi! <|assistant|> Hello. <|user|> ...`, and each line is encoded by itself,
between two <BOS>. Encoded as one long stream, the next line taught the model to answer with a question.

Source: rolandnsharp/vidya at 0a4dfca, `ocaml/vidya/lib/bpe` (facts only), and the author's posts of February 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Unpack

from tokenizer import bpe
from tokenizer.bpe import Resources, Tokenizer
from tokenizer.errors import TokenizerError
from tokenizer.text.added_tokens import special_pattern
from tokenizer.text.unicode import encode_utf8
from tokenizer.vocabulary import Vocabulary

BORDER = "<BOS>"
MARKERS = ("<|user|>", "<|assistant|>")
SPECIALS = (BORDER, *MARKERS)


def train(lines: Iterable[str], num_merges: int = 2000, **resources: Unpack[Resources]) -> Tokenizer:
    """Learn a tokenizer from conversations, one per line; no merge contains a special token.

    The ids are, in this order: the bytes that occur, the merges, SPECIALS, and the bytes that do not occur. There are
    fewer than `num_merges` merges if no pair occurs twice any more.
    `resources` are those of `tokenizer.train`.
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

    So a merge crosses spaces and never a line end. Raises TokenizerError if vocab_size is too small for the bytes.

    >>> train_to_size(["to be or not to be", "to be or not"] * 2, 265).decode_bytes([10])
    b'to be'
    """
    smallest = len(SPECIALS) + 256
    if vocab_size < smallest:
        raise TokenizerError(
            f"vocab_size={vocab_size} is too small: 256 bytes and {len(SPECIALS)} special tokens need {smallest}."
        )
    return train((line for text in texts for line in text.splitlines()), vocab_size - smallest, **resources)


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


def encode_lines(tokenizer: Tokenizer, lines: Iterable[str]) -> Iterator[list[int]]:
    """Yield the ids of each conversation between two <BOS>; there is one per line, and empty lines are skipped.

    The markers in a line count as special tokens, so the lines must be written by the program, as `line_of` does.
    """
    for line in lines:
        if text := line.rstrip("\r\n"):
            yield tokenizer.encode_document(text, allow_special=MARKERS)


def line_of(messages: Iterable[Mapping[str, str]]) -> str:
    """Return a conversation as one line.

    Raises TokenizerError for a role other than user and assistant, for a message with a line break, which would end the
    line, and for a message that contains a special token, which could imitate the other speaker.

    >>> line_of([{"role": "user", "content": "Hi!"}, {"role": "assistant", "content": "Hello."}])
    '<|user|> Hi! <|assistant|> Hello.'
    """
    parts = []
    for number, message in enumerate(messages):
        role, content = message.get("role"), message.get("content")
        if f"<|{role}|>" not in MARKERS or not isinstance(content, str):
            raise TokenizerError(
                f"message {number} is {dict(message)!r}: expected the role user or assistant, and a text as content."
            )
        for forbidden in ("\n", "\r", *SPECIALS):
            if forbidden in content:
                raise TokenizerError(
                    f"message {number} has {forbidden!r}, which a line of conversation cannot hold: replace it by a "
                    "space."
                )
        parts += [f"<|{role}|>", content]
    return " ".join(parts)


KINDS = {"byte-level": bpe.train, "vidya-v1": train_to_size}
"""What can be learned from texts, by name: functions of the texts and the number of ids."""
