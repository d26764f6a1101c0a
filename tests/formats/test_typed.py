"""JSON values become dataclasses: what the annotations and the declared bounds accept, and nothing else."""

from __future__ import annotations

import contextlib
import dataclasses
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.errors import InputError
from minigrad.formats.typed import read_dataclass, read_values
from minigrad.options import REQUIRED, option, options


@dataclass
class Point:
    x: float = option(REQUIRED, "the place", at_least=0, at_most=9)
    name: str | None = None


@dataclass
class Everything:
    count: int = option(REQUIRED, "how many", at_least=1)
    share: float = 0.5
    is_new: bool = False
    points: list[Point] = field(default_factory=list)
    lengths: dict[str, int] = field(default_factory=dict)
    rest: Any = None


VALUES = {
    "count": 3,
    "share": 1,
    "is_new": True,
    "points": [{"x": 1.5, "name": "a"}, {"x": 0, "name": None}],
    "lengths": {"a": 2},
    "rest": {"any": ["thing"]},
}


def refusal(values: Any, **rules: bool) -> str:
    with pytest.raises(InputError) as caught:
        read_dataclass(Everything, values, **rules)
    return str(caught.value)


def test_values_of_the_declared_types_are_read():
    read = read_dataclass(Everything, VALUES)
    assert read == Everything(3, 1, True, [Point(1.5, "a"), Point(0)], {"a": 2}, {"any": ["thing"]})
    assert read_dataclass(Everything, {"count": 1}) == Everything(1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"count": 0}, "count takes a whole number of at least 1, not 0"),
        ({"count": 1.0}, "count takes a whole number of at least 1, not 1.0"),
        ({"count": True}, "count takes a whole number of at least 1, not True"),
        ({"share": 10**400}, "share takes a finite number, not 1000000000"),
        ({"share": float("nan")}, "share takes a finite number, not nan"),
        ({"is_new": 1}, "is_new takes true or false, not 1"),
        ({"points": {}}, "points is {}, not a list"),
        ({"points": [{"x": 1}, {"x": 10}]}, "points[1].x takes a finite number of at least 0 and at most 9, not 10"),
        ({"points": [{}]}, "points[0].x is missing"),
        ({"points": [{"x": 1, "nam": "a"}]}, "points[0].nam is unknown; did you mean name?"),
        ({"points": [3]}, "points[0] is 3, not an object"),
        ({"lengths": {"a": "b"}}, "lengths.a takes a whole number, not 'b'"),
        ({"lengths": []}, "lengths is [], not an object"),
        ({"colour": 1}, "colour is unknown"),
    ],
)
def test_a_refusal_names_the_field_its_value_and_what_was_expected(changes, message):
    assert refusal(VALUES | changes).startswith(message)


def test_a_whole_object_must_be_one_and_have_its_required_fields():
    assert refusal([1]) == "it is [1], not an object"
    assert refusal({}) == "count is missing"


def test_a_complete_object_has_every_field_and_unknown_ones_may_be_ignored():
    assert read_dataclass(Everything, VALUES, complete=True) == read_dataclass(Everything, VALUES)
    assert refusal({"count": 1}, complete=True) == "share is missing"
    assert refusal(VALUES | {"points": [{"x": 1}]}, complete=True) == "points[0].name is missing"
    assert read_dataclass(Everything, VALUES | {"colour": 1}, ignore_unknown=True).count == 3
    inside = VALUES | {"points": [{"x": 1, "colour": 2}]}
    assert refusal(inside) == "points[0].colour is unknown"
    assert read_dataclass(Everything, inside, ignore_unknown=True).points == [Point(1)]


@dataclass
class Settings:
    steps: int | None = option(None, "how many", at_least=1)


def test_values_are_checked_by_declared_options():
    declared = {each.name: each for each in options(Settings)}
    assert read_values(declared, {"steps": None}) == {"steps": None}
    with pytest.raises(InputError, match="'step' is unknown"):
        read_values(declared, {"step": 1})
    with pytest.raises(InputError, match="steps takes a whole number of at least 1, not 0"):
        read_values(declared, {"steps": 0})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([each.name for each in dataclasses.fields(Everything)]), json_values))
def test_any_value_is_read_or_refused(values):
    with contextlib.suppress(InputError):
        read_dataclass(Everything, values)
