"""The settings of an evaluation: one field is one flag."""

from __future__ import annotations

from dataclasses import dataclass

from minigrad.errors import InputError
from minigrad.options import REQUIRED, option, validate


@dataclass(frozen=True)
class EvaluateConfig:
    """What to evaluate, on what, and how."""

    run: str = option(REQUIRED, "a run folder, or a Hugging Face folder", positional=True, value="RUN")
    data: str | None = option(
        None,
        "the text: a file, a folder or a URL, all of it; of python-docs, python-source and shakespeare, and of the "
        "text that the run was trained on, the part that --split names",
        value="TEXT",
        none_means="the text of the run",
    )
    split: str = option(
        "validation",
        "the part of a text that was not trained on: validation for every choice, test for the last figure alone",
        choices=("validation", "test"),
    )
    documents: str | None = option(
        None,
        "packed: each document is read alone. windows: all of them in a row, as one text",
        choices=("packed", "windows"),
        none_means="as in training",
    )
    context: int | None = option(
        None, "tokens of the longest sequence", at_least=1, at_most=10**9, none_means="as in training"
    )
    overlap: float = option(
        0.5,
        "the share of the context that each sequence has in common with the one before it, so that each token is "
        "predicted from that many tokens at least; 0 is fastest, a larger share gives a lower loss",
        at_least=0,
        below=1,
    )
    lengths: str | None = option(
        None,
        "also evaluate with sequences of these lengths, each with every rotary scaling that the model has",
        value="N,N,...",
        none_means="",
    )
    threads: int | None = option(None, "processor threads", at_least=1, at_most=256, none_means="one per core")
    json: bool = option(False, "print the figures as JSON, with those of every document")


def check_settings(settings: EvaluateConfig) -> list[int]:
    """Return the lengths; raises InputError for a setting out of its bounds.

    >>> check_settings(EvaluateConfig("runs/a", lengths="512,1024"))
    [512, 1024]
    """
    validate(settings)
    words = settings.lengths.split(",") if settings.lengths is not None else []
    if not all(word.strip().isdecimal() and 0 < int(word) <= 10**9 for word in words):
        raise InputError(f"--lengths takes whole numbers of at least 1, as in 256,512,1024, not {settings.lengths!r}")
    return [int(word) for word in words]
