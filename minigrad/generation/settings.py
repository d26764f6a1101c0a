"""The settings of text generation: one field is one flag, spelled the same on the command line and in Python."""

from __future__ import annotations

from dataclasses import dataclass

from minigrad.options import REQUIRED, option

_MOST = 10**9  # larger integers are typing errors


@dataclass(frozen=True)
class GenerateConfig:
    """Everything that can be chosen about writing a text."""

    run: str = option(REQUIRED, "the run folder, or a Hugging Face folder", positional=True, value="RUN")
    prompt: str = option("", "how the text begins", group="what")
    tokens: int = option(200, "how many tokens to write at most", group="what", at_least=1, at_most=_MOST)
    samples: int = option(1, "how many texts to write", group="what", at_least=1, at_most=_MOST)
    stop: str | None = option(None, "stop before this piece of text", group="what", none_means="")
    temperature: float = option(
        0.8, "below 1 prefers the likely; 0 always takes the likeliest", group="how", at_least=0
    )
    top_k: int | None = option(None, "choose among the k likeliest", group="how", at_least=1, none_means="")
    top_p: float | None = option(
        0.95, "choose among the likeliest that reach this probability", group="how", above=0, at_most=1
    )
    min_p: float | None = option(
        None,
        "choose among those at least this likely, compared with the likeliest",
        group="how",
        above=0,
        at_most=1,
        none_means="",
    )
    repetition_penalty: float = option(
        1.0, "divide the scores of tokens in the text by this", group="how", at_least=0.01, at_most=100
    )
    frequency_penalty: float = option(
        0.0, "lower a token's score by this each time it occurs", group="how", at_least=-100, at_most=100
    )
    set: str | None = option(
        None,
        "change fields of the model's config, as in rope_scaling=yarn,rope_factor=4",
        group="how",
        value="NAME=VALUE,...",
        none_means="",
    )
    seed: int = option(0, "decides the draws", group="how", at_least=0)
    threads: int | None = option(
        None, "processor threads", group="how", at_least=1, at_most=256, none_means="one per processor"
    )
