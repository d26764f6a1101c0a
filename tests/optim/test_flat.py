"""Segments: parameters that are adjacent in memory are joined, all others stay separate."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import InputError, Tensor
from minigrad.nn import Linear, Module, Sequential, shapes_only
from minigrad.optim import AdamW
from minigrad.optim.flat import check_apart, segments


class Three(Module):
    def __init__(self) -> None:
        self.layers = [Linear(2, 2), Linear(2, 3, bias=False), Linear(3, 1, bias=False)]


def test_the_parameters_of_an_initialised_model_are_one_segment() -> None:
    model = Three()
    model.initialise(0)
    (segment,) = segments(model.parameters())
    assert segment.data.size == segment.gradient.size == model.num_parameters()
    assert {id(member) for member in segment.members} == {id(parameter) for parameter in model.parameters()}
    segment.data[...] = 7
    segment.gradient[...] = 3  # leftovers: no gradient has arrived
    assert [parameter.grad is not None and not parameter.grad.any() for parameter in model.parameters()] == [True] * 4
    segment.gradient[...] = 5
    for parameter in model.parameters():
        assert (parameter.data == 7).all()
        assert parameter.grad is not None
        assert (parameter.grad == 5).all()


def test_a_parameter_missing_in_the_middle_separates_its_neighbours() -> None:
    model = Three()
    model.initialise(0)
    first, middle, last = (layer.weight for layer in model.layers)
    found = segments([last, first])
    assert [[id(member) for member in segment.members] for segment in found] == [[id(first)], [id(last)]]
    assert len(segments([last, middle, first])) == 1


def test_adjacent_values_with_separate_gradients_are_not_joined() -> None:
    model = Three()
    model.initialise(0)
    weight = model.layers[1].weight
    weight.grad = np.zeros(weight.shape, weight.dtype)
    assert len(segments([layer.weight for layer in model.layers])) == 3


def test_a_parameter_without_a_gradient_gets_zeros_and_one_given_twice_is_listed_once() -> None:
    x = Tensor(np.ones((2, 3)), requires_grad=True)
    (segment,) = segments([x, x])
    assert x.grad is not None
    assert not x.grad.any()
    assert np.shares_memory(segment.gradient, x.grad)
    assert len(segment.members) == 1


def test_parameters_that_cannot_be_updated_in_place_are_refused() -> None:
    with pytest.raises(InputError, match="not contiguous"):
        segments([Tensor(np.asfortranarray(np.ones((3, 4))), requires_grad=True)])
    with shapes_only():
        skeleton = Linear(2, 3)
    with pytest.raises(InputError, match=r"not contiguous.*initialise"):
        segments(skeleton.parameters())


def test_frozen_parameters_are_left_out() -> None:
    model = Three()
    model.initialise(0)
    model.layers[1].freeze()
    found = segments(model.parameters())
    assert [segment.data.size for segment in found] == [4, 3 + 2]
    assert segments([Tensor([1.0])]) == []


def test_segments_change_nothing_about_which_parameter_has_a_gradient() -> None:
    model = Three()
    model.initialise(0)
    model.layers[1].weight.grad[...] = 1.0
    model.layers[2].weight.grad[...] = 1.0
    model.layers[2].weight.discard_grad()
    (segment,) = segments(iter(model.parameters()))
    assert [p.has_gradient for p in model.parameters()] == [False, False, True, False]
    assert segment.spans() == [slice(4, 10)]
    views = segment.views(segment.data)
    assert all(np.shares_memory(view, member.data) for view, member in zip(views, segment.members, strict=True))
    assert [view.shape for view in views] == [member.shape for member in segment.members]


def test_runs_join_neighbours_that_have_a_gradient() -> None:
    model = Three()
    model.initialise(0)
    (segment,) = segments(model.parameters())
    assert segment.spans() == []
    for member in segment.members[1:3]:
        assert member.grad is not None  # read, so it counts
    assert segment.spans() == [slice(4, 13)]
    for member in segment.members:
        assert member.grad is not None
    assert segment.spans() == [slice(0, 15)]


def test_a_member_without_a_gradient_divides_a_span() -> None:
    model = Three()
    model.initialise(0)
    (segment,) = segments(model.parameters())
    for member in (segment.members[0], segment.members[2]):
        assert member.grad is not None  # read, so it counts
    assert segment.spans() == [slice(0, 4), slice(10, 13)]


def test_a_parameter_without_elements_shares_memory_with_none() -> None:
    model = Sequential(Linear(3, 2), Linear(0, 3))
    model.initialise(0)
    check_apart(model.parameters())


def test_an_optimizer_of_a_model_without_values_says_so() -> None:
    with shapes_only():
        layers = [Linear(4, 4), Linear(4, 4)]
    with pytest.raises(InputError, match=r"is not contiguous.*call initialise\(\) on its model"):
        AdamW([each.weight for each in layers])
