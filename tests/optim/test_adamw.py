"""AdamW: its formula and the textbook over several steps, flat and separate parameters, and bad gradients."""

from __future__ import annotations

import contextlib
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import InputError, Tensor
from minigrad.constants import LARGEST_DECAY
from minigrad.errors import DivergenceError
from minigrad.kernels.rowwise.updates import AdamWFactors, adamw_update
from minigrad.nn import LayerNorm, Linear, Module
from minigrad.optim import AdamW
from minigrad.optim.adamw import adamw_formula
from minigrad.optim.flat import segments

SHAPES = [(3, 4), (4,), (2, 2), ()]


def leaves(dtype: Any = np.float64, seed: int = 0) -> list[Tensor]:
    rng = np.random.default_rng(seed)
    return [Tensor(np.asarray(rng.normal(size=shape), dtype), requires_grad=True) for shape in SHAPES]


def set_gradients(parameters: list[Tensor], step: int, scale: float = 1.0) -> None:
    rng = np.random.default_rng([step, 7])
    for parameter in parameters:
        gradient = np.asarray(rng.normal(size=parameter.shape) * scale, parameter.dtype)
        if parameter.grad is None:
            parameter.grad = gradient
        else:
            parameter.grad[...] = gradient


class Textbook:
    """Algorithm 2 of Loshchilov and Hutter, one parameter at a time, in float64."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self.w = [parameter.data.astype(np.float64) for parameter in parameters]
        self.m, self.v = [np.zeros(w.shape) for w in self.w], [np.zeros(w.shape) for w in self.w]

    def step(self, gradients: list[Any], t: int, rate: float, decay: float, max_norm: float) -> None:
        beta1, beta2, eps = 0.8, 0.9, 1e-6
        norm = math.sqrt(sum((np.asarray(g, float) ** 2).sum() for g in gradients))
        for i, gradient in enumerate(gradients):
            g = gradient * min(1.0, max_norm / norm)
            self.m[i] = beta1 * self.m[i] + (1 - beta1) * g
            self.v[i] = beta2 * self.v[i] + (1 - beta2) * g**2
            m, v = self.m[i] / (1 - beta1**t), self.v[i] / (1 - beta2**t)
            decayed = decay * self.w[i] if self.w[i].ndim >= 2 else 0  # vectors are not decayed
            self.w[i] = self.w[i] - rate * (m / (np.sqrt(v) + eps) + decayed)


@given(
    st.sampled_from([np.float32, np.float64]),
    st.sampled_from([0.0, 0.3]),
    st.sampled_from([math.inf, 1.0, 100.0]),
    st.integers(0, 99),
)
def test_steps_are_those_of_the_textbook(dtype: Any, decay: float, max_norm: float, seed: int) -> None:
    parameters = leaves(dtype, seed)
    optimizer = AdamW(parameters, lr=9.0, betas=(0.8, 0.9), eps=1e-6, weight_decay=decay)
    textbook = Textbook(parameters)
    for t in range(1, 6):
        set_gradients(parameters, t)
        gradients = [parameter.grad.astype(float) for parameter in parameters if parameter.grad is not None]
        norm = optimizer.step(lr=0.1 / t, max_norm=max_norm)
        textbook.step(gradients, t, 0.1 / t, decay, max_norm)
        assert norm == pytest.approx(math.sqrt(sum((g**2).sum() for g in gradients)), rel=1e-5)
    tolerance = 1e-4 if dtype == np.float32 else 1e-12
    for parameter, w, (m, v), wanted_m, wanted_v in zip(
        parameters, textbook.w, optimizer.moments(), textbook.m, textbook.v, strict=True
    ):
        np.testing.assert_allclose(parameter.data, w, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(m, wanted_m, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(v, wanted_v, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("betas", [(0.0, LARGEST_DECAY), (LARGEST_DECAY, LARGEST_DECAY), (0.9, 0.99999), (0.9, 0.95)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_first_step_is_as_large_as_the_learning_rate(dtype: Any, betas: tuple[float, float]) -> None:
    w = Tensor(np.zeros(3, dtype), requires_grad=True)
    w.grad = np.array([1.0, -1.0, 1e-3], dtype)
    AdamW([w], lr=1e-3, betas=betas, weight_decay=0.0).step()
    np.testing.assert_allclose(w.data, [-1e-3, 1e-3, -1e-3], rtol=2e-5)  # m and sqrt(v) are the gradient, corrected


@given(st.integers(0, 40), st.integers(0, 99))
def test_the_kernel_computes_the_formula(size: int, seed: int) -> None:
    w, g, m, v = np.random.default_rng(seed).normal(size=(4, size))
    v = np.abs(v)
    factors = AdamWFactors(
        beta1=0.9, beta2=0.95, step_size=0.01, correction=1.5, eps=1e-8, keep=0.99, gradient_scale=0.5
    )
    wanted = adamw_formula(w, g, m, v, factors)
    adamw_update(w, g, m, v, factors)
    for got, formula in zip((w, m, v), wanted, strict=True):
        np.testing.assert_allclose(got, formula, rtol=1e-12, atol=1e-14)


class Small(Module):
    def __init__(self) -> None:
        self.norm, self.first, self.second = LayerNorm(4), Linear(4, 4), Linear(4, 3, bias=False)


def test_one_flat_array_gives_what_separate_parameters_give() -> None:
    flat, separate = Small(), Small()
    flat.initialise(3)
    separate.load_state_dict(flat.state_dict())
    assert len(segments(flat.parameters())) == 1
    assert len(segments(separate.parameters())) == len(separate.parameters())
    optimizers = [AdamW(model.parameters()) for model in (flat, separate)]
    for t in range(3):
        for model, optimizer in zip((flat, separate), optimizers, strict=True):
            set_gradients(list(model.parameters()), t)
            optimizer.step(max_norm=1.0)
    for name, array in flat.state_dict().items():
        np.testing.assert_allclose(array, separate.state_dict()[name], rtol=1e-5, atol=1e-7, err_msg=name)


def test_weights_loaded_after_the_optimizer_was_made_are_updated() -> None:
    model, other = Small(), Small()
    model.initialise(1)
    other.initialise(2)
    optimizer = AdamW(model.parameters())
    model.load_state_dict(other.state_dict())
    before = {name: array.copy() for name, array in model.state_dict().items()}
    set_gradients(list(model.parameters()), 0)
    optimizer.step()
    for name, array in model.state_dict().items():
        assert (array != before[name]).all(), name


def test_moments_have_the_order_and_shapes_of_the_parameters_and_are_not_copies() -> None:
    model = Small()
    model.initialise()
    parameters = list(model.parameters())
    optimizer = AdamW(parameters)
    for index, parameter in enumerate(parameters):
        assert parameter.grad is not None
        parameter.grad[...] = index + 1
    optimizer.step()
    for index, (parameter, (m, v)) in enumerate(zip(parameters, optimizer.moments(), strict=True)):
        assert m.shape == v.shape == parameter.shape
        np.testing.assert_allclose(m, 0.1 * (index + 1), rtol=1e-5)
        m[...] = 0
    assert not any(m.any() for m, _ in optimizer.moments())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_gradient_that_is_not_finite_changes_nothing(bad: float) -> None:
    parameters = leaves()
    optimizer = AdamW(parameters)
    set_gradients(parameters, 0)
    optimizer.step()
    before = [p.data.copy() for p in parameters] + [m.copy() for pair in optimizer.moments() for m in pair]
    assert parameters[2].grad is not None
    parameters[2].grad[0, 1] = bad
    assert not math.isfinite(optimizer.step())
    after = [p.data for p in parameters] + [m for pair in optimizer.moments() for m in pair]
    assert [a.tobytes() for a in after] == [b.tobytes() for b in before]
    assert optimizer.steps == 1


@pytest.mark.parametrize("diverges", [False, True])
def test_an_update_counts_as_a_change_in_place_of_saved_arrays(diverges: bool) -> None:
    w = Tensor(np.ones((2, 2)), requires_grad=True)
    optimizer = AdamW([w], lr=1e308 if diverges else 0.1, weight_decay=100.0)
    loss = (w * w).sum()
    set_gradients([w], 0)
    with pytest.raises(DivergenceError) if diverges else contextlib.nullcontext():
        optimizer.step()
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_zero_grad_and_parameters_without_a_gradient() -> None:
    parameters = leaves()
    optimizer = AdamW(parameters)
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in parameters)
    set_gradients(parameters, 0)
    optimizer.zero_grad()
    assert all(parameter.grad is not None and not parameter.grad.any() for parameter in parameters)
    with pytest.raises(InputError, match="require a gradient"):
        AdamW([Tensor([1.0])])


def test_a_parameter_that_the_loss_does_not_depend_on_is_not_changed() -> None:
    used, unused = (Tensor(np.ones((2, 2)), requires_grad=True) for _ in range(2))
    flat = Small()
    flat.initialise(0)
    before = flat.second.weight.data.copy()
    for parameters in ([used, unused], flat.parameters()):
        optimizer = AdamW(parameters, lr=0.1, weight_decay=0.5)
        for _ in range(3):
            loss = (used * used).sum() if parameters[0] is used else (flat.first.weight * flat.norm.weight).sum()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    assert (unused.data == 1).all()
    assert (used.data < 1).all()
    np.testing.assert_array_equal(flat.second.weight.data, before)
    assert not any(moment.any() for moment in optimizer.moments()[-1])


def test_frozen_parameters_are_skipped_and_can_be_trained_again() -> None:
    model = Small()
    model.initialise(0)
    model.first.freeze()
    optimizer = AdamW(model.parameters(), lr=0.1, weight_decay=0.5)
    start = {name: array.copy() for name, array in model.state_dict().items()}

    def step() -> set[str]:
        """Take a step, and return the names of the parameters that it changed."""
        before = {name: array.copy() for name, array in model.state_dict().items()}
        model.second(model.first(model.norm(Tensor([[1.0, 2.0, 3.0, 5.0]])))).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        return {name for name, array in model.state_dict().items() if (array != before[name]).any()}

    assert step() == {"norm.weight", "norm.bias", "second.weight"}
    assert len(optimizer.moments()) == 3
    kept = optimizer.moments()[-1][0].copy()
    model.first.freeze(False)
    assert (optimizer.moments()[-1][0] == kept).all()
    assert step() == set(start)
    assert len(optimizer.moments()) == 5
    model.freeze()
    with pytest.raises(InputError, match="none of these 5 does"):
        optimizer.step()


def test_parameters_that_get_their_memory_later_are_updated_there() -> None:
    model, reference = Small(), Small()
    optimizer = AdamW(model.parameters(), lr=0.1)
    model.initialise(1)
    reference.initialise(1)
    other = AdamW(reference.parameters(), lr=0.1)
    for t in range(2):
        for each, each_optimizer in ((model, optimizer), (reference, other)):
            set_gradients(list(each.parameters()), t)
            each_optimizer.step()
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, reference.state_dict()[name])
    kept = [m.copy() for m, _ in optimizer.moments()]
    model.initialise(2, "float64")
    assert [m.dtype for m, _ in optimizer.moments()] == [np.float64] * 5
    for m, before in zip(optimizer.moments(), kept, strict=True):
        np.testing.assert_array_equal(m[0], before)


def test_nothing_to_train_is_refused() -> None:
    for parameters in ([], [Tensor([1.0])], Small().freeze().parameters()):
        with pytest.raises(InputError, match="needs parameters that require a gradient"):
            AdamW(parameters)


def test_a_gradient_that_was_replaced_is_used() -> None:
    x = Tensor(np.ones((3, 4)), requires_grad=True)
    optimizer = AdamW([x], weight_decay=0.0)
    x.grad = None
    (x * x).sum().backward()
    assert optimizer.step(0.1) == pytest.approx(math.sqrt(12 * 4))
    np.testing.assert_allclose(x.data, 0.9, rtol=1e-6)


def test_a_parameter_given_twice_is_updated_once() -> None:
    x = Tensor(np.ones((3, 4)), requires_grad=True)
    optimizer = AdamW([x, x], weight_decay=0.0)
    (x * x).sum().backward()
    optimizer.step(0.1)
    np.testing.assert_allclose(x.data, 0.9, rtol=1e-6)
