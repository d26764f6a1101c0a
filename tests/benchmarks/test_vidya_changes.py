"""Every change is compared with v1 at an equal number of parameters, the rows of the embedding aside."""

from __future__ import annotations

import pytest

from benchmarks.vidya_changes import SHAPES, V1, Vidya
from minigrad import nn
from models.vidya_v1 import VidyaV1


@pytest.mark.parametrize("name", SHAPES)
def test_equal_parameters(name: str) -> None:
    shape = SHAPES[name]
    with nn.shapes_only():
        model, v1 = Vidya(shape), VidyaV1(V1.config)
    layers = [each.num_parameters() - each.model.embed_tokens.num_parameters() for each in (model, v1)]
    assert layers[0] == pytest.approx(layers[1], rel=0.005)
    assert shape == V1 or str(model) != str(v1) or shape.config.context_length > V1.config.context_length
