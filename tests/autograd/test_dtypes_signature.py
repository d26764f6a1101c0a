"""A call with arguments that an operation does not take is refused with the names of the arguments that it takes."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import InputError, Tensor, ops


def test_an_unknown_option_is_named_with_those_that_exist() -> None:
    x = Tensor([1.0, 2.0])
    for call in (lambda: x.mean(dim=0), lambda: ops.mean(x, dim=0), lambda: x.sum(dim=0), lambda: x.max(dim=0)):
        with pytest.raises(InputError, match=r"has no option dim \(here it is axis\); its options are axis, keepdims"):
            call()
    with pytest.raises(InputError, match=r"softmax has no option dim \(here it is axis\); its options are axis"):
        x.softmax(dim=0)
    with pytest.raises(InputError, match="exp has no option base; it has no options"):
        ops.exp(x, base=2)


def test_options_that_are_given_without_their_names_are_named() -> None:
    x = Tensor([1.0, 2.0])
    with pytest.raises(InputError, match=r"power takes 1 argument \(x\), not 2; options are given by name: exponent="):
        ops.power(x, 3)
    with pytest.raises(InputError, match=r"dropout takes 1 argument \(x\), not 2; .*: probability=\.\.\., seed="):
        ops.dropout(x, 0.5)
    with pytest.raises(InputError, match=r"linear takes 3 arguments \(x, weight, bias\), not 4; .* inputs_first="):
        ops.linear(x, x, x, None)
    with pytest.raises(InputError, match=r"exp takes 1 argument \(x\), not 2$"):
        ops.exp(x, x)


def test_an_argument_that_is_given_by_its_name_is_told_its_place() -> None:
    with pytest.raises(InputError, match=r"^bias of linear is given by its place, not by its name: linear\(x, weight,"):
        ops.linear(np.ones((2, 3)), np.ones((4, 3)), bias=np.ones(4))
