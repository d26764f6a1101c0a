"""Activation checkpointing: the activations inside a layer are not stored, but recomputed in the backward pass.

Chen et al. 2016, "Training deep nets with sublinear memory cost", arXiv 1604.06174. At any time the activations of one
layer are stored instead of those of all layers, at the price of a second forward pass. Every random draw is a function
of the attributes of a dropout layer, such as the step. The second pass restores those of the first, and the training
mode, so it repeats it bit for bit, even if the next step has begun meanwhile or the model was switched to evaluation.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from minigrad import ops
from minigrad.autograd.graph import Node, is_recording, no_grad, recording, run_backward
from minigrad.autograd.operators import replace_tensors, tensors_in
from minigrad.autograd.tensor import Tensor
from minigrad.nn.layers import Dropout
from minigrad.nn.loss_pass import LossPass, computing, loss_pass
from minigrad.nn.module import Module
from minigrad.typing import Array


class CheckpointedLayer(Module):
    """One of the stacked layers of a model; with `recomputed` on, only its input is stored for the backward pass."""

    recomputed = False
    reads_one_layer = True  # whether it reads the layer below alone

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call `forward`; store its activations unless `recomputed` is on.

        A layer without a gradient, because it and all layers below it are frozen, stores none in any case.
        """
        if not (self.recomputed and is_recording() and _has_gradient(self, (arguments, options))):
            return super().__call__(*arguments, **options)
        settings, current = _settings(self), loss_pass()
        shape: tuple[int, ...] = ()
        added: list[Tensor] = []

        def forward(given: tuple[Any, ...], named: dict[str, Any]) -> Any:
            """Return the output, joined with the losses that modules add: the gradient of these must get here too."""
            nonlocal shape, added
            inside = None if current is None else LossPass(current.layout, current.counted)
            with _restored(self, settings), computing(inside):
                y = self.forward(*given, **named)
            shape, added = y.shape, [] if inside is None else inside.added
            return ops.concatenate(y.reshape(-1), *(each.reshape(1) for each in added)) if added else y

        y = recompute(forward, arguments, options, parameters=self.parameters())
        if current is None or not added:
            return y
        size = math.prod(shape)
        for place in range(size, len(y)):
            current.add(y[place])
        return y[:size].reshape(*shape)


def _has_gradient(layer: Module, given: Any) -> bool:
    """Whether the output of a layer needs a gradient: one of its parameters or of the tensors given to it does."""
    return any(tensor.requires_grad for tensor in (*tensors_in(given), *layer.parameters()))


def _settings(layer: Module) -> list[dict[str, Any]]:
    """Return what may change between two passes: the mode of every module, and the attributes of dropout layers."""
    modules = [module for _, module in layer.named_modules()]
    return [(vars(each) if isinstance(each, Dropout) else {}) | {"training": each.training} for each in modules]


def _apply(layer: Module, settings: list[dict[str, Any]]) -> None:
    for (_, module), attributes in zip(layer.named_modules(), settings, strict=True):
        vars(module).update(attributes)


@contextlib.contextmanager
def _restored(layer: Module, settings: list[dict[str, Any]]) -> Iterator[None]:
    """Restore the settings of an earlier pass inside the block."""
    before = _settings(layer)
    _apply(layer, settings)
    try:
        yield
    finally:
        _apply(layer, before)


def recompute(function: Callable[..., Tensor], *arguments: Any, parameters: Sequence[Tensor] = ()) -> Tensor:
    """Return ``function(*arguments)`` without storing the activations inside it; the backward pass calls it again.

    Gradients are computed for the tensors among the arguments, for those in lists, tuples and dictionaries among them,
    and for the parameters that the function uses. Both calls must compute the same: backward() raises GraphError if one
    of these tensors, or one of `parameters`, was changed in place since.
    """
    given = tensors_in(arguments)
    with no_grad():
        result = Tensor(function(*arguments))
    if not is_recording():
        return result

    def backward(dy: Array) -> list[Array | None]:
        leaves = [Tensor(tensor, requires_grad=tensor.dtype.kind == "f") for tensor in given]
        remaining = iter(leaves)
        with recording(True):
            output = function(*replace_tensors(arguments, lambda _: next(remaining)))
        if output.node is not None:
            run_backward(output.node, dy)
        return [leaf.grad for leaf in leaves]

    saved = tuple((tensor.version, tensor.version.count) for tensor in (*given, *parameters))
    parents = tuple(tensor.node for tensor in given)
    result.node = Node("recompute", result.shape, result.dtype, parents, backward, saved)
    return result
