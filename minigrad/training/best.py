"""The best model of a run: the one with the lowest loss on validation text, kept beside the last one.

A small text that is read many times is memorised: from some step on the model gets worse on text that it has not read,
and the last model is not the best.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from minigrad.options import REQUIRED, option
from minigrad.system.terminal import command
from minigrad.typing import PathLike


@dataclass(frozen=True)
class Best:
    """The evaluation with the lowest loss so far: after which step, and its bits per byte."""

    step: int = option(REQUIRED, "the number of steps taken", at_least=0)
    bits_per_byte: float = option(REQUIRED, "of the validation text that is read during training")


def is_best(best: Best | None, step: int) -> bool:
    """Return whether the model after a step is the best so far."""
    return best is not None and best.step == step


def folder_of(run: PathLike) -> Path:
    """Return the folder of the best model of a run; it can be loaded as any other."""
    return Path(run) / "best"


def describe(best: Best | None, last: Best, run: PathLike) -> str:
    """Return a line that names the best model, if it is not the `last` one; else "".

    Both were evaluated on the same part of the validation text.

    >>> print(describe(Best(40, 1.5), Best(60, 1.52), "runs/small"))  # doctest: +ELLIPSIS
    best     after 40 steps the model was better, 1.500 against 1.520 bits per byte on ...; write with it: ...small/best
    """
    if best is None or is_best(best, last.step):
        return ""
    again = command("generate.py", folder_of(run))
    return (
        f"best     after {best.step:,} steps the model was better, {best.bits_per_byte:.3f} against "
        f"{last.bits_per_byte:.3f} bits per byte on the validation text that is read during training; write with it: "
        f"{again}"
    )
