"""Vidya v1's tokenizer and its conversation files, as its author built them, with one fault repaired.

Text is not cut into words, so a merge may cross a space: ` of the ` can be one token. The alphabet is the bytes that
the corpus has, 185 of them in its own; with 2,000 merges and 3 special tokens these are 2,188 ids, in this order:

    bytes of the corpus, merges, <BOS>, <|user|>, <|assistant|>

The original drops every byte that its corpus did not have, silently: an unknown letter vanishes. Here those bytes get
the ids behind these, so every text comes back, the ids of all others are as documented, and a model for texts of
every kind needs 71 rows more (2,259).

A conversation is one line, `<|user|> Hi! <|assistant|> Hello. <|user|> ...`, and each line is encoded alone, between
two <BOS>: as one long stream, the line that follows taught the model to answer with a question.

Source: rolandnsharp/vidya at 0a4dfca, `ocaml/vidya/lib/bpe` (facts only), and the author's posts of February 2026.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from tokenizer import bpe
from tokenizer.bpe import Tokenizer
from tokenizer.errors import TokenizerError
from tokenizer.text.alphabet import utf8
from tokenizer.text.split import special_pattern
from tokenizer.vocabulary import Vocabulary

BORDER = "<BOS>"
MARKERS = ("<|user|>", "<|assistant|>")
SPECIALS = (BORDER, *MARKERS)


def train(lines: Iterable[str], num_merges: int = 2000, *, progress: bool = False) -> Tokenizer:
    """Learn a tokenizer from conversations, one a line; the markers are borders and are not learned from.

    >>> tokenizer = train(["<|user|> Hi! <|assistant|> Hi!"] * 2, num_merges=3)
    >>> tokenizer.decode_bytes([0]), tokenizer.decode_bytes([4]), tokenizer.specials
    (b' ', b' H', {'<BOS>': 7, '<|user|>': 8, '<|assistant|>': 9})
    """
    if num_merges < 0:
        raise TokenizerError(f"num_merges={num_merges}: expected 0 or more.")
    seen: set[int] = set()
    size = len(SPECIALS) + 256 + num_merges
    learned = bpe.train(_noting_bytes(lines, seen), size, split="none", special_tokens=SPECIALS, progress=progress)
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
            before=(BORDER,),
            after=(BORDER,),
        )
    )


def _noting_bytes(lines: Iterable[str], seen: set[int]) -> Iterator[str]:
    """Hand the lines on, and note the bytes of their text in `seen`."""
    if isinstance(lines, str):
        raise TokenizerError("lines is one string, and training reads a list of them: pass text.splitlines().")
    borders = special_pattern(SPECIALS)
    for line in lines:
        if isinstance(line, str):  # training refuses anything else, naming its place
            for piece in borders.split(line)[::2]:
                seen.update(utf8(piece))
        yield line


def encode_lines(tokenizer: Tokenizer, lines: Iterable[str]) -> Iterator[list[int]]:
    """Go through conversations, one a line: the ids of each alone, between two <BOS>; empty lines are skipped.

    The markers count as such, so the lines must be the program's own, as `line_of` makes them.
    """
    for line in lines:
        if text := line.rstrip("\r\n"):
            yield tokenizer.encode_document(text, allow_special=MARKERS)


def line_of(messages: Iterable[Mapping[str, str]]) -> str:
    """Return a conversation as one line.

    Raises TokenizerError for a role other than user and assistant, and for a message that has a line break, which
    would end the line, or spells a special token, which would speak as somebody else.

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
        for hurdle in ("\n", "\r", *SPECIALS):
            if hurdle in content:
                raise TokenizerError(
                    f"message {number} has {hurdle!r}, which a line of conversation cannot hold: replace it by a space."
                )
        parts += [f"<|{role}|>", content]
    return " ".join(parts)
