"""Observers surround every operation, forward, backward and update, in the order in which they were added."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from minigrad import Tensor, ops
from minigrad.autograd import observers
from minigrad.nn import Linear, Sequential
from minigrad.optim import AdamW


class Recorder(observers.Observer):
    """An observer that records what it surrounds, and may change the result."""

    def __init__(self, name: str = "", factor: float = 1.0) -> None:
        self.name, self.factor = name, factor
        self.events: list[str] = []

    def record(self, event: str) -> None:
        self.events.append(f"{self.name}{event}")

    @contextlib.contextmanager
    def forward(self, name: str, arrays: Any, options: dict[str, Any]) -> Iterator[Any]:
        def change(result: Any) -> Any:
            self.record(f"{name} computed from {len(arrays)} arrays and {sorted(options)}")
            return result[0] * result[0].dtype.type(self.factor), result[1]

        yield change
        self.record(f"{name} done")

    @contextlib.contextmanager
    def backward(self, node: observers.RecordedOperation, dy: Any) -> Iterator[Any]:
        def change(gradients: Any) -> Any:
            self.record(f"{node.name} back from {dy.shape}")
            return [gradient * gradient.dtype.type(self.factor) for gradient in gradients]

        yield change

    @contextlib.contextmanager
    def module(self, module: object, arguments: Any) -> Iterator[Any]:
        self.record(f"{type(module).__name__} begins with {len(arguments)} arguments")

        def change(output: Any) -> Any:
            self.record(f"{type(module).__name__} returned {output.shape}")
            return output * self.factor

        yield change

    @contextlib.contextmanager
    def update(self, name: str) -> Iterator[None]:
        self.record(f"{name} begins")
        yield
        self.record(f"{name} ends")


def test_an_observer_sees_forward_backward_and_update() -> None:
    recorder, x = Recorder(), Tensor(np.ones((2, 3), np.float32), requires_grad=True)
    optimizer = AdamW([x])
    with observers.watch(recorder):
        y = x.sum(axis=0)
        y.backward(np.ones(3))
        optimizer.step()
    assert recorder.events == [
        "sum computed from 1 arrays and ['axis', 'keepdims']",
        "sum done",
        "sum back from (3,)",
        "AdamW begins",
        "AdamW ends",
    ]


def test_an_observer_sees_modules_and_the_operations_inside_them() -> None:
    model, recorder = Sequential(Linear(3, 2, bias=False), ops.tanh), Recorder(factor=2.0)
    model.initialise()
    x = Tensor(np.ones((1, 3), np.float32))
    alone = model(x).data
    with observers.watch(recorder):
        doubled = model(x)
    outer = [event for event in recorder.events if "Sequential" in event]
    assert outer == ["Sequential begins with 1 arguments", "Sequential returned (1, 2)"]
    linear = recorder.events.index("linear computed from 2 arrays and []")
    assert recorder.events.index("Linear begins with 1 arguments") < linear
    assert linear < recorder.events.index("Linear returned (1, 2)")
    assert not np.array_equal(doubled.data, alone)


def test_an_observer_by_itself_changes_nothing() -> None:
    weight, layer = Tensor([[2.0]], requires_grad=True), Linear(1, 1, bias=False)
    layer.initialise()
    with observers.watch(observers.Observer()):
        ops.linear(weight, layer(weight)).sum().backward()
        AdamW([weight]).step()
    assert weight.grad is not None


def test_each_observer_receives_the_result_of_the_one_before() -> None:
    x = Tensor([1.0, 2.0], requires_grad=True)
    with observers.watch(Recorder(factor=2.0)), observers.watch(Recorder(factor=5.0)):
        y = ops.exp(x)
        y.backward(np.ones(2))
    np.testing.assert_allclose(y.data, 10 * np.exp([1, 2]), rtol=1e-6)
    assert x.grad is not None
    np.testing.assert_allclose(x.grad, 10 * np.exp([1, 2]), rtol=1e-6)


class Constant(observers.Observer):
    """An observer that gives the results of some functions itself."""

    def __init__(self, *functions: Any) -> None:
        self.functions = functions

    def replace(self, function: Any, arguments: Any, options: Any) -> Any:
        return Tensor([7.0]) if function in self.functions else None


@observers.composite
def exp_twice(x: Tensor) -> Tensor:
    return ops.exp(ops.exp(x))


def test_an_observer_replaces_an_operation_or_a_composite() -> None:
    x = Tensor([0.0])
    with observers.watch(Recorder()), observers.watch(Constant(ops.exp)):
        assert (ops.exp(x) + 1.0).tolist() == (exp_twice(x) + 1.0).tolist() == [8.0]
    with observers.watch(Constant(exp_twice)):
        assert (ops.exp(x).item(), exp_twice(x).item()) == (1.0, 7.0)
    assert exp_twice(x).item() == pytest.approx(np.e)


class Leaving(observers.Observer):
    """An observer that is removed while all observers are called, as another thread may remove it."""

    def replace(self, function: Any, arguments: Any, options: Any) -> None:
        observers.active.remove(self)

    def forward(self, name: str, arrays: Any, options: Any) -> Any:
        self.replace(None, arrays, options)
        return super().forward(name, arrays, options)

    def update(self, name: str) -> Any:
        self.replace(None, (), {})
        return super().update(name)


@contextlib.contextmanager
def after_one_that_leaves(observer: observers.Observer) -> Iterator[None]:
    observers.active.append(Leaving())
    with observers.watch(observer):
        yield


def test_an_observer_that_leaves_hides_no_other() -> None:
    with after_one_that_leaves(Constant(exp_twice)):
        assert exp_twice(Tensor([0.0])).item() == 7.0
    recorder = Recorder()
    with after_one_that_leaves(recorder), observers.surround(lambda each: each.forward("exp", (), {})):
        assert observers.active == [recorder]
    with after_one_that_leaves(recorder), observers.surround(lambda each: each.update("AdamW")):
        assert observers.active == [recorder]
    assert recorder.events == ["exp done", "AdamW begins", "AdamW ends"]


def test_observing_ends_with_the_block_also_after_an_error() -> None:
    recorder = Recorder()
    with pytest.raises(ZeroDivisionError), observers.watch(recorder):
        raise ZeroDivisionError
    ops.exp(Tensor([1.0]))
    assert observers.active == []
    assert recorder.events == []
