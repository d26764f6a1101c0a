"""Stepping: at each step the picture holds what is known by then, at the end all of it, and a list tells every step."""

from __future__ import annotations

import html
import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from minigrad import Tensor, draw_graph, ops, step_through
from minigrad.errors import GraphError

SVG = "{http://www.w3.org/2000/svg}"


def residual(w: Tensor, x: Tensor) -> Tensor:
    h = w * x
    return h.tanh() + h


def picture_of(page: str) -> ElementTree.Element:
    return ElementTree.fromstring(page[page.index("<svg") : page.index("</svg>") + len("</svg>")])


def told(page: str) -> list[str]:
    return [html.unescape(each) for each in re.findall(r"<li>(.*?)</li>", page)]


def visible(page: str, step: int) -> list[tuple[str, str]]:
    """Return (label, number) of each line that is visible at a step, by the rule that the script follows."""
    texts = [
        each.text or ""
        for each in picture_of(page).iter(f"{SVG}text")
        if int(each.get("data-from", 0)) <= step < int(each.get("data-until", 1000))
    ]
    return list(zip(texts[::2], texts[1::2], strict=True))


def test_values_come_first_and_then_gradients_which_may_come_in_parts() -> None:
    page = step_through(residual, w=0.5, x=2.0)
    w, x, h, tanh, y = ("w", "0.5"), ("x", "2"), ("multiply₁", "1"), ("tanh₂", "0.7616"), ("add₃", "1.762")
    assert visible(page, 0) == [w, x]
    assert visible(page, 1) == [w, x, h]
    assert visible(page, 3) == [w, x, h, tanh, y]
    one, whole = ("gradient", "1"), ("gradient", "1.42")
    assert visible(page, 4) == [w, x, h, tanh, y, one]
    assert visible(page, 5) == [w, x, h, one, tanh, one, y, one]
    assert visible(page, 6) == [w, x, h, whole, tanh, one, y, one]
    assert visible(page, 7) == [w, ("gradient", "2.84"), x, ("gradient", "0.71"), h, whole, tanh, one, y, one]


def test_the_last_step_shows_all_that_the_drawing_shows_and_so_does_the_page_without_its_script() -> None:
    page = step_through(residual, w=0.5, x=2.0)
    whole = [each.text for each in picture_of(draw_graph(residual, w=0.5, x=2.0)).iter(f"{SVG}text")]
    at_the_end = [text.strip("₁₂₃") for line in visible(page, len(told(page)) - 1) for text in line]
    assert at_the_end == whole
    shown = [each for each in picture_of(page).iter(f"{SVG}text") if each.get("class") != "hidden"]
    assert [(each.text or "").strip("₁₂₃") for each in shown] == whole


def test_every_step_is_told_in_words() -> None:
    assert told(step_through(residual, w=0.5, x=2.0)) == [
        "Given: w = 0.5 and x = 2.",
        "multiply₁ takes w = 0.5 and x = 2. Its value is 1.",
        "tanh₂ takes multiply₁ = 1. Its value is 0.7616.",
        "add₃ takes tanh₂ = 0.7616 and multiply₁ = 1. Its value is 1.762.",
        "The backward pass begins at add₃, whose gradient is 1.",
        "add₃ passes on 1 to tanh₂ and 1 to multiply₁.",
        "tanh₂ passes on 0.42 to multiply₁ (together 1.42).",
        "multiply₁ passes on 2.84 to w and 0.71 to x.",
    ]


def test_both_parts_of_a_value_that_is_used_twice_by_one_operation_and_names_that_are_markup() -> None:
    page = step_through(lambda **every: (every["<a>"] + every["<a>"]) * 1.0, **{"<a>": 3.0})
    assert told(page)[1] == "add₁ takes <a> = 3 and <a> = 3. Its value is 6."
    assert told(page)[-1] == "add₁ passes on 1 and 1 to <a> (together 2)."
    assert "<a>" not in page


def test_an_operation_that_passes_nothing_on_is_told() -> None:
    lines = told(step_through(lambda x: ops.where(x, x * 2, 0.0 * x).sum(), x=[1.0, -2.0]))
    assert any("passes on" in line for line in lines)


def test_large_arrays_are_told_by_their_shapes() -> None:
    page = step_through(lambda x: x.sum(), x=np.ones((2, 3)))
    assert told(page)[0] == "Given: x = an array of shape (2, 3)."
    assert told(page)[-1] == "sum₁ passes on an array of shape (2, 3) to x."


def test_each_step_marks_the_operation_that_works_and_the_curves_that_lead_to_it() -> None:
    picture = picture_of(step_through(residual, w=0.5, x=2.0))
    frames = [each.get("data-steps") for each in picture.iter(f"{SVG}rect")]
    curves = [each.get("data-steps") for each in picture.iter(f"{SVG}path")]
    assert frames == ["0", "0", "1 7", "2 6", "3 5"]
    assert curves == ["1 7", "1 7", "2 6", "3 5", "3 5"]


def test_the_page_refers_to_no_other_file_and_its_controls_need_the_script() -> None:
    page = step_through(residual, w=0.5, x=2.0)
    assert "src=" not in page
    assert "href=" not in page
    assert page.count("http") == 1  # the name of the SVG format
    assert "<p hidden><button" in page
    assert page.count("aria-label") == 4  # the picture, two buttons and the slider


def test_a_result_without_a_graph_is_refused() -> None:
    with pytest.raises(GraphError, match="depends on none of the inputs a through an operation"):
        step_through(lambda a: a, a=1.0)


def test_stepping_needs_no_other_import() -> None:
    program = "from minigrad import step_through; print(step_through(lambda a: a * a, a=3.0))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "multiply₁" in ended.stdout, ended.stderr
