"""Counts, bytes and durations as text."""

from __future__ import annotations


def format_count(number: float) -> str:
    """Return a whole number with thousands separated by commas."""
    return f"{number:,.0f}"


def format_estimate(number: float) -> str:
    """Return an estimate with two significant digits.

    >>> format_estimate(509_921), format_estimate(4.83)
    ('510,000', '4.8')
    """
    rounded = float(f"{number:.2g}")
    return format_count(rounded) if rounded >= 10 else f"{rounded:f}".rstrip("0").rstrip(".")


def plural(number: int, noun: str) -> str:
    """Return a count with its noun.

    >>> plural(1, "step"), plural(2_000, "step"), plural(2, "process")
    ('1 step', '2,000 steps', '2 processes')
    """
    ending = "es" if noun.endswith("s") else "s"
    return f"{number:,} {noun}{'' if number == 1 else ending}"


def format_bytes(number: float) -> str:
    """Return a size in powers of 1,000.

    >>> format_bytes(1), format_bytes(512), format_bytes(1_536_000)
    ('1 byte', '512 bytes', '1.5 MB')
    """
    if number < 999.5:
        return plural(round(number), "byte")
    power = 1 if number < 999_950 else 2 if number < 999_950_000 else 3  # beyond these, 1000.0 would be printed
    return f"{number / 1000**power:,.1f} {' kMG'[power]}B"


def format_seconds(seconds: float) -> str:
    """Return a duration in seconds, in minutes and seconds, or in hours and minutes.

    >>> format_seconds(42), format_seconds(200), format_seconds(100_000)
    ('42s', '3m 20s', '27h 46m')
    """
    minutes, rest = divmod(max(0, round(seconds)), 60)
    if minutes >= 60:
        return f"{minutes // 60}h {minutes % 60:02d}m"
    return f"{minutes}m {rest:02d}s" if minutes else f"{rest}s"
