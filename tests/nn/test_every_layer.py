"""Every layer, every kind of rotary angles and every objective: gradients, dtypes and inputs, as of operations."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

import minigrad.adapters
import minigrad.experts
import minigrad.finetuning
import minigrad.nn
import minigrad.quantised
import models
from minigrad import Tensor, nn, ops
from minigrad.adapters.low_rank import LowRank
from minigrad.autograd.gradcheck import GradientError
from minigrad.autograd.gradients import Backward
from minigrad.autograd.op import op
from minigrad.experts import Experts, mixture
from minigrad.finetuning import objectives
from minigrad.typing import Array
from models.wiola import layers
from models.wiola.layers import DualStreamFeedForward, SpiralAngles, WiolaRMSNorm
from tests import op_checks
from tests.layer_table import CONTAINERS, TABLE
from tests.op_cases import Case

Layer = Callable[..., Any]


def name_of(layer: Layer) -> str:
    return f"{layer.__module__}.{layer.__qualname__}"


every_layer = pytest.mark.parametrize("layer", TABLE, ids=name_of)


def modules_in(*packages: ModuleType) -> Iterator[ModuleType]:
    for package in packages:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            yield importlib.import_module(found.name)


def classes_below(base: type) -> set[type]:
    """Return a class of the packages and all classes that inherit from it.

    Tests define classes too, some in modules that are not there after the test.
    """
    found = {base}.union(*map(classes_below, base.__subclasses__()))
    names = [name for name in sys.modules if name.startswith(("minigrad.", "models."))]
    return {each for each in found if each.__module__ in names}


def objectives_in(module: ModuleType) -> set[Layer]:
    """Return the public functions of a module that compute a tensor."""
    functions = (each for name, each in inspect.getmembers(module, inspect.isfunction) if not name.startswith("_"))
    own = (each for each in functions if each.__module__ == module.__name__)
    return {each for each in own if each.__annotations__.get("return") == "Tensor"}


def test_every_layer_and_objective_is_in_the_table() -> None:
    list(modules_in(minigrad.nn, minigrad.adapters, minigrad.quantised, minigrad.experts, models))
    taught = set[Layer]().union(*map(objectives_in, modules_in(minigrad.finetuning)))
    layers = classes_below(nn.Module) | classes_below(nn.RotaryAngles)
    assert layers | taught == set(TABLE) | CONTAINERS
    assert not set(TABLE) & CONTAINERS


def test_a_layer_and_an_objective_outside_the_table_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    outside = type("Outside", (nn.Linear,), {"__module__": "models.gpt2"})
    assert outside in classes_below(nn.Module)

    def objective(log_probs: Tensor) -> Tensor:
        return log_probs

    module = importlib.import_module("minigrad.finetuning.preferences")
    monkeypatch.setattr(objective, "__module__", module.__name__)
    monkeypatch.setattr(module, "objective", objective, raising=False)
    assert objectives_in(module) == {objective}


@every_layer
@settings(max_examples=5)
@given(data=st.data())
def test_gradients_equal_central_differences_and_inputs_stay_unchanged(layer: Layer, data: st.DataObject) -> None:
    case = data.draw(TABLE[layer].cases)
    op_checks.check_gradient(TABLE[layer].operation, case)
    op_checks.check_inputs_unchanged(TABLE[layer].operation, case)


@every_layer
@settings(max_examples=5)
@given(data=st.data())
def test_float32_stays_float32(layer: Layer, data: st.DataObject) -> None:
    op_checks.check_float32(TABLE[layer].operation, data.draw(TABLE[layer].cases))


# The check of gradients must be able to fail: layers with one fault each, in the row of the correct one.

FAULTS = [
    (nn.LayerNorm, "layer_norm", 1),
    (WiolaRMSNorm, "offset_rms_norm", 2),
    (LowRank, "linear", 1),
    (nn.Conv1D, "linear", 2),
    (DualStreamFeedForward, "blend", 2),
    (Experts, "combine_experts", 1),
    (nn.GroupedQueryAttention, "key_shift", 0),
    (nn.RotaryAngles, "rotary", 0),
    (nn.YarnAngles, "rotary", 0),
    (SpiralAngles, "rotary", 0),
    (objectives.grpo, "minimum", 0),
    (objectives.dpo, "sum_sequences", 0),
]


def with_a_wrong_gradient(operation: Layer, argument: int) -> Layer:
    """Return an operation whose gradient of one argument is a thousandth too large."""

    @op
    def faulty_identity(x: Array) -> tuple[Array, Backward]:
        return x.copy(), lambda dy: dy * dy.dtype.type(1.001)

    def faulty(*arguments: Any, **options: Any) -> Tensor:
        given = [faulty_identity(each) if place == argument else each for place, each in enumerate(arguments)]
        result: Tensor = operation(*given, **options)
        return result

    return faulty


@pytest.mark.parametrize(("layer", "name", "argument"), FAULTS, ids=lambda part: getattr(part, "__name__", part))
def test_a_wrong_gradient_inside_a_layer_is_caught(
    layer: Layer, name: str, argument: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    room: Any = {Experts: mixture, WiolaRMSNorm: layers, DualStreamFeedForward: layers}.get(layer, ops)
    monkeypatch.setattr(room, name, with_a_wrong_gradient(getattr(room, name), argument))

    def is_caught(case: Case) -> bool:
        try:
            op_checks.check_gradient(TABLE[layer].operation, case)
        except GradientError:
            return True
        return False

    few = settings(max_examples=30, derandomize=True, database=None, deadline=None, phases=[Phase.generate])
    try:
        find(TABLE[layer].cases, is_caught, settings=few)
    except NoSuchExample:
        pytest.fail("no drawn call notices the fault")
