"""Documents, some at a time: enough for the work on a portion to pay, few enough for the memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeVar

Document = TypeVar("Document", str, bytes)


def portions(documents: Iterable[Document], size: int) -> Iterator[list[Document]]:
    """Yield lists of documents in their order, each with at least `size` characters or bytes; the last has the rest.

    >>> list(portions(["one", "two", "three", "four"], 5))
    [['one', 'two'], ['three'], ['four']]
    """
    portion, length = list[Document](), 0
    for document in documents:
        portion.append(document)
        length += len(document)
        if length >= size:
            yield portion
            portion, length = [], 0
    if portion:
        yield portion
