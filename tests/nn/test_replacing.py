"""Modules that replace others, wherever these stand, and what they wrap keeps its names."""

from __future__ import annotations

import copy
from collections import OrderedDict, defaultdict
from typing import NamedTuple

import numpy as np
import pytest

from minigrad import InputError, Tensor, nn
from tests.models.tiny import build, tokens


class Doubled(nn.Wrapper):
    """Twice the output of a layer, plus a learned vector."""

    def __init__(self, inner: nn.Linear) -> None:
        super().__init__(inner)
        self.shift = nn.Parameter(np.zeros(len(inner.weight)))

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.inner(x)
        return 2 * y + self.shift


class Places(nn.Module):
    """The same layer as an attribute and in containers."""

    def __init__(self) -> None:
        self.one = nn.Linear(2, 2, bias=False)
        self.many = [self.one, (nn.Linear(2, 1), {"key": self.one})]


def test_a_module_is_replaced_in_all_its_places_and_keeps_its_names() -> None:
    model = Places()
    names, new = list(model.state_dict()), Doubled(model.one)
    nn.replace(model, {"one": new})
    assert model.one is model.many[0] is model.many[1][1]["key"] is new  # type: ignore[index, comparison-overlap]
    assert sorted(model.state_dict()) == sorted([*names, "one.shift"])
    nn.replace(model, {"one": new.inner})
    assert list(model.state_dict()) == names


def test_a_wrapped_layer_works_in_a_model_as_in_its_copy() -> None:
    model, ids = build("vidya-v2", dropout=0.5), tokens(0, 2, 5)
    found = {name: Doubled(each) for name, each in model.named_modules() if name.endswith("down_proj")}
    nn.replace(model, found)
    assert "around Linear" in repr(model)
    assert not any(module.training for _, module in model.eval().named_modules())
    np.testing.assert_array_equal(copy.deepcopy(model)(ids).data, model(ids).data)
    model.load_state_dict(model.state_dict())
    nn.replace(model, {name: each.inner for name, each in found.items()})
    assert not any("shift" in name for name in model.state_dict())


class Named(NamedTuple):
    """A container with a class of its own."""

    layer: nn.Linear
    number: int = 3


def test_what_is_inside_a_wrapped_module_is_replaced_and_containers_keep_their_class() -> None:
    inner, new = Places(), nn.Linear(2, 2, bias=False)
    model = nn.Sequential(nn.Wrapper(inner))
    nn.replace(model, {"0.one": new})
    assert inner.one is inner.many[0] is new
    model = Places()
    model.many = [OrderedDict(key=model.one), Named(model.one), defaultdict(list, key=model.one)]  # type: ignore[list-item]
    nn.replace(model, {"one": new})
    ordered, named, other = model.many
    assert ordered["key"] is named.layer is other["key"] is new  # type: ignore[index, union-attr, attr-defined]
    assert [type(each) for each in model.many] == [OrderedDict, Named, defaultdict]


def test_what_is_not_there_cannot_be_replaced() -> None:
    model = nn.Sequential(nn.Linear(1, 1))
    for name in ("", "1", "0.weight"):
        with pytest.raises(InputError, match=f"no module '{name}' inside it"):
            nn.replace(model, {name: nn.Linear(1, 1)})
