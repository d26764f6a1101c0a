"""The operation that the chapter adds to the library passes the tests of the library, with the row that it gives."""

from __future__ import annotations

import inspect
import re
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import ShapeError, Tensor, op
from minigrad.autograd.gradients import Backward
from minigrad.typing import Array
from tests import op_checks, op_table
from tests.op_table import Row, elementwise
from tests.source_files import ROOT

PAGE = (ROOT / "docs" / "course" / "op_pattern.md").read_text(encoding="utf-8")
TEST, OPERATION, ROW = re.findall(r"^```{code-block} python\n(.*?)^```$", PAGE, flags=re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def names() -> dict[str, Any]:
    names = {"__name__": "program", "Array": Array, "Backward": Backward, "ShapeError": ShapeError, "np": np, "op": op}
    exec(OPERATION, names)
    return names


@settings(max_examples=20)
@given(data=st.data())
def test_the_operation_passes_with_its_row(names: dict[str, Any], data: st.DataObject) -> None:
    table: dict[str, Row] = eval(f"{{{ROW}}}", {"elementwise": elementwise, "np": np})
    ((name, row),) = table.items()
    operation, case = names[name], data.draw(row.cases)
    op_checks.check_forward(operation, row, case)
    op_checks.check_gradient(operation, case)
    op_checks.check_inputs_unchanged(operation, case)
    op_checks.check_float32(operation, case)
    op_checks.check_any_layout(operation, case)
    op_checks.check_special_values(operation, row, op_checks.with_special_values(case, seed=0))
    op_checks.check_dtype(operation, case, data.draw(st.sampled_from(op_checks.DTYPES)))


def test_its_test_passes_and_can_fail(names: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cumulative_sum", SimpleNamespace(**names))  # the file of the operation
    program: dict[str, Any] = {}
    exec(TEST, program)
    program["test_cumulative_sum"]()
    program["cumulative_sum"] = lambda x: names["cumulative_sum"](x) * 2.0
    with pytest.raises(AssertionError):
        program["test_cumulative_sum"]()


def test_its_error_says_what_is_wrong(names: dict[str, Any]) -> None:
    with pytest.raises(ShapeError, match="cumulative_sum needs an axis"):
        names["cumulative_sum"](Tensor(1.0))


def test_it_describes_every_function_that_makes_a_row() -> None:
    functions = inspect.getmembers(op_table, inspect.isfunction)
    makers = [name for name, function in functions if function.__annotations__.get("return") == "Row"]
    assert {"elementwise", "norm"} < set(makers)
    assert all(f"`{name}`" in PAGE for name in makers)
