"""Quantised matrices: the products of the floats that they stand for, with few rows as with many; never trained."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from minigrad import GraphError, InputError, Tensor, nn, ops
from minigrad.errors import ShapeError
from minigrad.kernels.decoding import lines
from minigrad.kernels.gemm import backend
from minigrad.quantised import QuantisedEmbedding, QuantisedLinear, quantise
from minigrad.quantised.parameter import QuantisedParameter
from tests.models.tiny import build

RNG = np.random.default_rng(0)


def parameter(rows: int, columns: int, format: str, transposed: bool = False) -> QuantisedParameter:
    values = RNG.normal(size=(rows, columns)).astype(np.float32)
    return QuantisedParameter(nn.Parameter(values), format, transposed)


@pytest.mark.parametrize(("format", "error"), [("float16", 5e-4), ("bfloat16", 4e-3), ("int8", 4e-3), ("int4", 0.13)])
def test_values_come_back_rounded(format: str, error: float) -> None:
    weight = nn.Parameter(RNG.normal(size=(6, 96)).astype(np.float32))
    found = QuantisedParameter(weight, format).data
    largest = np.abs(weight.data).max(axis=1, keepdims=True)
    assert (np.abs(found - weight.data) <= error * largest).all()
    assert found.any()
    np.testing.assert_array_equal(QuantisedParameter(nn.Parameter(found), format).data, found)  # rounded only once


@pytest.mark.parametrize("format", lines.CODES)
def test_a_matrix_is_rounded_in_parts_as_it_is_at_once(format: str, monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = RNG.normal(size=(70, 40)).astype(np.float32)
    whole = lines.pack(matrix, format)
    monkeypatch.setattr(lines, "_TOGETHER", 1)  # as few lines as a part can have
    parts = lines.pack(matrix, format)
    np.testing.assert_array_equal(parts.elements, whole.elements)
    np.testing.assert_array_equal(parts.scales, whole.scales)


@pytest.fixture(params=["float32", "bfloat16"])
def _precision(request: pytest.FixtureRequest) -> Iterator[None]:
    backend.use("auto", request.param)
    yield
    backend.use()


@pytest.mark.usefixtures("_precision")
@pytest.mark.parametrize("rows", [1, 16, 17])
@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("widened", [100, 1 << 22])  # elements that are widened at a time: a part of the matrix, or all
def test_products_are_those_of_the_values(
    monkeypatch: pytest.MonkeyPatch, rows: int, transposed: bool, widened: int
) -> None:
    monkeypatch.setattr("minigrad.quantised.parameter._WIDENED", widened)
    weight, bias = parameter(40, 50, "int8", transposed), nn.Parameter(RNG.normal(size=50 if transposed else 40))
    x = Tensor(RNG.normal(size=(rows, 1, 40 if transposed else 50)).astype(np.float32))
    found = QuantisedLinear(weight, bias)(x)
    expected = ops.linear(x, Tensor(weight.data), bias, inputs_first=transposed)
    np.testing.assert_allclose(found.data, expected.data, atol=1e-5)


def test_a_product_of_float64_is_computed_in_float64() -> None:
    weight, x = parameter(40, 50, "int8"), RNG.normal(size=(3, 50))
    np.testing.assert_allclose(
        QuantisedLinear(weight)(Tensor(x)).data, x @ weight.data.T.astype(np.float64), rtol=1e-12
    )


def test_new_values_are_a_new_version() -> None:
    weight = parameter(4, 6, "int8")
    before = weight.version.count
    weight.data = np.ones((4, 6))
    assert weight.version.count > before


def test_rows_of_a_table_are_looked_up() -> None:
    table = parameter(9, 33, "int4")
    ids = Tensor([[3, 8], [0, 3]])
    np.testing.assert_array_equal(QuantisedEmbedding(table)(ids).data, table.data[ids.data])
    for wrong in (9, -1):
        with pytest.raises(InputError, match="the table has rows 0 to 8"):
            QuantisedEmbedding(table)(Tensor([wrong]))


def test_what_does_not_fit_is_refused() -> None:
    weight = parameter(4, 6, "int8")
    with pytest.raises(ShapeError, match=r"\(4, 6\)"):
        QuantisedLinear(weight)(Tensor(np.zeros((2, 5), np.float32)))
    with pytest.raises(InputError, match=r"\(6, 4\)"):
        weight.data = np.zeros((6, 4))


def test_nothing_is_trained_through_a_quantised_matrix() -> None:
    layer = nn.Sequential(nn.Linear(8, 4))
    quantise(layer, "int8")
    with pytest.raises(InputError, match="stored as int8 cannot be trained"):
        layer.freeze(False)
    model = build("vidya-v2")
    expected = model.loss([[1, 2, 3]], [[2, 3, 4]]).item()
    quantise(model, "float16")
    loss = model.loss([[1, 2, 3]], [[2, 3, 4]])
    assert abs(loss.item() - expected) < 0.01
    with pytest.raises(GraphError, match="stored as float16 cannot be trained"):
        loss.backward()


@pytest.mark.parametrize("layer", [nn.Linear(8, 6), nn.Conv1D(8, 6)])
def test_a_quantised_layer_passes_gradients_on(monkeypatch: pytest.MonkeyPatch, layer: nn.Linear | nn.Conv1D) -> None:
    """As a layer with the rounded matrix does, also if only a part of it is widened at a time."""
    monkeypatch.setattr("minigrad.quantised.parameter._WIDENED", 16)
    model = nn.Sequential(layer)
    quantise(model, "int8")
    rng = np.random.default_rng(0)
    x, dy = (rng.normal(size=(2, 3, size)).astype(np.float32) for size in (8, 6))
    weight = model[0].weight.data  # type: ignore[attr-defined]
    matrix = weight.T if isinstance(layer, nn.Conv1D) else weight
    given = Tensor(x, requires_grad=True)
    model(given).backward(dy)
    np.testing.assert_allclose(np.asarray(given.grad), dy @ matrix, rtol=1e-5, atol=1e-5)


def test_weights_that_a_format_cannot_hold_are_refused() -> None:
    for format, value in (("float16", 1e6), ("int4", 1e6), ("int8", np.nan), ("bfloat16", np.inf)):
        with pytest.raises(InputError, match=f"^the matrix: weights that are not finite, .* do not fit {format}$"):
            QuantisedParameter(nn.Parameter(np.array([[1, value]], np.float32)), format)
