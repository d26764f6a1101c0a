"""Chunks on several threads, with results in the order of the chunks."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from tokenizer.errors import TokenizerError

Item = TypeVar("Item")
Result = TypeVar("Result")


def num_threads(requested: int | None) -> int:
    """Return the requested number of threads, or, for None, the number of processors that this process may use.

    Raises TokenizerError if fewer than one are requested.
    """
    if requested is not None and requested < 1:
        raise TokenizerError(f"threads={requested}: expected 1 or more.")
    if requested is not None:
        return requested
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_in_order(function: Callable[[Item], Result], items: Iterable[Item], threads: int) -> Iterator[Result]:
    """Yield function(item) for each item, in order; meanwhile threads compute at most the next `threads` items."""
    if threads == 1:
        yield from map(function, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        waiting: deque[Future[Result]] = deque()
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > threads:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
