r"""Low-rank adapters: a trained model learns something new through two thin matrices beside each frozen one.

$y = W x + B A x$, with A (r, in) and B (out, r) for a small rank r (Hu et al. 2021, "LoRA", arXiv 2106.09685, eq. 3).
B begins at 0, so that the model begins as it was. Only A and B get gradients and moments of the optimizer: of a model
of 124 million parameters about one in fifty, so the memory of training is little more than that of its weights. When
training is done, $W + B A$ is a matrix like W, and nothing is slower than before.

The paper multiplies $B A$ by a constant $\alpha / r$. Here that is 1: the learning rate does the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from minigrad.autograd.graph import no_grad
from minigrad.errors import InputError
from minigrad.nn.layers import Conv1D, Embedding, Linear, LowRank
from minigrad.nn.module import Module
from minigrad.nn.parameter import shapes_only
from minigrad.nn.token_rows import TokenRows

if TYPE_CHECKING:
    from minigrad.nn.language_model import LanguageModel


def adapted(model: Module) -> dict[str, Linear | Conv1D]:
    """Return the layers that have an adapter, by name."""
    return {name: layer for name, layer in linear_layers(model).items() if layer.adapter is not None}


def adapt(model: Module, rank: int, *, only: frozenset[str] | None = None) -> None:
    """Freeze a model, and give its matrices adapters of a rank, or those of the layers whose names are in `only`.

    All linear layers get one but the head, which is often the embedding too: adapters of all layers learn more than
    those of some at equal memory. In a skeleton they have only shapes; else `A` is drawn and B is 0.
    Raises InputError for a model that has adapters, and for a rank that a matrix does not have.

    >>> from minigrad import nn
    >>> layer = nn.Linear(8, 4)
    >>> adapt(layer, 2)
    >>> [(name, each.shape) for name, each in layer.named_parameters() if each.requires_grad]
    [('adapter.lora_A.weight', (2, 8)), ('adapter.lora_B.weight', (4, 2))]
    """
    if adapted(model):
        raise InputError("the model has adapters already; merge them first")
    layers = {name: layer for name, layer in linear_layers(model).items() if only is None or name in only}
    most = min(min(layer.weight.shape) for layer in layers.values())
    if not 1 <= rank <= most:
        raise InputError(
            f"an adapter has a rank from 1 to {most}, the smallest side of a matrix of the model, not {rank}"
        )
    is_skeleton, dtype = _is_skeleton(model), model.parameters()[0].dtype
    model.freeze()
    for number, layer in enumerate(layers.values()):
        inputs, outputs = layer.weight.shape if isinstance(layer, Conv1D) else layer.weight.shape[::-1]
        with shapes_only():
            layer.adapter = LowRank(inputs, outputs, rank)
        if not is_skeleton:
            layer.adapter.initialise(seed=number, dtype=dtype)


def adapt_tokens(model: LanguageModel, tokens: Sequence[int]) -> None:
    """Let the rows of some tokens be trained, of an embedding and of a head that are frozen (`minigrad.nn.token_rows`).

    Raises InputError for a token that the model lacks, and for a quantised model.

    >>> import models
    >>> model = models.build("vidya-v2", "nano", vocab_size=300).freeze()
    >>> adapt_tokens(model, [1, 4])
    >>> [(name, each.shape) for name, each in model.named_parameters() if each.requires_grad]
    [('model.embed_tokens.token_adapter.delta', (2, 96))]
    """
    vocab_size, is_skeleton = model.config.vocab_size, _is_skeleton(model)
    unknown = [token for token in tokens if not 0 <= token < vocab_size]
    if unknown:
        raise InputError(f"the model has tokens from 0 to {vocab_size - 1}, and no token {unknown[0]}")
    for table in model.tables():
        if table.weight.packed is not None:
            stored = table.weight.packed.format
            raise InputError(f"rows of tokens cannot be trained in a matrix stored as {stored}; adapt the layers alone")
        with shapes_only():
            table.token_adapter = TokenRows(tokens, table.weight.shape[1])
        if not is_skeleton:
            table.token_adapter.initialise(dtype=table.weight.dtype)


def _is_skeleton(model: Module) -> bool:
    return not any(any(parameter.data.strides) for parameter in model.parameters() if parameter.packed is None)


def merge(model: Module) -> None:
    r"""Add every adapter to its matrix, $W \leftarrow W + B A$, and remove it; the whole model can be trained again.

    The rows of tokens are added too.
    Raises InputError for a quantised model, whose matrices would have to be rounded again.

    >>> from minigrad import nn, no_grad, Tensor
    >>> layer = nn.Linear(2, 2, bias=False)
    >>> adapt(layer, 1)
    >>> with no_grad():
    ...     layer.adapter.lora_B.weight[...] = 1.0
    >>> before = layer(Tensor([[1.0, 2.0]])).numpy()
    >>> merge(layer)
    >>> bool(abs(layer(Tensor([[1.0, 2.0]])).numpy() - before).max() < 1e-6)
    True
    """
    layers = adapted(model)
    for layer in layers.values():
        if layer.weight.packed is not None:
            raise InputError(
                f"the matrices are stored as {layer.weight.packed.format}: adapters cannot be added to them; load the "
                "base without --quantize"
            )
    for layer in layers.values():
        assert layer.adapter is not None
        product = layer.adapter.product()
        with no_grad():
            layer.weight.data += product.T if isinstance(layer, Conv1D) else product
        layer.adapter = None
    for _, table in model.named_modules():
        if isinstance(table, Embedding | Linear) and table.token_adapter is not None:
            table.weight.data = table.token_adapter.merged(table.weight)
            table.token_adapter = None
    model.freeze(False)


def linear_layers(model: Module) -> dict[str, Linear | Conv1D]:
    """Return the linear layers of a model but its head, by name; an adapter is not a layer of the model."""
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, Linear | Conv1D) and name != "lm_head" and ".lora_" not in f".{name}"
    }
