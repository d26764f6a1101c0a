"""The compressor xz as a baseline: the bits it needs for a byte of a text, given the training text.

A model that predicts text can compress it (Shannon 1948), so its loss can be compared with a compressor.
"""

from __future__ import annotations

from collections.abc import Iterable

MOST_BYTES = 1 << 23
"""The bytes of training text that xz compresses, at most: the end of a longer text. That takes about ten seconds."""
_SECONDS_PER_BYTE = 0.7e-6  # measured on 24 MB of Python source


def xz_bits_per_byte(train: Iterable[str], evaluated: Iterable[str]) -> float | None:
    """Return the bits that xz needs per byte of the evaluated text after it has compressed the training text.

    8 (size(xz(train + evaluated)) - size(xz(train))) / size(evaluated), sizes in bytes; of a long training text, the
    last `MOST_BYTES`. Takes twelve to 24 times the memory of the text. Returns None if Python was built without xz.
    Raises ZeroDivisionError if nothing is evaluated.
    """
    try:
        import lzma
    except ImportError:
        return None
    known, new = _end_of(train), "\n".join(evaluated).encode()
    # xz finds repetitions within its dictionary, here all of the text. A larger one would only take more memory.
    dictionary = 1 << max(len(known) + len(new), 4096).bit_length()
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": dictionary}]
    before, after = (len(lzma.compress(data, filters=filters)) for data in (known, known + b"\n" + new))
    return 8 * (after - before) / len(new)


def _end_of(texts: Iterable[str]) -> bytes:
    """Return the last bytes of texts that are joined by line ends; the texts may be larger than memory."""
    kept = bytearray()
    for text in texts:
        kept += b"\n" + text.encode()
        del kept[: -MOST_BYTES - 1]
    return bytes(kept[1:])


def xz_seconds(train_bytes: int, evaluated_bytes: int) -> float:
    """Estimate the seconds of `xz_bits_per_byte`, which compresses the training text, then both texts."""
    return _SECONDS_PER_BYTE * (2 * min(train_bytes, MOST_BYTES) + evaluated_bytes)
