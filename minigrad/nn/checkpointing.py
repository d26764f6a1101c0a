"""Activation checkpointing: the activations inside a layer are dropped, and recomputed in the backward pass.

Chen et al. 2016, "Training deep nets with sublinear memory cost", arXiv 1604.06174. The activations of one layer at a
time are kept instead of those of all layers; the price is a second forward pass. Every random draw is a function of
seed, step and place, so the second pass repeats the first one bit for bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from minigrad.autograd.graph import Node, is_recording, no_grad, recording, run_backward
from minigrad.autograd.tensor import Tensor
from minigrad.nn.module import Module
from minigrad.typing import Array


class CheckpointedLayer(Module):
    """One of the equal layers that a model is a stack of; with `recomputed` on, it keeps only its input."""

    recomputed = False

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Call `forward`, and keep its activations or not."""
        if self.recomputed and is_recording():
            again = functools.partial(self.forward, **options)
            return recompute(again, *arguments, parameters=self.parameters())
        return self.forward(*arguments, **options)


def recompute(function: Callable[..., Tensor], *arguments: Any, parameters: Sequence[Tensor] = ()) -> Tensor:
    """Return ``function(*arguments)`` and keep no activation inside it; the backward pass calls it once more.

    Gradients flow to the tensors among the arguments, and in lists among them, and to the parameters that the function
    uses. It must compute the same both times: GraphError if one of the tensors, or of the `parameters` named here, was
    changed in place before backward().
    """
    given = [tensor for argument in arguments for tensor in _tensors(argument)]
    with no_grad():
        result = Tensor(function(*arguments))
    if not is_recording():
        return result

    def backward(dy: Array) -> list[Array | None]:
        fresh = [Tensor(tensor, requires_grad=tensor.dtype.kind == "f") for tensor in given]
        remaining = iter(fresh)
        again = [_replaced(argument, remaining) for argument in arguments]
        with recording(True):
            output = function(*again)
        if output.node is not None:
            run_backward(output.node, dy)
        return [tensor.grad for tensor in fresh]

    saved = tuple((tensor.version, tensor.version.count) for tensor in (*given, *parameters))
    parents = tuple(tensor.node for tensor in given)
    result.node = Node("recompute", result.shape, result.dtype, parents, backward, saved)
    return result


def _tensors(argument: Any) -> list[Tensor]:
    if isinstance(argument, Tensor):
        return [argument]
    return [item for item in argument if isinstance(item, Tensor)] if isinstance(argument, list) else []


def _replaced(argument: Any, fresh: Any) -> Any:
    if isinstance(argument, Tensor):
        return next(fresh)
    if isinstance(argument, list):
        return [next(fresh) if isinstance(item, Tensor) else item for item in argument]
    return argument
