"""The compressor xz as a baseline: the bits it needs for a byte of a text, given the training text.

A model that predicts text can compress it (Shannon 1948), so its loss can be compared with a compressor.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Iterable

DICTIONARY = 64 << 20  # bytes: xz finds repetitions within this distance at most
_PORTION = 1 << 16  # bytes between two looks at the clock
_SECONDS_PER_BYTE = 0.7e-6  # measured on 24 MB of Python source


def xz_bits_per_byte(train: Iterable[str], evaluated: Iterable[str], seconds: float = math.inf) -> float | None:
    """Return the bits that xz needs per byte of the evaluated text after it has compressed the training text.

    8 (size(xz(train + evaluated)) - size(xz(train))) / size(evaluated), sizes in bytes. xz finds repetitions up to
    64 MiB back, so only the last 64 MiB of a longer training text are compressed. Takes about a second per megabyte,
    and twelve to 24 times the memory of the text. Returns None if Python was built without xz. Raises TimeoutError if
    it takes longer than `seconds`, as it does for text that repeats nothing, and ZeroDivisionError if nothing is
    evaluated.
    """
    try:
        import lzma
    except ImportError:
        return None
    known, new = _end_of(train), "\n".join(evaluated).encode()
    preset = 9 | lzma.PRESET_EXTREME
    # A dictionary as large as the text finds as much as a larger one, which would only take more memory.
    dictionary = min(DICTIONARY, 1 << max(len(known) + len(new), 4096).bit_length())
    filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": dictionary}]
    deadline = time.perf_counter() + seconds

    def compressed_size(data: bytes) -> int:
        compressor, size = lzma.LZMACompressor(filters=filters), 0
        for start in range(0, len(data), _PORTION):
            size += len(compressor.compress(data[start : start + _PORTION]))
            if time.perf_counter() > deadline:
                raise TimeoutError
        return size + len(compressor.flush())

    before, after = (compressed_size(data) for data in (known, known + b"\n" + new))
    return 8 * (after - before) / len(new)


def _end_of(texts: Iterable[str]) -> bytes:
    """Return the last 64 MiB of texts that are joined by line ends; they may be more than fits into memory."""
    kept, size = deque[bytes](), -1
    for text in texts:
        kept.append(text.encode())
        size += 1 + len(kept[-1])
        while size - len(kept[0]) - 1 >= DICTIONARY:
            size -= 1 + len(kept.popleft())
    return b"\n".join(kept)[-DICTIONARY:]


def xz_seconds(train_bytes: int, evaluated_bytes: int) -> float:
    """Estimate the seconds of `xz_bits_per_byte`, which compresses the training text, then both texts."""
    return _SECONDS_PER_BYTE * (2 * min(train_bytes, DICTIONARY) + evaluated_bytes)
