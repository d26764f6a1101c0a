"""Numbers in a text, as they are printed."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from decimal import ROUND_HALF_DOWN, ROUND_HALF_UP, Decimal

UNITS = r"""%|times\b|tokens/s|tokens\ per\ second|bits\b|nats\b|points\b
    |[kKMG]B\b|GFLOP|TFLOP|ms\b|s\b|seconds?\b|minutes?\b|min\b|hours?\b|days?\b|microseconds\b"""

NUMBER = re.compile(
    rf"""(?<![\w.]) (?<!\w-) (?P<sign>[+-]?) (?P<digits>\d{{1,3}}(?:,\d{{3}})+|\d+) (?P<fraction>\.\d+)?
    (?P<exponent>e-?\d+)?
    (?=x\b|[^\w.]|\.(?!\d)|$)                    # not 124m, nor int8, nor 0.31.1
    (?P<million>\ million\b)? (?P<unit>x\b|\s?(?:{UNITS}))?""",
    flags=re.VERBOSE,
)

SAME = {"times": "x", "seconds": "s", "second": "s", "minutes": "min", "minute": "min", "tokens per second": "tokens/s"}
LIST = re.compile(r",? (?:and |to |or )?|,\s")


@dataclass(frozen=True)
class Number:
    """A number with its sign as printed, and the size of its last digit."""

    text: str
    sign: str
    value: Decimal
    step: Decimal
    unit: str

    @property
    def has_one_digit(self) -> bool:
        """Whether one digit is all it has: too many numbers are rounded to it."""
        return len(self.value.as_tuple().digits) < 2

    def prints(self, other: Number) -> bool:
        """Whether this is how the other is printed, perhaps rounded, and perhaps without its sign.

        >>> one, other, minus = numbers("1.37 1.366 -1.366")
        >>> one.prints(other), other.prints(one), other.prints(minus), minus.prints(other)
        (True, False, True, False)
        """
        if self.sign and self.sign != (other.sign or "+"):
            return False
        if self.unit and other.unit and SAME.get(self.unit, self.unit) != SAME.get(other.unit, other.unit):
            return False
        if self.value == other.value:
            return True
        if self.has_one_digit or self.step <= other.step:
            return False
        ways = (ROUND_HALF_UP, ROUND_HALF_DOWN)
        return any((other.value / self.step).quantize(Decimal(1), way) * self.step == self.value for way in ways)


@functools.cache  # pages and records are searched again and again
def numbers(text: str) -> tuple[Number, ...]:
    """Return the numbers of a text in their order.

    >>> [(str(each.value), each.unit) for each in numbers("nano: 28,534 tokens/s, 2.39x, 15.9 million; -3%")]
    [('28534', 'tokens/s'), ('2.39', 'x'), ('15900000.0', ''), ('3', '%')]
    >>> [each.unit for each in numbers("46 and 104 ms")]  # the unit of both
    ['ms', 'ms']
    """
    found, end = list[Number](), 0
    for match in NUMBER.finditer(text):
        scale = Decimal(1_000_000) if match["million"] else Decimal(1)
        plain = Decimal(match["digits"].replace(",", "") + (match["fraction"] or "") + (match["exponent"] or ""))
        step = Decimal(1).scaleb(plain.as_tuple().exponent)
        unit = (match["unit"] or "").strip()
        number = Number(match[0].strip(), match["sign"], plain * scale, step * scale, unit)
        if found and not found[-1].unit and unit not in ("x", "%") and LIST.fullmatch(text[end : match.start()]):
            found[-1] = replace(found[-1], unit=unit)
        found.append(number)
        end = match.end()
    return tuple(found)
