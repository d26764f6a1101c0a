"""Figures in the source documents that differ from those computed from the published shapes.

A published name builds the published shape, and the true figures are computed from it. The plan of a run prints the
document's figures beside them, because checking a count is part of learning.
"""

from __future__ import annotations

from dataclasses import dataclass

from minigrad.nn.language_model import LanguageModel


@dataclass(frozen=True)
class Claim:
    """The figures that a document gives for one size, and the reason why they differ from the true ones."""

    parameters: int
    why: str
    forward_gflop: float | None = None  # per token, at the document's context


CLAIMS: dict[tuple[str, str], Claim] = {
    ("gpt2", "300m"): Claim(
        300_124_416,
        "its feed-forward row is wrong, biases and the last norm are missing, and the tied head is counted once more",
        forward_gflop=37.8,
    ),
    ("gpt2", "124m"): Claim(117_000_000, "the figure that OpenAI first gave for the smallest GPT-2"),
    ("gpt2", "medium"): Claim(345_000_000, "the figure that OpenAI first gave for the second GPT-2"),
    ("vidya-v2", "2.0"): Claim(135_000_000, "true at a vocabulary of 49,152, but it has 32,000"),
    ("vidya-v2", "2.1"): Claim(227_000_000, "true at a vocabulary of 49,152, but it has 32,000"),
    ("vidya-v2", "2.2"): Claim(342_000_000, "true at a vocabulary of 49,152, but it has 32,000"),
    ("vidya-v2", "2.3"): Claim(
        587_000_000, "at a vocabulary of 49,152, with 6.67 key/value heads and 3413.3 units; here 7 and 3,456"
    ),
    ("vsla", "1b"): Claim(1_100_000_000, "20 layers would have about as many; the document describes 24"),
    ("wiola", "120m"): Claim(120_000_000, "the label is not the count of the published shape; see 120m-exact"),
    ("wiola", "360m"): Claim(360_000_000, "the label is not the count of the published shape; see 360m-exact"),
    ("wiola", "700m"): Claim(700_000_000, "the label is not the count of the published shape; see 700m-exact"),
    ("wiola", "1.5b"): Claim(1_500_000_000, "the label is not the count of the published shape; see 1.5b-exact"),
}


def compare(family: str, size: str, model: LanguageModel) -> str:
    """Return a sentence with the document's figures for a size and those of its `model`, or "" if none differ."""
    claim = CLAIMS.get((family, size))
    if claim is None:
        return ""
    parameters = model.num_parameters()
    sentence = f"its document says {claim.parameters:,} parameters, the shape has {parameters:,}: {claim.why}"
    if claim.forward_gflop is not None:
        forward_flops = 2 * model.macs_per_token(model.config.context_length)
        sentence += (
            f"; and {claim.forward_gflop:g} GFLOP forward per token, which is {forward_flops / 1e9:.3g} in the "
            "published context"
        )
    return sentence
