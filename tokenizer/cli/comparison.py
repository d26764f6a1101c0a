"""Several tokenizers on one text: how much they compress it, and how fast they are.

*Bytes per token* says how much text fits into a model's context of given length. *Fertility* is the number of tokens
per word, where a word is what stands between white space; it is 1 if every word is a token. Speed is measured on the
first pass over the text and on later ones, because an encoder caches words.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from tokenizer.bpe import Tokenizer

LATER_PASSES = 5  # after the first one, at most
ENOUGH_SECONDS = 2.0  # then only the second pass may still begin, so a long text is not encoded six times


@dataclass(frozen=True)
class Measured:
    """The measurements of one tokenizer."""

    vocab_size: int
    num_tokens: int
    first_seconds: float  # of the first pass over the text
    later_seconds: float  # of the fastest later one


def measure(tokenizer: Tokenizer, text: str) -> Measured:
    """Encode a text several times; return the tokens and the time of the first pass and of the fastest later one."""
    tokenizer.encode("This compiles the kernels, or loads them: neither belongs to the measurement.")
    seconds, ids = list[float](), list[int]()
    while len(seconds) < 2 or (len(seconds) <= LATER_PASSES and sum(seconds) < ENOUGH_SECONDS):
        start = time.perf_counter()
        ids = tokenizer.encode(text)
        seconds.append(time.perf_counter() - start)
    return Measured(tokenizer.vocab_size, len(ids), seconds[0], min(seconds[1:]))


def table(measured: Mapping[str, Measured], text: str) -> str:
    """Return the comparison as lines of text; a star marks the best figure of each column."""
    size, words = len(text.encode()), max(1, len(text.split()))
    figures = [
        (size / each.num_tokens, -each.num_tokens / words, size / each.first_seconds, size / each.later_seconds)
        for each in measured.values()
    ]
    best = [max(column) for column in zip(*figures, strict=True)]
    rows = [["tokenizer", "vocabulary", "tokens", "bytes/token", "tokens/word", "MB/s first", "MB/s again"]]
    for (name, each), values in zip(measured.items(), figures, strict=True):
        shown = [
            f"{abs(value) / scale:.2f}" + ("*" if value == top and len(figures) > 1 else " ")
            for value, scale, top in zip(values, (1, 1, 1e6, 1e6), best, strict=True)
        ]
        rows.append([name, f"{each.vocab_size:,}", f"{each.num_tokens:,}", *shown])
    first, *others = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = [f"{size:,} bytes, {words:,} words"]
    for name, *cells in rows:
        aligned = [name.ljust(first), *map(str.rjust, cells, others)]
        lines.append("  ".join(aligned).rstrip())
    return "\n".join(lines)
