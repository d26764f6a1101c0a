"""A trace: it reads no element, and what depends on the data, the position or the batch is no program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from minigrad import no_grad, ops
from minigrad.autograd.tensor import Tensor
from minigrad.nn import Layout
from minigrad.programs import lower
from minigrad.programs.decoder import Decoder
from minigrad.programs.trace import Span, Unknown, UntraceableError, trace
from tests.models.tiny import WITH_PROGRAM, build, tokens
from tests.programs.own_family import Own, OwnConfig

UNKNOWN = Unknown((2, 6), np.float32, [Span(3, 0, 4), Span(5, 2, 2)])


def test_an_unknown_tensor_has_a_shape_and_registers() -> None:
    assert (UNKNOWN.shape, len(UNKNOWN), UNKNOWN.dtype, UNKNOWN.width) == ((2, 6), 2, np.float32, 6)
    assert UNKNOWN.part(3, 2) == (Span(3, 3, 1), Span(5, 2, 1))


@pytest.mark.parametrize(
    "read",
    [
        lambda x: x.data,
        lambda x: x.numpy(),
        lambda x: np.asarray(x),
        lambda x: x > 0,
        lambda x: x.tolist(),
        lambda x: Tensor(x),
        lambda x: float(Unknown((), np.float32, ())),
        lambda x: bool(Unknown((), np.float32, ())),
        lambda x: ops.exp(x),
    ],
)
def test_the_elements_of_an_unknown_tensor_cannot_be_read(read: Callable[[Tensor], object]) -> None:
    with pytest.raises(UntraceableError):
        read(UNKNOWN)


def plus_maximum(x: Tensor, layout: Layout) -> Tensor:
    return x + float(np.abs(x.data).max())


def by_its_sign(x: Tensor, layout: Layout) -> Tensor:
    return ops.gelu(x) if bool((x.sum() > 0).data) else x


def plus_waves(x: Tensor, layout: Layout) -> Tensor:
    return x + np.sin(layout.positions)[:, None].astype(np.float32)


def other_after_the_first(x: Tensor, layout: Layout) -> Tensor:
    return ops.gelu(x) if layout.positions.min() > 0 else x


def other_in_a_batch(x: Tensor, layout: Layout) -> Tensor:
    return ops.gelu(x) if len(x) > 1 else x


def scaled(x: Tensor, layout: Layout) -> Tensor:
    return ops.linear(x, Tensor(np.eye(12, dtype=np.float32) * np.float32(1 + layout.positions[0])))


def other_rows(x: Tensor, layout: Layout) -> Tensor:
    return x[np.arange(len(x))[::-1]]


@pytest.mark.parametrize(
    "also",
    [
        plus_maximum,
        by_its_sign,
        plus_waves,
        other_after_the_first,
        other_in_a_batch,
        scaled,
        other_rows,
    ],
)
def test_what_depends_on_more_than_the_token_is_left_to_the_model(also: Callable[[Tensor, Layout], Tensor]) -> None:
    model = Own(OwnConfig(), also).eval()
    decoder, cache, again = Decoder(model), model.new_cache(2, 4), model.new_cache(2, 4)
    assert not decoder.has_program
    for ids in tokens(0, 4, 2):
        with no_grad():
            whole = model(ids[:, None], cache=again).data[:, 0]
        np.testing.assert_array_equal(decoder.step(ids, cache), whole)


def steps_of(model: Any) -> Any:
    found = trace(model)
    assert found is not None
    return [each._replace(operands=()) for each in found.instructions]


@pytest.mark.parametrize("family", WITH_PROGRAM)
def test_a_trace_does_not_depend_on_the_weights(family: str) -> None:
    model = build(family)
    before = steps_of(model)
    for parameter in model.parameters():
        parameter.data = np.zeros_like(parameter.data)
    assert steps_of(model) == steps_of(build(family, seed=3)) == before


def test_a_model_stays_in_its_mode_and_without_an_observer() -> None:
    model = build("gpt2", dropout=0.5)
    model.h[0].eval()
    assert lower.program_of(model) is not None
    assert model.training
    assert not model.h[0].attn.training
    assert model.h[1].attn.training
    assert isinstance(model([[1]]).data, np.ndarray)
