"""The result of an evaluation, as a table that a person reads and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from minigrad.evaluate.measures import LossSum, Words, perplexity
from minigrad.system.terminal import printable
from minigrad.system.units import format_bytes, plural

_SHOWN = 5  # documents at either end of the table

Lengths = dict[int, dict[str, float]]
"""Bits per byte by the length of the sequences and the rotary scaling."""


@dataclass(frozen=True)
class Evaluation:
    """The figures of a model on a text.

    `whole` is read with an overlap, `positions` without one, so that each position predicts about equally many tokens.
    """

    model: str
    text: str
    reading: str
    whole: LossSum
    words: Words
    repeated: LossSum
    others: LossSum
    positions: Sequence[LossSum]
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
        found = {name: _finite(value) for name, value in figures.items()}
        parts = {"by_position": self.positions, "by_document": self.documents}
        found |= {name: [_as_dict(part) for part in each] for name, each in parts.items()}
        by_length = {str(length): {name: _finite(v) for name, v in row.items()} for length, row in self.lengths.items()}
        return found | ({"bits_per_byte_by_length": by_length} if by_length else {})

    def describe(self) -> str:
        """Return the figures as tables with a few words about each."""
        whole, words = self.whole, self.words
        share = self.repeated.tokens / max(whole.tokens, 1)
        lines = [
            f"model  {self.model}",
            f"text   {self.text}: {plural(len(self.documents), 'document')}, {format_bytes(whole.num_bytes)}, "
            f"{words.words:,} words, {whole.tokens:,} tokens",
            f"read   {self.reading}",
            "",
            *_rows(
                ("bits per byte", f"{whole.bits_per_byte:.4f}", "for any tokenizer: to this size it could be packed"),
                ("nats per token", f"{whole.loss:.4f}", ""),
                ("perplexity per token", _number(perplexity(whole.nats, whole.tokens)), "exp(nats per token)"),
                ("perplexity per word", _number(perplexity(whole.nats, words.words)), "words: between white space"),
                (
                    "with line ends as words",
                    _number(perplexity(whole.nats, words.words + words.lines)),
                    "as papers count WikiText's words, an <eos> at the end of each line",
                ),
                ("repeated pairs", f"{self.repeated.loss:.4f}", f"nats of tokens that could be copied ({share:.0%})"),
                ("other tokens", f"{self.others.loss:.4f}", "nats"),
            ),
            "",
            "By position: the tokens of its sequence that the model had read (sequences that do not overlap)",
            *_table("tokens read", self.positions),
            "",
            *self._describe_documents(),
            *self._describe_lengths(),
        ]
        return printable("\n".join(lines))

    def _describe_documents(self) -> list[str]:
        order = sorted(self.documents, key=lambda part: (math.isnan(part.bits_per_byte), part.bits_per_byte))
        if len(order) <= 2 * _SHOWN:
            return ["By document, the best predicted first", *_table("document", order)]
        middle = f"  ... {len(order) - 2 * _SHOWN} more (--json has all) ..."
        lines = _table("document", [*order[:_SHOWN], *order[-_SHOWN:]])
        return ["By document, the best predicted first", *lines[: _SHOWN + 1], middle, *lines[_SHOWN + 1 :]]

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


def _rows(*rows: tuple[str, str, str]) -> list[str]:
    return [f"{name:<24}{value:>12}  {note}".rstrip() for name, value, note in rows]


def _table(heading: str, parts: Sequence[LossSum]) -> list[str]:
    lines = [f"  {heading:<32}{'tokens':>10}{'nats':>10}{'bits/byte':>12}"]
    for part in parts:
        name = part.name if len(part.name) <= 30 else part.name[:29] + "…"
        lines.append(f"  {name:<32}{part.tokens:>10,}{part.loss:>10.4f}{part.bits_per_byte:>12.4f}")
    return lines


def _number(value: float) -> str:
    return f"{value:,.2f}" if value < 1e6 else f"{value:.3g}"


def _as_dict(part: LossSum) -> dict[str, Any]:
    values = {"name": part.name, "tokens": part.tokens, "bytes": part.num_bytes}
    return values | {"loss": _finite(part.loss), "bits_per_byte": _finite(part.bits_per_byte)}


def _finite(value: Any) -> Any:
    return None if isinstance(value, float) and not math.isfinite(value) else value
