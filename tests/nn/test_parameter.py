"""Parameters: initial values that are given or drawn, and skeletons without memory."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from minigrad import InputError, Tensor, nn
from minigrad.nn import Init, Module, Parameter, shapes_only


@pytest.mark.parametrize("values", [[1.0, -2.0], np.array([1.0, -2.0]), Tensor([1.0, -2.0]), [1, -2]])
def test_a_parameter_begins_with_a_copy_of_given_values(values: Any) -> None:
    parameter = Parameter(values)
    assert parameter.tolist() == [1.0, -2.0]
    assert parameter.dtype == np.float32
    assert parameter.requires_grad
    assert not isinstance(values, np.ndarray) or not np.shares_memory(parameter.data, values)
    assert repr(parameter) == "Parameter([ 1. -2.], dtype=float32, requires_grad=True)"


class Scaled(Module):
    def __init__(self) -> None:
        self.scale, self.layer = Parameter([2.0, 3.0]), nn.Linear(2, 2)


def test_given_values_are_set_again_by_initialise() -> None:
    with shapes_only():
        model = Scaled()
    assert model.scale.shape == (2,)
    model.initialise(0, "float64")
    assert model.scale.tolist() == [2.0, 3.0]
    assert model.scale.dtype == np.float64
    model.scale.data = np.zeros(2)
    model.initialise(1)
    assert model.scale.tolist() == [2.0, 3.0]


def test_what_has_no_values_or_no_shape_is_refused() -> None:
    with pytest.raises(InputError, match=r"takes its shape, such as .*, not list; .*Parameter\(values\)"):
        Parameter([1.0, 2.0], Init())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="holds numbers"):
        Parameter(["a"])
    with pytest.raises(InputError, match=r"sizes of a Parameter are at least 0, not \(-1, 3\)"):
        Parameter((-1, 3), Init())


def test_skeletons_of_two_threads_leave_each_other_alone() -> None:
    entered, left = threading.Event(), threading.Event()

    def stay() -> None:
        with shapes_only():
            entered.set()
            assert left.wait(timeout=60)

    with shapes_only():
        thread = threading.Thread(target=stay)
        thread.start()
        assert entered.wait(timeout=60)
    left.set()
    thread.join()
    assert Parameter([1.0]).data.flags.writeable


def test_a_single_number_has_memory_and_in_a_skeleton_it_has_none() -> None:
    assert Parameter(1.0).has_memory
    with shapes_only():
        assert not Parameter(()).has_memory
        assert not Parameter((2, 3)).has_memory
