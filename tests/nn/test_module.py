"""Modules: names, shared parameters, loading, and the flat array that holds all parameters."""

from __future__ import annotations

import contextlib
import functools
import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest

import models
from minigrad import GraphError, InputError, ShapeError, Tensor, nn, no_grad, ops
from minigrad.nn import Init, Module, Parameter
from minigrad.nn.module import in_evaluation


class Tied(Module):
    def __init__(self) -> None:
        self.table = nn.Embedding(5, 3)
        self.layers = [nn.Linear(3, 3), nn.Linear(3, 3, bias=False)]
        self.norm = nn.LayerNorm(3)
        self.head = self.table.weight
        self.scale = Parameter((), Init(mean=2.0))
        self.dropout = nn.Dropout(0.5)


def test_names_are_attribute_paths_and_a_shared_parameter_appears_once() -> None:
    model = Tied()
    names = [name for name, _ in model.named_parameters()]
    assert sorted(names) == [
        "head",
        "layers.0.bias",
        "layers.0.weight",
        "layers.1.weight",
        "norm.bias",
        "norm.weight",
        "scale",
    ]
    assert model.num_parameters() == 15 + 9 + 3 + 9 + 3 + 3 + 1
    assert len(model.parameters()) == len({id(parameter) for parameter in model.parameters()})
    assert [name for name, _ in model.named_modules()] == ["", "table", "layers.0", "layers.1", "norm", "dropout"]


def test_parameters_and_gradients_are_views_of_one_array_each() -> None:
    model = Tied()
    model.initialise(seed=1)
    for arrays in ([p.data for p in model.parameters()], [p.grad for p in model.parameters()]):
        bases = {id(array.base) for array in arrays if array is not None}
        assert len(bases) == 1
        base = arrays[0].base if arrays[0] is not None else None
        assert base is not None
        assert base.shape == (model.num_parameters(),)
        spans = sorted((a.ctypes.data, a.nbytes) for a in arrays if a is not None)
        assert all(first + size == second for (first, size), (second, _) in itertools.pairwise(spans))
    gradients = [parameter.grad for parameter in model.parameters()]
    ops.linear(Tensor(np.ones((1, 3), np.float32)), model.layers[0].weight).sum().backward()
    assert all(p.grad is gradient for p, gradient in zip(model.parameters(), gradients, strict=True))
    assert gradients[0] is not None
    assert any(gradient is not None and gradient.any() for gradient in gradients)
    model.zero_grad()
    assert not any(gradient is not None and gradient.any() for gradient in gradients)


def test_matrices_come_before_vectors_in_the_flat_array() -> None:
    model = Tied()
    model.initialise()
    by_address = sorted(model.parameters(), key=lambda parameter: int(parameter.data.ctypes.data))
    ranks = [parameter.ndim >= 2 for parameter in by_address]
    assert ranks == sorted(ranks, reverse=True)


def test_weights_are_a_function_of_the_seed() -> None:
    def weights(seed: int, dtype: str = "float32") -> Any:
        model = Tied()
        model.initialise(seed, dtype)
        return model.state_dict()

    same, again, other, double = weights(0), weights(0), weights(1), weights(0, "float64")
    for name in same:
        np.testing.assert_array_equal(same[name], again[name])
        np.testing.assert_allclose(same[name], double[name], rtol=1e-6)
        assert double[name].dtype == np.float64
    assert (same["head"] != other["head"]).all()
    assert (same["norm.weight"] == 1).all()
    assert (same["norm.bias"] == 0).all()
    assert same["scale"] == 2
    with pytest.raises(InputError, match="float32 or float64, not float16"):
        Tied().initialise(dtype="float16")
    with pytest.raises(InputError, match="float32 or float64, not bfloat16"):
        Tied().initialise(dtype="bfloat16")
    for known in (float, "double", np.float64):
        Tied().initialise(dtype=known)


def test_equal_layers_begin_with_different_weights() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model.initialise(0)
    assert (model[0].weight.data != model[1].weight.data).all()


def test_a_seed_is_a_whole_number() -> None:
    one, same = Tied(), Tied()
    one.initialise(3)
    same.initialise(np.int64(3))  # type: ignore[arg-type]
    np.testing.assert_array_equal(one.state_dict()["head"], same.state_dict()["head"])
    for wrong in (1.5, None, -1, True, "0"):
        with pytest.raises(InputError, match="seed takes a whole number of at least 0, not "):
            one.initialise(wrong)  # type: ignore[arg-type]


def test_initial_values_have_the_given_standard_deviation() -> None:
    layer = nn.Linear(200, 300, std=0.05)
    layer.initialise()
    assert layer.weight.data.std() == pytest.approx(0.05, rel=0.02)
    assert abs(layer.weight.data.mean()) < 1e-3


def test_weights_are_copied_into_another_model() -> None:
    first, second = Tied(), Tied()
    first.initialise(1)
    second.initialise(2)
    second.load_state_dict(first.state_dict())
    for name, array in second.state_dict().items():
        np.testing.assert_array_equal(array, first.state_dict()[name])
        assert not np.shares_memory(array, first.state_dict()[name]), "loading must copy"
    bases = {id(parameter.data.base) for parameter in second.parameters()}
    assert len(bases) == 1, "loading must leave the flat array in place"


def test_loading_into_another_dtype_converts() -> None:
    first, second = Tied(), Tied()
    second.initialise(dtype="float64")
    second.load_state_dict(first.state_dict())
    assert {array.dtype for array in second.state_dict().values()} == {np.dtype("float64")}


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("norm.bias", None, r"missing \['norm\.bias'\]"),
        ("extra", np.zeros(1), r"unknown \['extra'\]"),
        ("head", np.zeros((5, 4)), r"head has shape \(5, 4\), but the model needs \(5, 3\)"),
    ],
)
def test_weights_that_do_not_fit_are_refused_and_change_nothing(name: str, value: Any, message: str) -> None:
    model = Tied()
    before = {key: array.copy() for key, array in model.state_dict().items()}
    weights = {key: array + 1 for key, array in before.items()}
    if value is None:
        del weights[name]
    else:
        weights[name] = value
    with pytest.raises(ShapeError, match=message):
        model.load_state_dict(weights)
    for key, array in model.state_dict().items():
        np.testing.assert_array_equal(array, before[key])


def test_train_and_eval_reach_every_module() -> None:
    model = Tied()
    assert model.eval() is model
    assert not any(module.training for _, module in model.named_modules())
    model.train()
    assert all(module.training for _, module in model.named_modules())


def test_a_skeleton_of_half_a_billion_parameters_takes_no_memory() -> None:
    models.count("vidya-v2", "2.3")  # fills caches that stay
    tracemalloc.start()
    try:
        assert models.count("vidya-v2", "2.3") == 576_794_880
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000


def test_a_module_without_forward_is_named() -> None:
    with pytest.raises(TypeError, match="Tied has no forward"):
        Tied()(1)


def test_every_public_block_has_a_docstring() -> None:
    assert all(getattr(nn, name).__doc__ for name in nn.__all__)


matrix = functools.partial(nn.Linear, bias=False)


class Nested(Module):
    def __init__(self) -> None:
        self.parts = (matrix(2, 3), matrix(3, 2))
        self.experts = {"small": matrix(2, 2), "large": [matrix(2, 4), {"inner": matrix(4, 2)}]}
        self.grid = [[matrix(1, 1)], [Parameter((2,), Init()), None, 3]]
        self.table = Tensor([1.0, 2.0])


def test_modules_in_tuples_dictionaries_and_nested_lists_are_found() -> None:
    model = Nested()
    assert [name for name, _ in model.named_parameters()] == [
        "grid.1.0",
        "parts.0.weight",
        "parts.1.weight",
        "experts.small.weight",
        "experts.large.0.weight",
        "experts.large.1.inner.weight",
        "grid.0.0.weight",
    ]
    model.initialise(0)
    assert not any(module.training for _, module in model.eval().named_modules())
    copy = Nested()
    copy.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(copy.grid[0][0].weight.data, model.grid[0][0].weight.data)


def test_what_would_silently_not_be_trained_is_refused() -> None:
    class Plain(Module):
        def __init__(self) -> None:
            self.inner = {"w": Tensor([1.0], requires_grad=True)}

    class Unordered(Module):
        def __init__(self) -> None:
            self.layers = {nn.Linear(1, 1)}

    with pytest.raises(InputError, match=r"Plain\.inner\.w is a Tensor that requires a gradient.*nn\.Parameter"):
        Plain().parameters()
    with pytest.raises(InputError, match=r"Unordered\.layers is a set.*list or a dictionary"):
        Unordered().parameters()


def test_a_computed_tensor_is_not_taken_for_a_parameter() -> None:
    class Remembering(Module):
        def __init__(self) -> None:
            self.linear = matrix(1, 1)
            self.last = self.linear(Tensor([[1.0]]))

    assert len(Remembering().parameters()) == 1


# Freezing.


def test_frozen_parameters_have_no_gradient_and_are_saved_and_loaded_as_before() -> None:
    model, other = Tied(), Tied()
    model.initialise(1)
    assert model.layers[0].freeze() is model.layers[0]
    assert model.state_dict().keys() == other.state_dict().keys()
    other.load_state_dict(model.state_dict())
    other.table.freeze()
    other.load_state_dict(model.state_dict())
    h = model.norm(model.layers[1](model.layers[0](model.table(Tensor([1, 2])))))
    (ops.linear(h, model.head).sum() + model.scale).backward()
    with_gradient = {name for name, parameter in model.named_parameters() if parameter.has_gradient}
    assert with_gradient == {"head", "layers.1.weight", "norm.weight", "norm.bias", "scale"}
    assert [parameter.grad for parameter in model.layers[0].parameters()] == [None, None]


def test_no_memory_is_allocated_for_the_gradients_of_frozen_parameters() -> None:
    model, same = Tied(), Tied()
    model.table.freeze()
    model.initialise(3)
    same.initialise(3)
    for name, array in model.state_dict().items():
        np.testing.assert_array_equal(array, same.state_dict()[name], err_msg=name)
    assert model.head.grad is None
    gradients = {id(np.asarray(p.grad).base): p.grad.base for p in model.parameters() if p.requires_grad}
    assert [base.size for base in gradients.values()] == [model.num_parameters() - 15]
    assert len({id(parameter.data.base) for parameter in model.parameters()}) == 1
    model.table.freeze(False)
    ops.embedding(model.head, np.array([1])).sum().backward()
    assert model.head.grad.sum() == 3


def test_a_frozen_parameter_can_be_changed_in_place() -> None:
    layer = nn.Linear(2, 2).freeze()
    weight = layer.weight
    with no_grad():
        weight *= 0.0
    assert weight is layer.weight
    assert not layer.weight.data.any()
    with pytest.raises(GraphError, match="no_grad"):
        weight += 1.0


@pytest.mark.parametrize("names", [(1, "1"), ("a.b", "a")])
def test_two_parameters_of_one_path_are_refused(names: tuple[object, object]) -> None:
    """Only one of them would be saved."""
    first, second = names

    class Twice(nn.Module):
        def __init__(self) -> None:
            self.layers = {first: nn.Linear(2, 2), second: nn.Linear(2, 2) if first == 1 else {"b": nn.Linear(2, 2)}}

    with pytest.raises(InputError, match=r"two parameters have the path layers\."):
        Twice().parameters()


def test_weights_for_a_skeleton_are_refused() -> None:
    weights = models.build("vidya-v2", "nano", vocab_size=16, num_layers=1).state_dict()
    with pytest.raises(InputError, match=r"without memory: call initialise\(\) on its model first"):
        models.skeleton("vidya-v2", "nano", vocab_size=16, num_layers=1).load_state_dict(weights)


def test_after_an_evaluation_every_module_has_its_own_mode_again() -> None:
    model = Tied()
    model.train()
    model.norm.eval()
    with in_evaluation(model):
        assert not any(module.training for _, module in model.named_modules())
    assert [name for name, module in model.named_modules() if not module.training] == ["norm"]


def test_threads_in_evaluation_do_not_switch_each_other_back() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].eval()
    with contextlib.ExitStack() as first, contextlib.ExitStack() as second:
        first.enter_context(in_evaluation(model))
        second.enter_context(in_evaluation(model))
        first.close()  # the thread that came first leaves first
        assert not any(each.training for _, each in model.named_modules())
    assert [model.training, model[0].training, model[1].training] == [True, True, False]
