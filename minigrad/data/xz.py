"""The compressor xz as a yardstick: how many bits it needs for a byte of held-out text, given the training text.

A model that predicts text is a compressor of it (Shannon 1948), and xz is a compressor that everyone has.
"""

from __future__ import annotations

from collections.abc import Iterable

DICTIONARY = 64 << 20  # bytes: how far back xz finds repetitions; compressing takes ten times as much memory
_SECONDS_PER_BYTE = 0.7e-6  # measured on 24 MB of Python source


def xz_bits_per_byte(train: Iterable[str], held_out: Iterable[str]) -> float | None:
    """Return what the compressor xz needs for the held-out text, given the training text, in bits per byte.

    8 (size(xz(train + held out)) - size(xz(train))) / size(held out), sizes in bytes. A compressor predicts
    text without having been trained, so this is a bar to clear. It finds repetitions up to 64 MiB back, so of a
    longer training text only its last 64 MiB are compressed. Takes about a second per megabyte. None where Python was
    built without xz. Raises ZeroDivisionError if nothing is held out.
    """
    try:
        import lzma
    except ImportError:
        return None
    known, new = "\n".join(train).encode()[-DICTIONARY:], "\n".join(held_out).encode()
    preset = 9 | lzma.PRESET_EXTREME
    filters = [{"id": lzma.FILTER_LZMA2, "preset": preset, "dict_size": DICTIONARY}]
    before, after = (len(lzma.compress(data, filters=filters)) for data in (known, known + b"\n" + new))
    return 8 * (after - before) / len(new)


def xz_seconds(train_bytes: int, held_out_bytes: int) -> float:
    """Estimate how long `xz_bits_per_byte` takes: the training text, then both texts, as far back as xz looks."""
    return _SECONDS_PER_BYTE * (2 * min(train_bytes, DICTIONARY) + held_out_bytes)
