"""Batches as a pure function of (seed, step), and the windows in which held-out text is evaluated.

There is no reader with a position that a checkpoint would have to save, and nothing to rewind on resume.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from minigrad.constants import IGNORE
from minigrad.data.token_files import TokenFile, Tokens
from minigrad.errors import InputError
from minigrad.random import generator

Batch = tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]


def windows_per_epoch(num_tokens: int, context: int) -> int:
    """Return the number of windows of `context` tokens in one epoch; it is the same in every epoch.

    Raises InputError if the text is too short for a single window.
    """
    if context < 1:
        raise InputError(f"a context of {context} tokens is no window: --context must be at least 1.")
    if num_tokens < context + 1:
        raise InputError(
            f"the text has {num_tokens:,} tokens, but a context of {context:,} needs {context + 1:,}: "
            "use a smaller --context or more text."
        )
    # One window less than fits, so that there is room for any shift below `context`.
    return max(1, num_tokens // context - 1)


def batch(tokens: TokenFile | Tokens, *, seed: int, step: int, batch_size: int, context: int) -> Batch:
    """Return (inputs, targets) of one step.

    Each epoch cuts the text into windows of `context` tokens, beginning at a random shift, and takes each
    window once, in random order: no token is read twice before nearly all were read once. With another shift in
    every epoch, other tokens are at the beginning of a window, where the model has little context.

    Shapes: inputs and targets (batch_size, context), int32; a target is the token after its input.
    Raises InputError if the text is shorter than one window.
    """
    row = _row(tokens)
    windows = windows_per_epoch(len(row), context)
    first = step * batch_size
    starts = []
    for sample in range(first, first + batch_size):
        epoch, place = divmod(sample, windows)
        starts.append(_epoch(seed, epoch, len(row), context)[place])
    both = np.stack([row[start : start + context + 1] for start in starts]).astype(np.int32)
    return np.ascontiguousarray(both[:, :-1]), np.ascontiguousarray(both[:, 1:])


def evaluation_windows(
    tokens: TokenFile | Tokens,
    *,
    context: int,
    overlap: float = 0.5,
    batch_size: int = 1,
    max_windows: int | None = None,
) -> Iterator[Batch]:
    """Yield batches of (inputs, targets) that together predict every token after the first exactly once.

    Windows overlap by the share `overlap` of `context`, and only tokens after the overlap are targets. So every token
    is predicted from at least `overlap * context` tokens, or from all tokens before it. Without an overlap, the first
    tokens of each window would be predicted from almost no context. With `max_windows`, only that many windows are
    taken, spread evenly over the text.

    Shapes: (batch_size, context) int32 always; a token that is not predicted has the target -100, padding the input 0.
    Average over all targets by counting those that are not -100.
    Raises InputError if there is nothing to predict or `overlap` is not in [0, 1].
    """
    row = _row(tokens)
    if len(row) < 2 or context < 1 or not 0 <= overlap <= 1:
        raise InputError(
            f"cannot evaluate {len(row)} tokens with a context of {context} and an overlap of {overlap}: "
            "there must be 2 tokens, a context of at least 1 and an overlap between 0 and 1."
        )
    stride = max(1, context - int(overlap * context))
    # The first window predicts `context` tokens, each further one `stride` more.
    windows = 1 + max(0, -(-(len(row) - 1 - context) // stride))
    wanted = min(windows, max_windows or windows)
    for first in range(0, wanted, batch_size):
        inputs = np.zeros((batch_size, context), np.int32)
        targets = np.full((batch_size, context), IGNORE, np.int32)
        for place, number in enumerate(range(first, min(first + batch_size, wanted))):
            window = number * windows // wanted
            text = row[window * stride : window * stride + context + 1]
            known = context - stride if window else 0
            inputs[place, : len(text) - 1] = text[:-1]
            targets[place, known : len(text) - 1] = text[known + 1 :]
        yield inputs, targets


@lru_cache(maxsize=2)  # a batch may reach from one epoch into the next
def _epoch(seed: int, epoch: int, num_tokens: int, context: int) -> npt.NDArray[np.int64]:
    """Return where the windows of an epoch start, in the order in which they are read."""
    windows = windows_per_epoch(num_tokens, context)
    draw = generator(seed, "data order", epoch)
    shift = draw.integers(min(context, num_tokens - windows * context))
    return shift + context * draw.permutation(windows)


def _row(tokens: TokenFile | Tokens) -> Tokens:
    return np.asarray(tokens.tokens if isinstance(tokens, TokenFile) else tokens)
