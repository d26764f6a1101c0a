"""The loss of each token of a text, its sums by position and by document, and these as a table and as JSON.

The loss of a text is the sum over its tokens, in nats. Divided by the tokens it is the loss per token, whose
exponential is the perplexity per token: it says among how many equally likely tokens the model would be as uncertain.
Both depend on how long the tokens are. Divided by the bytes or the words of the text, the same sum compares models with
different tokenizers.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minigrad.constants import IGNORE
from minigrad.data.tokens.source import Spans
from minigrad.errors import InputError
from minigrad.evaluate.losses import BATCH_TOKENS, bits_per_byte, completes_a_pair, evaluation_batches, predictions
from minigrad.formats.json_files import with_null
from minigrad.nn.language_model import LanguageModel
from minigrad.system.terminal import printable
from minigrad.system.units import format_bytes, plural
from minigrad.typing import Array


@dataclass(frozen=True, eq=False)
class TokenLosses:
    """The loss of every token of a text that is predicted, in the order of the text. Shapes: all (tokens,)."""

    nats: Array
    num_bytes: Array
    read: Array  # the number of tokens that it was predicted from
    repeated: Array  # whether it completes a pair seen before among these
    document: Array  # the number of its document


@dataclass(frozen=True)
class LossSum:
    """A part of a text, such as a document: its tokens, its bytes, and the sum of the losses of its tokens in nats."""

    name: str
    tokens: int
    num_bytes: int
    nats: float

    @property
    def loss(self) -> float:
        """The loss in nats per token; NaN if there is no token."""
        return self.nats / self.tokens if self.tokens else math.nan

    @property
    def bits_per_byte(self) -> float:
        """The loss in bits per byte; NaN if there is no byte, as where the token that ends a text counts as -1."""
        return bits_per_byte(self.nats, self.num_bytes) if self.num_bytes > 0 else math.nan


@dataclass(frozen=True)
class Words:
    """The number of words of a text, the pieces between white space, and of its lines."""

    words: int
    lines: int

    @classmethod
    def of(cls, documents: Sequence[str]) -> Words:
        """Count the words and lines of documents."""
        lines = sum(text.count("\n") + (not text.endswith("\n")) for text in documents)
        return cls(sum(len(text.split()) for text in documents), lines)


def perplexity(nats: float, count: int) -> float:
    """Return exp(nats / count); infinity if that is too large for a number, or if nothing was counted."""
    try:
        return math.exp(nats / count)
    except (OverflowError, ZeroDivisionError):
        return math.inf


def token_losses(
    model: LanguageModel, spans: Spans, byte_lengths: Array, *, context: int, overlap: float
) -> TokenLosses:
    """Evaluate `model` on the spans of a text, dropout off; the last token of the row ends every document.

    `byte_lengths` (V,) is the number of bytes of each token.
    """
    batches = evaluation_batches(spans, context=context, overlap=overlap, rows=BATCH_TOKENS)
    columns: list[tuple[Array, ...]] = []
    for batch, nats in predictions(model, batches):
        counted = batch.targets != IGNORE
        read = batch.layout.positions + 1
        columns.append((nats[counted], read[counted], completes_a_pair(batch)[counted]))
    losses, read, repeated = (np.concatenate(each) for each in zip(*columns, strict=True))
    if not np.isfinite(losses).all():
        raise InputError("the model's losses are not finite: its weights are damaged, or it diverged in training")
    row = np.asarray(spans.row).astype(np.int64)
    offsets = np.cumsum(spans.lengths) - spans.lengths
    places = np.repeat(spans.starts - offsets, spans.lengths) + np.arange(len(losses))  # of the token before each
    ends = np.cumsum(row == row[-1])
    document = (ends - ends[0])[places]  # the end of a document belongs to it
    return TokenLosses(losses.astype(np.float64), byte_lengths[row[places + 1]], read, repeated, document)


def whole(losses: TokenLosses) -> LossSum:
    """Return all of the text."""
    return LossSum("text", len(losses.nats), int(losses.num_bytes.sum()), float(losses.nats.sum()))


def by_repetition(losses: TokenLosses) -> list[LossSum]:
    """Return the tokens that complete a pair seen before, and all others."""
    return _parts(losses, 1 - losses.repeated.astype(int), ["repeated pairs", "others"])


def by_position(losses: TokenLosses) -> list[LossSum]:
    """Return the tokens by the number of tokens that they were predicted from: 1, 2, 3 to 4, 5 to 8, and so on."""
    _, group = np.frexp(losses.read - 1)
    most = int(losses.read.max())
    ends = [min(1 << number, most) for number in range(int(group.max()) + 1)]
    starts = [1, *(end + 1 for end in ends)]
    names = [f"{a:,}" if a == b else f"{a:,} to {b:,}" for a, b in zip(starts, ends, strict=False)]
    return [part for part in _parts(losses, group, names) if part.tokens]


def by_document(losses: TokenLosses, documents: Sequence[str]) -> list[LossSum]:
    """Return the documents, named by their first lines."""
    names = [next((line.strip() for line in text.split("\n") if line.strip()), "") for text in documents]
    return _parts(losses, losses.document, names)


def _parts(losses: TokenLosses, group: Array, names: Sequence[str]) -> list[LossSum]:
    tokens, num_bytes, nats = (np.bincount(group, each, len(names)) for each in (None, losses.num_bytes, losses.nats))
    rows = zip(names, tokens, num_bytes, nats, strict=True)
    return [LossSum(name, int(tokens), int(size), float(nats)) for name, tokens, size, nats in rows]


_SHOWN = 5  # documents at either end of the table

Lengths = dict[int, dict[str, float]]
"""Bits per byte by the length of the sequences and the rotary scaling."""


@dataclass(frozen=True)
class Evaluation:
    """The figures of a model on a text."""

    model: str
    text: str
    reading: str
    whole: LossSum
    words: Words
    repeated: LossSum
    others: LossSum
    positions: Sequence[LossSum]  # read without an overlap: about equally many tokens at each position
    documents: Sequence[LossSum]
    lengths: Lengths = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Return the figures for JSON, which has no NaN and no infinity: these become None."""
        whole, words = self.whole, self.words
        figures: dict[str, Any] = {
            "model": self.model,
            "text": self.text,
            "reading": self.reading,
            "tokens": whole.tokens,
            "bytes": whole.num_bytes,
            "words": words.words,
            "lines": words.lines,
            "nats": whole.nats,
            "bits_per_byte": whole.bits_per_byte,
            "loss": whole.loss,
            "perplexity_per_token": perplexity(whole.nats, whole.tokens),
            "perplexity_per_word": perplexity(whole.nats, words.words),
            "perplexity_per_word_with_line_ends": perplexity(whole.nats, words.words + words.lines),
            "loss_repeated": self.repeated.loss,
            "loss_others": self.others.loss,
            "tokens_repeated": self.repeated.tokens,
        }
        for name, parts in (("by_position", self.positions), ("by_document", self.documents)):
            figures[name] = [_as_dict(part) for part in parts]
        if self.lengths:
            figures["bits_per_byte_by_length"] = {str(length): dict(row) for length, row in self.lengths.items()}
        return dict(with_null(figures))

    def describe(self) -> str:
        """Return the figures as tables with a few words about each."""
        whole, words = self.whole, self.words
        share = self.repeated.tokens / max(whole.tokens, 1)
        per_token, per_word, per_word_or_line = (
            perplexity(whole.nats, count) for count in (whole.tokens, words.words, words.words + words.lines)
        )
        in_papers = "as papers count WikiText's words, an <eos> at the end of each line"
        rows = (
            ("bits per byte", f"{whole.bits_per_byte:.4f}", "for any tokenizer: the compressed size of the text"),
            ("nats per token", f"{whole.loss:.4f}", ""),
            ("perplexity per token", _number(per_token), "exp(nats per token)"),
            ("perplexity per word", _number(per_word), "words: between white space"),
            ("with line ends as words", _number(per_word_or_line), in_papers),
            ("repeated pairs", f"{self.repeated.loss:.4f}", f"nats of tokens that could be copied ({share:.0%})"),
            ("other tokens", f"{self.others.loss:.4f}", "nats"),
        )
        lines = [
            f"model  {self.model}",
            f"text   {self.text}: {plural(len(self.documents), 'document')}, {format_bytes(whole.num_bytes)}, "
            f"{plural(words.words, 'word')}, {plural(whole.tokens, 'token')}",
            f"read   {self.reading}",
            "",
            *(f"{name:<24}{value:>12}  {note}".rstrip() for name, value, note in rows),
            "",
            "By position: how many tokens of the sequence the model had read before (sequences that do not overlap)",
            *_table("tokens read", self.positions),
            "",
            *self._describe_documents(),
            *self._describe_lengths(),
        ]
        return printable("\n".join(lines))

    def _describe_documents(self) -> list[str]:
        order = sorted(self.documents, key=lambda part: (math.isnan(part.bits_per_byte), part.bits_per_byte))
        lines = ["By document, the best predicted first", *_table("document", order)]
        if (more := len(order) - 2 * _SHOWN) > 0:
            lines[2 + _SHOWN : -_SHOWN] = [f"  ... {more} more (--json has all) ..."]
        return lines

    def _describe_lengths(self) -> list[str]:
        if not self.lengths:
            return []
        names = list(next(iter(self.lengths.values())))
        lines = ["", "By length of the sequences and rotary scaling, bits per byte"]
        lines.append(f"  {'tokens':>10}" + "".join(f"{name:>10}" for name in names))
        for length, row in self.lengths.items():
            values = ("" if math.isnan(row[name]) else f"{row[name]:.4f}" for name in names)
            lines.append(f"  {length:>10,}" + "".join(f"{value:>10}" for value in values))
        return lines


def _table(heading: str, parts: Sequence[LossSum]) -> list[str]:
    lines = [f"  {heading:<32}{'tokens':>10}{'nats':>10}{'bits/byte':>12}"]
    for part in parts:
        name = part.name if len(part.name) <= 30 else part.name[:29] + "…"
        lines.append(f"  {name:<32}{part.tokens:>10,}{part.loss:>10.4f}{part.bits_per_byte:>12.4f}")
    return lines


def _number(value: float) -> str:
    return f"{value:,.2f}" if value < 1e6 else f"{value:.3g}"


def _as_dict(part: LossSum) -> dict[str, Any]:
    return {
        "name": part.name,
        "tokens": part.tokens,
        "bytes": part.num_bytes,
        "loss": part.loss,
        "bits_per_byte": part.bits_per_byte,
    }
