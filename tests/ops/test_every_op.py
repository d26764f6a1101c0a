"""Every operation against NumPy and against central differences, for arguments that Hypothesis draws."""

from __future__ import annotations

import ast

import numpy as np
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from minigrad import InputError, ops
from minigrad.autograd.gradcheck import GradientError
from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.autograd.operators import OPS
from minigrad.typing import Array
from tests import op_checks
from tests.op_table import FORMULAS_WITH_ZEROS, NAN_ON_OVERFLOW, TABLE, Case, operation
from tests.source_files import FILES, module_of

# Functions of the package that are composed of operations; each has tests of its own.
COMPOSED = {"scaled_dot_product_attention"}

# Functions that record a node only to refuse a gradient: backward() raises GraphError.
REFUSALS = {"refuse_gradient", "refuse_training"}

# Operations of integers alone, which have no gradient; each has tests of its own.
WITHOUT_GRADIENT = {"quantised_embedding"}

every_op = pytest.mark.parametrize("name", TABLE)


def differentiable(tree: ast.Module) -> set[str]:
    """Return the names of the functions that are operations, or that record a node of the graph themselves."""
    found = set()
    for function in ast.walk(tree):
        if isinstance(function, ast.FunctionDef):
            decorators = [ast.unparse(each).split("(")[0] for each in function.decorator_list]
            called = [ast.unparse(each.func) for each in ast.walk(function) if isinstance(each, ast.Call)]
            if "op" in decorators or {"Node", "refusing"} & {*called}:
                found.add(function.name)
    return found


def test_every_differentiable_function_is_in_the_table() -> None:
    # The room of the engine makes the nodes of all operations, and of leaves.
    files = [path for path in FILES if not module_of(path).startswith("minigrad.autograd.")]
    found = {name for path in files for name in differentiable(ast.parse(path.read_text(encoding="utf-8")))}
    known = set(TABLE) | WITHOUT_GRADIENT
    assert found == known | REFUSALS
    # Tests define operations too; those are not part of the package.
    assert {name for name, function in OPS.items() if function.__module__.startswith(("minigrad.", "models."))} <= known
    assert set(ops.__all__) - COMPOSED <= set(TABLE)


def test_a_differentiable_function_outside_the_table_is_found() -> None:
    by_decorator = "@op(integers=('ids',))\ndef decorated(x, ids): pass"
    by_hand = "def recording(x):\n    def backward(dy): pass\n    x.node = Node('name', (), x.dtype, (), backward)"
    assert differentiable(ast.parse(f"{by_decorator}\n{by_hand}\ndef plain(x): return ops.exp(x)")) == {
        "decorated",
        "recording",
    }


@every_op
@given(data=st.data())
def test_forward_equals_numpy_and_inputs_stay_unchanged(name: str, data: st.DataObject) -> None:
    case = data.draw(TABLE[name].cases)
    op_checks.check_forward(operation(name), TABLE[name], case)
    op_checks.check_inputs_unchanged(operation(name), case)


@every_op
@given(data=st.data())
def test_gradient_equals_central_differences(name: str, data: st.DataObject) -> None:
    op_checks.check_gradient(operation(name), data.draw(TABLE[name].cases))


@every_op
@given(data=st.data())
def test_float32_stays_float32(name: str, data: st.DataObject) -> None:
    op_checks.check_float32(operation(name), data.draw(TABLE[name].cases), TABLE[name].keeps_dtype)


@every_op
@given(data=st.data())
def test_strided_and_read_only_arguments_give_the_same(name: str, data: st.DataObject) -> None:
    op_checks.check_any_layout(operation(name), data.draw(TABLE[name].cases))


@every_op
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_special_values_give_what_the_formula_gives_in_float32_and_float64(
    name: str, data: st.DataObject, seed: int
) -> None:
    values = op_checks.SPECIAL_VALUES[: 3 if name in NAN_ON_OVERFLOW else None]  # without infinities, or all
    special = op_checks.with_special_values(data.draw(TABLE[name].cases), seed, values)
    op_checks.check_special_values(operation(name), TABLE[name], special, name not in FORMULAS_WITH_ZEROS)


@every_op
@given(data=st.data(), dtype=st.sampled_from(op_checks.DTYPES))
def test_every_dtype_works_or_is_refused(name: str, data: st.DataObject, dtype: str) -> None:
    op_checks.check_dtype(operation(name), data.draw(TABLE[name].cases), dtype)


@every_op
def test_arguments_of_size_zero_are_drawn_and_accepted(name: str) -> None:
    def has_empty_argument(case: Case) -> bool:
        return any(array.size == 0 for array in case.arrays)

    many = settings(max_examples=3000, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    try:
        case = find(TABLE[name].cases, has_empty_argument, settings=many)
    except NoSuchExample:
        pytest.fail(f"the table never gives {name} an array of size 0")
    op_checks.check_forward(operation(name), TABLE[name], case)
    op_checks.check_gradient(operation(name), case)


# Each check above must be able to fail: operations with one fault each, in the row of the correct one.


@pytest.fixture
def two_by_two() -> Case:
    return Case((np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[5.0, 6.0], [7.0, 8.0]])))


def test_a_wrong_gradient_is_caught_and_named(two_by_two: Case) -> None:
    @op
    def faulty_multiply(a: Array, b: Array) -> tuple[Array, Backward]:
        def backward(dy: Array) -> tuple[Array, Array]:
            db = dy * a
            db[1, 0] *= 1.001
            return dy * b, db

        return a * b, backward

    op_checks.check_forward(faulty_multiply, TABLE["multiply"], two_by_two)
    message = r"gradient of faulty_multiply, argument 1 of shape \(2, 2\), at index \(1, 0\): got .*, expected "
    with pytest.raises(GradientError, match=message):
        op_checks.check_gradient(faulty_multiply, two_by_two)


def test_a_wrong_result_is_caught(two_by_two: Case) -> None:
    with pytest.raises(AssertionError, match="Mismatched elements"):
        op_checks.check_forward(ops.add, TABLE["multiply"], two_by_two)


def test_writing_into_an_argument_is_caught(two_by_two: Case) -> None:
    @op
    def add_in_place(a: Array, b: Array) -> tuple[Array, Backward]:
        a += b
        return a, lambda dy: (dy, dy)

    with pytest.raises(AssertionError, match="not equal"):
        op_checks.check_inputs_unchanged(add_in_place, two_by_two)


def test_a_float64_result_of_float32_arguments_is_caught(two_by_two: Case) -> None:
    @op
    def widening_add(a: Array, b: Array) -> tuple[Array, Backward]:
        return np.add(a, b, dtype=np.float64), lambda dy: (dy.astype(a.dtype), dy.astype(b.dtype))

    with pytest.raises(AssertionError, match="float32"):
        op_checks.check_float32(widening_add, two_by_two)


def test_assuming_a_contiguous_argument_is_caught(two_by_two: Case) -> None:
    @op
    def contiguous_add(a: Array, b: Array) -> tuple[Array, Backward]:
        memory = a if a.base is None else a.base
        return memory.reshape(-1)[: a.size].reshape(a.shape) + b, lambda dy: (dy, dy)

    with pytest.raises(AssertionError, match="Mismatched elements"):
        op_checks.check_any_layout(contiguous_add, two_by_two)


def test_a_gradient_that_differs_in_float32_at_infinity_is_caught(two_by_two: Case) -> None:
    @op
    def lossy_exp(x: Array) -> tuple[Array, Backward]:
        y = np.exp(x)
        return y, lambda dy: np.nan_to_num(dy * y) if x.dtype == np.float32 else dy * y

    special = op_checks.with_special_values(Case((np.zeros(1),)), 0, [np.nan])
    op_checks.check_special_values(ops.exp, TABLE["exp"], special)
    with pytest.raises(AssertionError, match="nan"):
        op_checks.check_special_values(lossy_exp, TABLE["exp"], special)


def test_integers_that_wrap_around_are_caught(two_by_two: Case) -> None:
    @op(integer_dtype="any")
    def wrapping_negative(x: Array) -> tuple[Array, Backward]:
        return -x, lambda dy: -dy

    case = Case(two_by_two.arrays[:1])
    op_checks.check_dtype(ops.negative, case, "uint8")
    with pytest.raises(AssertionError, match="Mismatched"):
        op_checks.check_dtype(wrapping_negative, case, "uint8")


def test_a_refusal_without_the_dtype_is_caught(two_by_two: Case) -> None:
    @op(integer_dtype="any")
    def terse(x: Array) -> tuple[Array, Backward]:
        raise InputError("no")

    with pytest.raises(AssertionError):
        op_checks.check_dtype(terse, Case(two_by_two.arrays[:1]), "float16")
