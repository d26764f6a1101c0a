"""A family that can be cut between its layers says how a pass begins, goes on and ends."""

from __future__ import annotations

from typing import Any

import pytest

from minigrad.nn.layered_model import LayeredModel


@pytest.mark.parametrize(
    ("part", "arguments", "missing"),
    [("enter", 2, "embedding"), ("pass_layer", 3, "layers"), ("leave", 1, "last norm")],
)
def test_what_a_family_has_not_is_named(part: str, arguments: int, missing: str) -> None:
    given: list[Any] = [None] * arguments
    with pytest.raises(TypeError, match=f"LayeredModel has no {missing} of its own"):
        getattr(LayeredModel(), part)(*given)
