"""Several texts have names and weights; what cannot be meant is refused."""

from __future__ import annotations

import pytest

from minigrad.data.mixture import parse_shares
from minigrad.errors import InputError


@pytest.mark.parametrize(
    "single",
    [
        "python-docs",
        "a.txt",
        "http://localhost:8080/a,b.txt",
        "http://localhost:8080",
        r"C:\a.txt",
        "to be, or not",
        "",
    ],
)
def test_a_single_text_has_no_weight(single):
    assert parse_shares(single) == {single: 1.0}


def test_weights_become_shares():
    assert parse_shares("a:0.7, b:0.3") == pytest.approx({"a": 0.7, "b": 0.3})
    assert parse_shares(r"https://host:80/a:2,C:\b:1e0,c:1") == {"https://host:80/a": 0.5, r"C:\b": 0.25, "c": 0.25}


def test_a_file_with_a_comma_in_its_name_is_a_single_text(tmp_path):
    path = tmp_path / "a:1,b:2"
    path.write_text("text", encoding="utf-8")
    assert parse_shares(str(path)) == {str(path): 1.0}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("a:0,b:1", "the weight of a is '0'; expected a number above 0"),
        ("a:1,b:-1", "the weight of b is '-1'"),
        ("a:much,b:1", "the weight of a is 'much'"),
        ("a:much,b:little", "the weight of a is 'much'"),
        ("a:nan,b:1", "the weight of a is 'nan'"),
        ("a:1,b:inf", "the weight of b is 'inf'"),
        ("a:1,b:", "the weight of b is ''"),
        ("a:1,b", "'b' has no weight; expected NAME:WEIGHT,NAME:WEIGHT"),
        ("a:1,", "'' has no weight"),
        (":1,a:1", "':1' has no name"),
        (".,..", "'.' has no weight"),
        ("a:1,b:1,a:2", "a is given twice"),
        ("a:1,b:1e-5", "the share of b is 1e-05; expected at least 0.0001"),
    ],
)
def test_what_cannot_be_meant_is_refused(data, message):
    with pytest.raises(InputError) as caught:
        parse_shares(data)
    assert str(caught.value).startswith(f"--data {data}: {message}")
