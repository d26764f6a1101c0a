"""A disk that is full: files cannot grow beyond a size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

needs_limits = pytest.mark.skipif(os.name == "nt", reason="Windows has no limit on the size of files")


@contextmanager
def files_up_to(size: int) -> Iterator[None]:
    """Let every write that makes a file larger than `size` bytes fail inside the block."""
    import resource

    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
