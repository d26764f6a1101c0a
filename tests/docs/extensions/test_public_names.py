"""The reference says what the source says of each public name; a name without words is an error."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest

import minigrad
from tests.source_files import ROOT


@pytest.fixture(scope="module")
def names() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "docs" / "extensions")
        yield importlib.import_module("public_names")


def test_every_name_of_the_package_is_described(names: Any) -> None:
    found = {each.name: each for each in names.public_names("minigrad")}
    assert set(found) == set(minigrad.__all__)
    assert found["Tensor"].home == "minigrad.autograd.tensor.Tensor"
    assert found["Tensor"].bases == ("minigrad.autograd.operators.Operators",)
    assert found["Tensor"].signature.startswith("Tensor(\n    data: ArrayLike | Tensor,\n")
    assert found["InputError"].signature == "class InputError"
    assert found["nn"].home == "minigrad.nn"
    methods = {each.name: each for each in found["Tensor"].methods}
    assert methods["backward"].signature == "backward(gradient: ArrayLike | None = None) -> None"
    assert methods["data"].signature == "data"
    assert methods["data"].docstring.startswith("The array itself")


def test_operations_take_and_return_tensors(names: Any) -> None:
    from minigrad import ops

    assert names.signature_of("softmax", ops.softmax) == "softmax(x: Tensor, *, axis: int = -1) -> Tensor"
    assert "    offsets: Array,\n" in names.signature_of("attention", ops.attention)  # an option is an array


def test_fields_have_their_help_or_their_comment(names: Any) -> None:
    from minigrad.generation import Sampling, Token
    from minigrad.training.settings import TrainConfig

    fields = dict(names.described("Sampling", Sampling, "minigrad.generation").fields)
    assert fields["tokens: int = 200"] == "number of tokens to generate, at most"
    fields = dict(names.described("TrainConfig", TrainConfig, "train").fields)
    assert fields["minutes: float | None = None"].endswith("(None: 10, unless --steps or --tokens is given)")
    fields = dict(names.described("Token", Token, "minigrad.generation").fields)
    assert fields["position: int"] == "its place in the continuation, from 0"


def test_a_value_has_the_text_below_it(names: Any) -> None:
    from models import LAPTOP_SIZES

    found = names.described("LAPTOP_SIZES", LAPTOP_SIZES, "models")
    assert found.home == "models.names.LAPTOP_SIZES"
    assert found.docstring.startswith("The sizes that every family has")


def test_a_name_without_words_is_an_error(names: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent() -> None: ...

    module = types.ModuleType("minigrad.optim")
    module.__dict__.update(__all__=["silent"], silent=silent)
    monkeypatch.setitem(sys.modules, "minigrad.optim", module)
    silent.__module__, silent.__qualname__ = "minigrad.optim.sgd", "SGD.__init__"
    with pytest.raises(names.NotFoundError, match=r"minigrad\.optim\.sgd\.SGD\.__init__ is public and has"):
        names.public_names("minigrad.optim")
