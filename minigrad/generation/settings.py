"""The settings of text generation: one field is one flag, spelled the same on the command line and in Python."""

from __future__ import annotations

from dataclasses import dataclass

from minigrad.options import REQUIRED, option

_MOST = 10**9  # larger integers are typing errors


@dataclass(frozen=True)
class GenerateConfig:
    """The settings of text generation."""

    run: str = option(REQUIRED, "the run folder, or a Hugging Face folder", positional=True, value="RUN")
    prompt: str | None = option(
        None,
        "the beginning of the text; - reads it from standard input, as a pipe does without this flag "
        "(generate.py RUN < story.txt)",
        group="what",
        none_means="",
    )
    tokens: int = option(200, "number of tokens to generate, at most", group="what", at_least=1, at_most=_MOST)
    samples: int = option(1, "number of texts to generate", group="what", at_least=1, at_most=_MOST)
    stop: str | None = option(None, "stop before this string", group="what", none_means="")
    temperature: float = option(
        0.8, "below 1 sharpens the distribution; 0 always takes the most likely token", group="how", at_least=0
    )
    top_k: int | None = option(None, "choose among the k most likely tokens", group="how", at_least=1, none_means="")
    top_p: float | None = option(
        0.95, "choose among the most likely tokens, up to this total probability", group="how", above=0, at_most=1
    )
    min_p: float | None = option(
        None,
        "choose among tokens at least this probable, relative to the most likely one",
        group="how",
        above=0,
        at_most=1,
        none_means="",
    )
    repetition_penalty: float = option(
        1.0, "divide the logits of tokens in the text by this", group="how", at_least=0.01, at_most=100
    )
    frequency_penalty: float = option(
        0.0, "lower the logit of a token by this each time it occurs", group="how", at_least=-100, at_most=100
    )
    set: str | None = option(
        None,
        "change fields of the model's config, as in rope_scaling=yarn,rope_factor=4",
        group="how",
        value="NAME=VALUE,...",
        none_means="",
    )
    seed: int = option(0, "seed of the draws", group="how", at_least=0)
    threads: int | None = option(
        None, "processor threads", group="how", at_least=1, at_most=256, none_means="one per core"
    )
