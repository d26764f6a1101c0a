"""Counts, bytes and durations as text, at the limits between units."""

from __future__ import annotations

import pytest

from minigrad.system.units import format_bytes, format_seconds


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0, "0 bytes"),
        (999, "999 bytes"),
        (1000, "1.0 kB"),
        (999_949, "999.9 kB"),
        (999_950, "1.0 MB"),
        (380_000_000, "380.0 MB"),
        (999_950_000, "1.0 GB"),
        (2.5e12, "2,500.0 GB"),
    ],
)
def test_bytes(number, text):
    assert format_bytes(number) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-1, "0s"), (59.4, "59s"), (59.6, "1m 00s"), (3599, "59m 59s"), (3599.7, "1h 00m"), (90_000, "25h 00m")],
)
def test_seconds(seconds, text):
    assert format_seconds(seconds) == text
