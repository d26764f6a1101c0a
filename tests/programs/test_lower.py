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


MATRIX, PLACES = nn.Linear(12, 12, std=0.5), nn.Embedding(24, 12, std=1.0)


def added_to_itself(x: Tensor, layout: Layout) -> Tensor:
    return x + MATRIX(x)


def of_three_terms(x: Tensor, layout: Layout) -> Tensor:
    return x + (ops.gelu(x) + PLACES(Tensor(layout.positions)))


def activated_alone(x: Tensor, layout: Layout) -> Tensor:
    return MATRIX(ops.silu(x))


def activated_beside(x: Tensor, layout: Layout) -> Tensor:
    return ops.concatenate(ops.silu(x), x, axis=1)[:, :12]


@pytest.mark.parametrize(
    ("also", "has_program"),
    [
        (lambda x, layout: x, True),
        (gated, True),
        (in_other_shapes, True),
        (activated, True),
        (added_to_itself, True),
        (of_three_terms, True),
        (activated_alone, False),  # no step computes a SiLU that multiplies nothing
        (activated_beside, False),
    ],
)
def test_a_family_of_ones_own_is_written_with_as_it_is_called(also: Any, has_program: bool) -> None:
    MATRIX.initialise(seed=1)
    PLACES.initialise(seed=2)
    model = Own(OwnConfig(), also).eval()
    ids, decoder, cache = tokens(0, 3, 9), Decoder(model), model.new_cache(3, 9)
    assert decoder.has_program == has_program
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


def test_logits_in_two_registers_or_a_table_that_is_too_short_have_no_program() -> None:
    class InTwoParts(Own):
        def logits(self, x: Tensor) -> Tensor:
            return ops.concatenate(*(ops.linear(x, self.table.weight) for _ in range(2)), axis=1)

    assert program_of(Own(OwnConfig())) is not None
    assert program_of(InTwoParts(OwnConfig())) is None
    for name, rows in (("table", 13), ("places", 24)):
        model = Own(OwnConfig())
        setattr(model, name, nn.Embedding(rows - 1, 12))
        assert program_of(model) is None


def test_heads_of_two_sizes_or_norms_of_two_kinds_have_no_program() -> None:
    model = Own(OwnConfig())
    assert program_of(model) is not None
    model.norms[1] = nn.RMSNorm(12, eps=1e-3)
    assert program_of(model) is None
    model.norms[1] = nn.RMSNorm(12)
    model.attention[1] = nn.GroupedQueryAttention(12, 2, 1, 6)
    assert program_of(model) is None
