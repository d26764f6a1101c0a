"""A diagram shows the steps of a pass in order, what each one read, and every parameter once."""

from __future__ import annotations

import numpy as np

from docs.course.diagram import Box, folded, groups, lanes_of, record
from minigrad import Tensor, nn, ops


class Gated(nn.Module):
    def __init__(self) -> None:
        self.norm, self.inner = nn.RMSNorm(4), nn.Sequential(nn.Linear(4, 8), ops.gelu, nn.Linear(8, 4))
        self.blend = nn.Parameter(np.float32(0.5))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(self.norm(x)).reshape(3, 4) * ops.sigmoid(self.blend)


def test_the_steps_of_a_pass() -> None:
    module, x = Gated(), np.ones((3, 4), np.float32)
    boxes = record(module, {"x": x}, lambda: ops.linear(module(Tensor(x)), module.inner[0].weight))
    found = [(box.name, box.owner, box.shape, box.parameters, box.inputs) for box in boxes]
    assert found == [
        ("x", "", (3, 4), 0, []),
        ("norm", "", (3, 4), 4, [0]),
        ("0", "inner", (3, 8), 40, [1]),
        ("1", "inner", (3, 8), 0, [2]),
        ("2", "inner", (3, 4), 36, [3]),
        ("sigmoid", "", (), 1, []),
        ("multiply", "", (3, 4), 0, [4, 5]),
        ("add", "", (3, 4), 0, [0, 6]),
        ("linear", "", (3, 8), 0, [7]),
    ]
    assert [box.name for box in boxes if box.is_tied] == ["linear"]
    assert sum(box.parameters for box in boxes) == module.num_parameters()
    assert groups(boxes) == [("inner", 2, 4)]
    assert lanes_of(boxes) == {4: 0, 0: 1}  # read by another box than the next; the shorter line is inside
    closed = record(module, {"x": x}, lambda: module(Tensor(x)), closed=[nn.Sequential])
    assert [(box.name, box.parameters, box.inputs) for box in closed][2] == ("inner", 76, [1])


def test_lines_that_overlap_have_lanes_of_their_own() -> None:
    boxes = [
        Box("a"),
        Box("b", inputs=[0]),
        Box("c", inputs=[1]),
        Box("d", inputs=[0, 1]),
        Box("e"),
        Box("f", inputs=[3]),
    ]
    assert lanes_of(boxes) == {1: 0, 3: 1, 0: 2}


def test_lines_that_meet_at_a_box_have_lanes_of_their_own() -> None:
    boxes = [Box("tokens"), Box("positions"), Box("wte", inputs=[0]), Box("wpe", inputs=[1]), Box("add", inputs=[2, 3])]
    lanes = lanes_of(boxes)
    assert lanes[0] != lanes[2]  # one ends at wte, the other begins there


def test_equal_modules_in_a_row_are_one_box() -> None:
    boxes = [Box("x"), *(Box(f"h.{n}", "Block", parameters=5, inputs=[n]) for n in range(3)), Box("y", inputs=[0, 3])]
    assert [(box.name, box.parameters, box.inputs) for box in folded(boxes)] == [
        ("x", 0, []),
        ("h.0 to h.2", 15, [0]),
        ("y", 0, [0, 1]),
    ]
