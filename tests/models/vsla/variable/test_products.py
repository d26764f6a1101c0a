"""Convolution, the outer and the Kronecker product: which laws hold, and the two claimed ones that do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import InputError, ShapeError, Tensor, gradcheck
from models.vsla.variable import add, convolve, equivalent, kronecker, outer, products
from tests.models.vsla.variable.drawn import extensions, groups, tensors

vectors = tensors()


def vector(*numbers: float) -> Tensor:
    return Tensor(np.array(numbers, float))


@given(two=groups(2))
def test_it_is_the_product_of_numpy(two: list[Tensor]) -> None:
    a, b = two
    np.testing.assert_array_equal(kronecker(a, b).data, np.kron(a.data, b.data))


@given(three=groups(3))
def test_it_associates_and_one_is_its_identity(three: list[Tensor]) -> None:
    a, b, c = three
    one = Tensor(np.ones((1,) * a.ndim))
    assert kronecker(kronecker(a, b), c).tolist() == kronecker(a, kronecker(b, c)).tolist()
    assert kronecker(a, one).tolist() == kronecker(one, a).tolist() == a.tolist()


@given(data=st.data())
def test_the_first_factor_may_be_any_member_of_its_class(data: st.DataObject) -> None:
    a, b = data.draw(groups(2))
    assert equivalent(kronecker(data.draw(extensions(a)), b), kronecker(a, b))


@given(three=groups(3))
def test_it_distributes_over_a_sum_on_the_left(three: list[Tensor]) -> None:
    a, b, c = three
    assert equivalent(kronecker(add(a, b), c), add(kronecker(a, c), kronecker(b, c)))


@given(data=st.data())
def test_it_distributes_over_a_sum_of_equal_lengths_on_the_right(data: st.DataObject) -> None:
    a, b = data.draw(groups(2))
    c = data.draw(tensors(shape=b.shape))
    assert kronecker(a, add(b, c)).tolist() == add(kronecker(a, b), kronecker(a, c)).tolist()


def test_claim_one_fails_the_second_factor_may_not_be_any_member_of_its_class() -> None:
    a, b, extended = vector(1, 2), vector(1), vector(1, 0)
    assert equivalent(b, extended)
    assert kronecker(a, b).tolist() == [1, 2]
    assert kronecker(a, extended).tolist() == [1, 0, 2, 0]
    assert not equivalent(kronecker(a, b), kronecker(a, extended))


def test_claim_two_fails_it_does_not_distribute_over_every_sum_on_the_right() -> None:
    a, b, c = vector(1, 1), vector(1), vector(0, 1)
    assert kronecker(a, add(b, c)).tolist() == [1, 1, 1, 1]
    assert add(kronecker(a, b), kronecker(a, c)).tolist() == [1, 2, 0, 1]


def test_it_can_commute_without_a_scalar_and_does_not_in_general() -> None:
    a, b = vector(1, 2), vector(1, 3)
    assert kronecker(a, b).tolist() != kronecker(b, a).tolist()
    power = kronecker(a, a)
    assert kronecker(a, power).tolist() == kronecker(power, a).tolist()  # of different lengths, neither a scalar


@given(data=st.data())
def test_the_outer_product_keeps_both_laws(data: st.DataObject) -> None:
    a, b, c = data.draw(groups(3))
    product = outer(a, b)
    assert equivalent(outer(data.draw(extensions(a)), data.draw(extensions(b))), product)
    assert equivalent(outer(a, add(b, c)), add(product, outer(a, c)))
    assert equivalent(outer(add(a, c), b), add(product, outer(c, b)))


def test_a_flat_outer_product_of_vectors_is_the_kronecker_product() -> None:
    a, b = vector(1, 2), vector(3, 4, 5)
    assert kronecker(a, b).tolist() == outer(a, b).reshape(-1).tolist()


@given(sizes=st.lists(st.integers(0, 3), min_size=4, max_size=4), seed=st.integers(0, 1000))
def test_gradients_equal_central_differences(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    gradcheck.check(kronecker, rng.normal(size=sizes[:1]), rng.normal(size=sizes[1:2]))
    gradcheck.check(kronecker, rng.normal(size=sizes[:2]), rng.normal(size=sizes[2:]))


def test_the_gradients_are_those_of_the_flat_matrix() -> None:
    """With G the gradient as a matrix (m, n): da = G b and db = a G."""
    a, b = Tensor(np.array([1.0, 2.0]), requires_grad=True), Tensor(np.array([3.0, 4.0, 5.0]), requires_grad=True)
    gradient = np.arange(6.0)
    kronecker(a, b).backward(gradient)
    assert a.grad is not None
    assert b.grad is not None
    assert a.grad.tolist() == (gradient.reshape(2, 3) @ b.data).tolist()
    assert b.grad.tolist() == (a.data @ gradient.reshape(2, 3)).tolist()


def test_factors_of_different_ranks_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"kronecker needs tensors with equally many axes; got shapes \(1,\) and"):
        kronecker(vector(1), Tensor([[1.0]]))


def test_the_outer_product_keeps_the_axes_of_both() -> None:
    y = outer(Tensor(np.ones((2, 3))), Tensor(np.ones(4)))
    assert y.shape == (2, 3, 4)
    assert outer(Tensor(2.0), Tensor(3.0)).item() == 6


@given(a=vectors, b=vectors, c=vectors)
def test_the_vectors_are_a_commutative_ring(a: Tensor, b: Tensor, c: Tensor) -> None:
    """With addition of zero-extensions, convolution is the multiplication of polynomials."""
    one = Tensor(np.ones(1))
    assert convolve(a, b).tolist() == convolve(b, a).tolist()
    assert convolve(convolve(a, b), c).tolist() == convolve(a, convolve(b, c)).tolist()
    assert equivalent(convolve(a, add(b, c)), add(convolve(a, b), convolve(a, c)))
    assert convolve(a, one).tolist() == a.tolist()


@given(a=vectors, b=vectors, z=st.integers(-3, 3))
def test_the_value_of_the_product_is_the_product_of_the_values(a: Tensor, b: Tensor, z: int) -> None:
    def value(x: Tensor) -> float:
        return sum(coefficient * z**power for power, coefficient in enumerate(x.tolist()))

    assert value(convolve(a, b)) == value(a) * value(b)


@given(data=st.data())
def test_both_factors_may_be_any_member_of_their_class(data: st.DataObject) -> None:
    a, b = data.draw(vectors), data.draw(vectors)
    assert equivalent(convolve(data.draw(extensions(a)), data.draw(extensions(b))), convolve(a, b))


@pytest.mark.parametrize("lengths", [(511, 512), (512, 512), (600, 3000), (3000, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_both_methods_agree_on_both_sides_of_the_threshold(lengths: tuple[int, int], dtype: str) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=length).astype(dtype) for length in lengths]
    results = {}
    for method in products.METHODS:
        a, b = (Tensor(array, requires_grad=True) for array in arrays)
        y = convolve(a, b, method=method)
        y.backward(np.cos(np.arange(len(y))))
        results[method] = (y.data, a.grad, b.grad)
    chosen = "fft" if min(lengths) >= products._SHORTEST_FOR_FFT else "direct"
    for auto, same, direct, fft in zip(*(results[name] for name in ("auto", chosen, "direct", "fft")), strict=True):
        assert auto is not None
        assert direct is not None
        np.testing.assert_array_equal(auto, same)
        tolerance = 1e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(fft, direct, rtol=0, atol=tolerance * np.abs(direct).max())
        assert fft.dtype == dtype


def test_what_is_no_product_of_polynomials_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"two vectors; got shapes \(1, 1\) and \(1,\)"):
        convolve(Tensor([[1.0]]), Tensor([1.0]))
    with pytest.raises(InputError, match="no method 'fourier'; choose auto, direct, fft"):
        convolve(Tensor([1.0]), Tensor([1.0]), method="fourier")
