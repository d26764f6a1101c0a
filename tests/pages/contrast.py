"""The contrast of two colours, as WCAG 2 defines it."""

from __future__ import annotations

import re


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours as CSS writes them; small text needs 4.5.

    >>> contrast("#fff", "rgb(0 0 0)")
    21.0
    """
    low, high = sorted(_luminance(_channels(each)) for each in (one, other))
    return (high + 0.05) / (low + 0.05)


def _channels(colour: str) -> list[float]:
    if colour.startswith("#"):
        digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
        return [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    return [int(number) / 255 for number in re.findall(r"\d+", colour)]


def _luminance(channels: list[float]) -> float:
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return sum(weight * value for weight, value in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
