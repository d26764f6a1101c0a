"""The gradient check accepts correct gradients, refuses wrong ones, and says where they are wrong."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from minigrad import Tensor, ops
from minigrad.autograd import gradcheck
from minigrad.autograd.gradcheck import GradientError
from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.typing import Array


def check_square(factor: float) -> None:
    @op
    def square(x: Array) -> tuple[Array, Backward]:
        return x * x, lambda dy: dy * factor * x

    gradcheck.check(square, np.linspace(1, 2, 6).reshape(2, 3))


def test_large_outputs_that_do_not_change_hide_no_small_slope() -> None:
    rest = Tensor(np.full(100_000, 1e4))
    gradcheck.check(lambda x: ops.concatenate(x, rest), np.array([0.3]))


def test_an_error_of_a_thousandth_is_found_and_located() -> None:
    check_square(2)
    where = r"square, argument 0 of shape \(2, 3\), at index \(0, 0\): got 1\.022\d+, expected 1\.021"
    with pytest.raises(GradientError, match=where):
        check_square(2.001)


def test_a_large_input_is_checked_along_a_direction() -> None:
    @op
    def one_bad_element(x: Array) -> tuple[Array, Backward]:
        def backward(dy: Array) -> Array:
            dx = dy * 2 * x
            dx[17, 3] = 0
            return dx

        return x * x, backward

    x = np.random.default_rng(0).normal(2, 1, (40, 40))
    gradcheck.check(lambda t: t * t, x)
    with pytest.raises(GradientError, match=r"one_bad_element.*along a random direction"):
        gradcheck.check(one_bad_element, x)
    with pytest.raises(GradientError, match=r"at index \(17, 3\)"):
        gradcheck.check(one_bad_element, x, small=x.size)


def test_slopes_of_one_output_are_not_weighted_and_others_say_that_they_are() -> None:
    @op
    def wrong_triple(x: Array) -> tuple[Array, Backward]:
        return 3 * x, lambda dy: 2 * dy

    with pytest.raises(GradientError, match=r"got 2, expected 3$|got 2, expected (2\.9{4}|3\.0{4})\d*$"):
        gradcheck.check(wrong_triple, np.array([1.0]))
    with pytest.raises(GradientError, match=r"of the sum of all outputs, each times a random weight"):
        gradcheck.check(wrong_triple, np.ones(2))


def test_a_missing_gradient_is_found() -> None:
    with pytest.raises(GradientError, match="got 0, expected"):
        gradcheck.check(lambda x: Tensor(x.data) + x * 0.0, np.ones(2))


def test_a_gradient_of_nan_is_refused() -> None:
    @op
    def with_nan(x: Array) -> tuple[Array, Backward]:
        return x * 1, lambda dy: dy * np.nan

    with pytest.raises(GradientError, match="got nan"):
        gradcheck.check(with_nan, np.ones(2))


def test_float32_is_refused() -> None:
    with pytest.raises(TypeError, match="float64 arrays, not float32"):
        gradcheck.check(lambda x: x, np.ones(2, np.float32))


def test_gradcheck_needs_no_other_import() -> None:
    script = "import numpy as np\nfrom minigrad import gradcheck\ngradcheck.check(lambda x: x * x, np.ones(2))"
    subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], check=True)


@pytest.mark.parametrize("arrays", [(), (np.array([1, 2, 3]),)])
def test_a_check_of_nothing_is_refused(arrays: tuple[Array, ...]) -> None:
    with pytest.raises(TypeError, match="gradcheck needs a float64 array, and there is only"):
        gradcheck.check(lambda *given: given[0] * given[0], *arrays)


def test_integers_are_passed_on_unchecked() -> None:
    gradcheck.check(lambda table, ids: ops.embedding(table, ids), np.ones((3, 2)), np.array([0, 2, 2]))


def test_inputs_stay_unchanged() -> None:
    x = np.ones(3)
    gradcheck.check(lambda t: t.exp(), x)
    assert x.tolist() == [1.0, 1.0, 1.0]
