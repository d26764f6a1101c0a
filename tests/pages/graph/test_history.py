"""The history of a computation: every value, and every part of a gradient, in the order in which they came."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import ops
from minigrad.errors import GraphError
from minigrad.pages.graph.history import Box, history


def by_title(boxes: list[Box]) -> dict[str, Box]:
    assert len({box.title for box in boxes}) == len(boxes)
    return {box.title: box for box in boxes}


def test_operations_are_numbered_as_they_were_computed_and_visited_from_the_newest_to_the_oldest() -> None:
    boxes = history(lambda w, x: (h := w * x).tanh() + h, {"w": 0.5, "x": 2.0})
    assert [(box.title, box.number, box.visit) for box in boxes] == [
        ("w", 0, 0),
        ("x", 0, 0),
        ("multiply", 1, 3),
        ("tanh", 2, 2),
        ("add", 3, 1),
    ]


def test_a_gradient_that_comes_in_parts_is_their_sum() -> None:
    """For y = tanh(h) + h, 1 arrives at h from the sum, and then 1 - tanh(h)^2 from the tanh."""
    box = by_title(history(lambda w, x: (h := w * x).tanh() + h, {"w": 0.5, "x": 2.0}))
    h, slope = box["multiply"], 1 - np.tanh(1.0) ** 2
    assert [each.sender for each in h.arrivals] == [box["add"], box["tanh"]]
    assert [float(each.part) for each in h.arrivals] == pytest.approx([1.0, slope])
    assert [float(each.total) for each in h.arrivals] == pytest.approx([1.0, 1 + slope])
    for each in box.values():
        if each.arrivals and each.gradient is not None:
            assert np.allclose(each.arrivals[-1].total, each.gradient)


def test_a_part_has_the_shape_of_the_value_that_was_broadcast() -> None:
    box = by_title(history(lambda x, b: (x + b).sum(), {"x": np.ones((2, 3)), "b": np.ones(3)}))
    assert box["b"].arrivals[0].part.tolist() == [2.0, 2.0, 2.0]
    assert box["x"].arrivals[0].part.shape == (2, 3)


def test_a_gradient_that_is_computed_when_it_is_stored_and_an_argument_that_is_left_out() -> None:
    """A linear layer defers the gradient of its matrix; here it has no bias."""
    box = by_title(history(lambda x, w: ops.linear(x, w).sum(), {"x": np.ones((2, 3)), "w": np.ones((4, 3))}))
    assert box["linear"].inputs == [box["x"], box["w"]]
    assert box["w"].arrivals[0].part.tolist() == np.full((4, 3), 2.0).tolist()


def test_a_constant_has_no_gradient_and_nothing_arrives() -> None:
    box = by_title(history(lambda x: x * 3.0, {"x": 2.0}))
    assert box["constant"].gradient is None
    assert not box["constant"].arrivals


def test_a_result_without_a_graph_is_refused() -> None:
    with pytest.raises(GraphError, match="depends on none of the inputs a through an operation"):
        history(lambda a: a, {"a": 1.0})
