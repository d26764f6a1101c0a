"""Rules: a family built from existing layers has a program, which computes what the model computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from minigrad import nn, no_grad, ops
from minigrad.autograd.tensor import Tensor
from minigrad.kernels.decoding import program as codes
from minigrad.nn import Layout
from minigrad.programs.decoder import Decoder
from minigrad.programs.lower import program_of
from tests.models.tiny import WITH_PROGRAM, build, tokens
from tests.programs.own_family import Own, OwnConfig


def gated(x: Tensor, layout: Layout) -> Tensor:
    return x * ops.sigmoid(ops.gelu(x))


def in_other_shapes(x: Tensor, layout: Layout) -> Tensor:
    both = ops.concatenate(ops.gelu(x), x, axis=1).reshape(len(x), 2, 12)
    return ops.stack(both[:, 1], both[:, 0], axis=1)[:, 1]


def activated(x: Tensor, layout: Layout) -> Tensor:
    return x + ops.gelu(ops.gelu(x, approximate="tanh"))


@pytest.mark.parametrize("also", [lambda x, layout: x, gated, in_other_shapes, activated])
def test_a_family_of_ones_own_is_written_with_by_a_program(also: Any) -> None:
    model = Own(OwnConfig(), also).eval()
    ids, decoder, cache = tokens(0, 3, 9), Decoder(model), model.new_cache(3, 9)
    assert decoder.has_program
    whole = model(ids).data
    with no_grad():
        model(ids[:, :2], cache=cache)
    for position in range(2, 9):
        found = decoder.step(ids[:, position], cache)
        np.testing.assert_allclose(found, whole[:, position], atol=1e-5 * max(1, np.abs(whole).max()))


@pytest.mark.parametrize("family", WITH_PROGRAM)
def test_a_residual_stream_costs_no_step(family: str) -> None:
    program = program_of(build(family))
    assert program is not None
    assert codes.ADD not in [step.code for step in program.steps]


def test_heads_of_two_sizes_or_norms_of_two_kinds_have_no_program() -> None:
    model = Own(OwnConfig())
    assert program_of(model) is not None
    model.norms[1] = nn.RMSNorm(12, eps=1e-3)
    assert program_of(model) is None
    model.norms[1] = nn.RMSNorm(12)
    model.attention[1] = nn.GroupedQueryAttention(12, 2, 1, 6)
    assert program_of(model) is None
