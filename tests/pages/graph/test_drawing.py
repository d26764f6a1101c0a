"""The drawing of a graph holds every value and every gradient of a computation, where they belong."""

from __future__ import annotations

import re
import subprocess
import sys
from xml.etree import ElementTree

import numpy as np
import pytest

from minigrad import Tensor, draw_graph, ops
from minigrad.errors import GraphError

SVG = "{http://www.w3.org/2000/svg}"


def lines(svg: str) -> list[tuple[float, str, str]]:
    """Return the lines of all boxes as (height, label, number)."""
    texts = [(float(each.get("y", 0)), each.text or "") for each in ElementTree.fromstring(svg).iter(f"{SVG}text")]
    return [(y, label, number) for (y, label), (_, number) in zip(texts[::2], texts[1::2], strict=True)]


def test_a_neuron_by_hand() -> None:
    """For y = tanh(0.5 * 2 - 3 + 2.5) = tanh(0.5): dy/db = 1 - y^2 = 0.7864, dy/dw = 2 of that, dy/dx = 0.5 of it."""
    drawn = lines(draw_graph(lambda w, x, b: (w * x + b).tanh(), w=0.5, x=2.0, b=-0.5))
    assert [line[1:] for line in drawn] == [
        ("w", "0.5"),
        ("gradient", "1.573"),
        ("x", "2"),
        ("gradient", "0.3932"),
        ("multiply", "1"),
        ("gradient", "0.7864"),
        ("b", "-0.5"),
        ("gradient", "0.7864"),
        ("add", "0.5"),
        ("gradient", "0.7864"),
        ("tanh", "0.4621"),
        ("gradient", "1"),
    ]
    heights = {label: y for y, label, _ in drawn if label != "gradient"}
    assert heights["w"] == heights["x"] < heights["multiply"] == heights["b"] < heights["add"] < heights["tanh"]


def test_a_value_used_twice_is_drawn_once_with_the_sum_of_its_gradients() -> None:
    svg = draw_graph(lambda a: (a + a) * (a + 1), a=3.0)  # 2 a (a + 1), whose slope is 4 a + 2
    drawn = [line[1:] for line in lines(svg)]
    assert drawn.count(("a", "3")) == 1
    assert drawn[drawn.index(("a", "3")) + 1] == ("gradient", "14")
    assert ("constant", "1") in drawn
    assert svg.count("<circle") == 2 + 2 + 2  # one line for each argument of each operation


def test_arrays_are_numbers_or_shapes_and_names_are_text() -> None:
    svg = draw_graph(
        lambda x, mask: ops.where(mask.data > 0, x, 0.0).sum() + 0 * mask.sum(), x=[1, 2.5], mask=[1.0, -1]
    )
    assert ("x", "[1, 2.5]") in [line[1:] for line in lines(svg)]
    assert ("gradient", "[1, 0]") in [line[1:] for line in lines(svg)]
    svg = draw_graph(lambda **every: every["<w>"].sum(), **{"<w>": np.ones((2, 3))})
    assert ("<w>", "shape (2, 3)") in [line[1:] for line in lines(svg)]


def test_no_line_ends_outside_the_picture() -> None:
    svg = draw_graph(lambda a, b, c, d: ((a + b) * (c + d)) + a * d, a=1, b=2, c=3, d=4.0)
    _, _, width, height = map(float, ElementTree.fromstring(svg).get("viewBox", "").split())
    for rectangle in ElementTree.fromstring(svg).iter(f"{SVG}rect"):
        assert 0 <= float(rectangle.get("x", -1)) <= width - float(rectangle.get("width", 0))
        assert 0 <= float(rectangle.get("y", -1)) <= height - float(rectangle.get("height", 0))
    assert all(0 <= float(number) <= max(width, height) for number in re.findall(r"[MC ]([\d.]+)", svg))


def test_a_curve_passes_beside_the_boxes_between_and_two_uses_are_two_curves() -> None:
    """For (x + x).exp() + x, the curve from x to the last sum passes two rows, at the right of their boxes."""
    picture = ElementTree.fromstring(draw_graph(lambda x: (x + x).exp() + x, x=1.0))
    right = max(float(each.get("x", 0)) + float(each.get("width", 0)) for each in list(picture.iter(f"{SVG}rect"))[1:3])
    curves = [each.get("d", "") for each in picture.iter(f"{SVG}path")]
    assert len(set(curves)) == len(curves) == 5
    (long,) = [curve for curve in curves if "V" in curve]
    assert all(float(x) > right for x in re.findall(r"([\d.]+) [\d.]+V", long))
    assert long.count("V") == 2


def test_a_box_is_as_wide_as_its_text_needs() -> None:
    def width(value: list[float]) -> float:
        picture = ElementTree.fromstring(draw_graph(lambda x: x.sum(), x=value))
        return float(next(picture.iter(f"{SVG}rect")).get("width", 0))

    assert width([1.0]) == 176
    assert width([-0.0123, -45.67, 8.912]) > 220


def test_an_argument_that_is_left_out_is_not_drawn() -> None:
    svg = draw_graph(lambda x, w: ops.linear(x, w).sum(), x=np.ones((1, 2)), w=np.ones((3, 2)))
    assert [line[1] for line in lines(svg) if line[1] != "gradient"] == ["x", "w", "linear", "sum"]


def test_a_result_without_a_graph_is_refused() -> None:
    with pytest.raises(GraphError, match="depends on none of the inputs a, b"):
        draw_graph(lambda a, b: Tensor(1.0) + 1, a=1.0, b=2.0)
    with pytest.raises(GraphError, match="through an operation"):
        draw_graph(lambda a: a, a=1.0)


def test_the_same_computation_gives_the_same_picture() -> None:
    assert draw_graph(lambda a: a.exp(), a=1.0) == draw_graph(lambda a: a.exp(), a=1.0)


def test_drawing_needs_no_other_import() -> None:
    program = "from minigrad import draw_graph; print(draw_graph(lambda a: a * a, a=3.0))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "multiply" in ended.stdout, ended.stderr
