"""Convolution: the product of polynomials, and one result for both methods."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import InputError, ShapeError, Tensor, ops
from minigrad.ops import convolution
from minigrad.variable import add, equivalent
from tests.variable.drawn import extensions, tensors

vectors = tensors()
METHODS = st.sampled_from(["direct", "fft"])


@given(a=vectors, b=vectors, c=vectors)
def test_the_vectors_are_a_commutative_ring(a: Tensor, b: Tensor, c: Tensor) -> None:
    """With addition of zero-extensions, convolution is the multiplication of polynomials."""
    convolve, one = ops.convolve, Tensor(np.ones(1))
    assert convolve(a, b).tolist() == convolve(b, a).tolist()
    assert convolve(convolve(a, b), c).tolist() == convolve(a, convolve(b, c)).tolist()
    assert equivalent(convolve(a, add(b, c)), add(convolve(a, b), convolve(a, c)))
    assert convolve(a, one).tolist() == a.tolist()


@given(a=vectors, b=vectors, z=st.integers(-3, 3))
def test_the_value_of_the_product_is_the_product_of_the_values(a: Tensor, b: Tensor, z: int) -> None:
    def value(x: Tensor) -> float:
        return sum(coefficient * z**power for power, coefficient in enumerate(x.tolist()))

    assert value(ops.convolve(a, b)) == value(a) * value(b)


@given(data=st.data())
def test_both_factors_may_be_any_member_of_their_class(data: st.DataObject) -> None:
    a, b = data.draw(vectors), data.draw(vectors)
    assert equivalent(ops.convolve(data.draw(extensions(a)), data.draw(extensions(b))), ops.convolve(a, b))


@pytest.mark.parametrize("lengths", [(511, 512), (512, 512), (600, 3000), (3000, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_methods_agree_on_both_sides_of_the_threshold(lengths: tuple[int, int], dtype: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=length).astype(dtype) for length in lengths]
    results = {}
    for method in convolution.METHODS:
        a, b = (Tensor(array, requires_grad=True) for array in arrays)
        y = ops.convolve(a, b, method=method)
        y.backward(np.cos(np.arange(len(y))))
        results[method] = (y.data, a.grad, b.grad)
    chosen = "fft" if min(lengths) >= convolution._SHORTEST_FOR_FFT else "direct"
    for auto, same, direct, fft in zip(*(results[name] for name in ("auto", chosen, "direct", "fft")), strict=True):
        assert auto is not None
        assert direct is not None
        np.testing.assert_array_equal(auto, same)
        tolerance = 1e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(fft, direct, rtol=0, atol=tolerance * np.abs(direct).max())
        assert fft.dtype == dtype


def test_what_is_no_product_of_polynomials_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"two vectors; got shapes \(1, 1\) and \(1,\)"):
        ops.convolve(Tensor([[1.0]]), Tensor([1.0]))
    with pytest.raises(InputError, match="no method 'fourier'; choose auto, direct, fft"):
        ops.convolve(Tensor([1.0]), Tensor([1.0]), method="fourier")
