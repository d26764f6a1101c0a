"""Numbers are found in a text as they are printed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.measurements.printed import numbers


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("1.37 bits per byte", ["1.37"]),
        ("15.9 million tokens in 10 min 1 s", ["15900000.0", "10", "1"]),
        ("2.39x, +0.021, -3% and 1e-7", ["2.39", "0.021", "3", "1E-7"]),
        ("vidya-v2 of 124m and int8 on x86-64 with OpenBLAS 0.3.31", []),
        ("28,534 tokens/s. Then", ["28534"]),
    ],
)
def test_numbers_are_found(text: str, found: list[str]) -> None:
    assert [str(each.value) for each in numbers(text)] == found


def test_units_are_found_and_shared() -> None:
    units = [each.unit for each in numbers("8 x 256 rows, 14.3 and 5.9 ms, 1.02 and 0.97 times, 7 to 9 GB/s")]
    assert units == ["", "", "ms", "ms", "times", "times", "GB", "GB"]


@given(st.integers(100, 10**6), st.integers(1, 3))
def test_a_number_prints_itself_rounded(whole: int, places: int) -> None:
    measured, rounded = numbers(f"{whole / 1000:.3f}")[0], numbers(f"{round(whole / 1000, places):.{places}f}")[0]
    assert rounded.prints(measured) or rounded.has_one_digit or places == 3
    other = numbers(f"{whole / 1000 + 2 * 10.0**-places:.{places}f}")[0]
    assert not other.prints(measured)


def test_a_sign_that_is_printed_must_be_right() -> None:
    plus, minus, without = numbers("+0.021 -0.021 0.021")
    assert plus.prints(without)
    assert without.prints(minus)
    assert not plus.prints(minus)
    assert not minus.prints(without)
