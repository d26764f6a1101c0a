r"""Low-rank adapters: a trained model learns something new through two thin matrices beside each frozen one.

$y = W x + B A x$, with A (r, in) and B (out, r) for a small rank r (Hu et al. 2021, "LoRA", arXiv 2106.09685, eq. 3).
B begins at 0, so that the model begins as it was. Only A and B get gradients and moments of the optimizer: with
rank 8 in Vidya v2.0 (124.6 million parameters), about one parameter in fifty. So training takes little more memory than
the weights and the activations. When training is done, $W + B A$ is a matrix like W, and nothing is slower than before.

The paper multiplies $B A$ by a constant $\alpha / r$. Here that is 1: the learning rate does the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from minigrad.adapters.token_rows import AdaptedEmbedding, tables_of
from minigrad.autograd.tensor import Tensor
from minigrad.errors import InputError
from minigrad.experts import mixtures
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layers import Conv1D, Linear
from minigrad.nn.module import Module, check_sizes
from minigrad.nn.parameter import shapes_only
from minigrad.nn.replacing import Wrapper, replace
from minigrad.quantised import QuantisedLinear, format_of
from minigrad.quantised.layers import is_skeleton
from minigrad.typing import Array

Layer = Linear | Conv1D | QuantisedLinear
"""The layers that can have an adapter."""


class LowRank(Module):
    """The product of two thin matrices, B A, applied to every row.

    Shapes: x (..., in) -> (..., out), through (..., rank).  The output is 0 at the beginning.
    """

    def __init__(self, inputs: int, outputs: int, rank: int) -> None:
        check_sizes(self, rank=rank)
        self.lora_A = Linear(inputs, rank, bias=False)
        self.lora_B = Linear(rank, outputs, bias=False, std=0.0)

    def forward(self, x: Tensor) -> Tensor:
        """Apply A, then B."""
        return self.lora_B(self.lora_A(x))

    def product(self) -> Array:
        """Return the matrix B A, (out, in)."""
        return np.asarray(self.lora_B.weight.data @ self.lora_A.weight.data)


class LowRankLinear(Wrapper):
    """A linear layer with an adapter beside it: the sum of the outputs of both.

    Shapes: x (..., in) -> (..., out).
    """

    inner: Layer

    def __init__(self, inner: Layer, rank: int) -> None:
        super().__init__(inner)
        self.weight, self.bias = inner.weight, inner.bias
        self.adapter = LowRank(*sizes_of(inner), rank)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer and the adapter."""
        y: Tensor = self.inner(x)
        return y + self.adapter(x)

    def config_entries(self) -> dict[str, Any]:
        """Raise InputError: no published config.json has adapters."""
        raise InputError("the model has adapters: merge them before it is saved as a model (adapters.merge)")


def sizes_of(layer: Layer) -> tuple[int, int]:
    """Return the numbers of inputs and outputs of a layer."""
    rows, columns = layer.weight.shape
    return (rows, columns) if layer.inputs_first else (columns, rows)


def linear_layers(model: Module) -> dict[str, Layer]:
    """Return the linear layers of a model by name; the matrices of an adapter are not among them."""
    modules = ((name, module) for name, module in model.named_modules() if ".lora_" not in name)
    return {name: module for name, module in modules if isinstance(module, Layer)}


def adapted(model: Module) -> dict[str, LowRankLinear]:
    """Return the layers that have an adapter, by name."""
    return {name: module for name, module in model.named_modules() if isinstance(module, LowRankLinear)}


def adapt(model: Module, rank: int, *, only: frozenset[str] | None = None) -> None:
    """Freeze a model, and give its layers adapters of a rank, or only the layers whose names are in `only`.

    All linear layers get one but the head, which is often the embedding too: adapters of all layers learn more than
    those of some at equal memory. The router of a mixture of experts has a row for each of a few experts. If these are
    fewer than the rank, it gets no adapter, because its few rows would limit the rank of all adapters.
    In a skeleton they have only shapes; otherwise A is drawn and B is 0.
    Raises InputError for a model that has adapters or no such layer, and for a rank that a matrix does not have.

    >>> from minigrad import nn
    >>> model = nn.Sequential(nn.Linear(8, 4))
    >>> adapt(model, 2)
    >>> [(name, each.shape) for name, each in model.named_parameters() if each.requires_grad]
    [('0.adapter.lora_A.weight', (2, 8)), ('0.adapter.lora_B.weight', (4, 2))]
    """
    if adapted(model):
        raise InputError("the model has adapters already; merge them first")
    small = {id(each.gate) for each in mixtures(model) if min(each.gate.weight.shape) < rank}
    layers = {
        name: layer
        for name, layer in linear_layers(model).items()
        if (id(layer) not in small if only is None else name in only)
    }
    if not layers:
        raise InputError("the model has no linear layer that an adapter could be added to")
    most = min(min(layer.weight.shape) for layer in layers.values())
    if not 1 <= rank <= most:
        known = f"a rank from 1 to {most}, the smallest side of a matrix of the model"
        raise InputError(f"an adapter has {known}, not {rank}")
    skeleton, dtype = is_skeleton(model), model.parameters()[0].dtype
    model.freeze()
    with shapes_only():
        adapters = {name: LowRankLinear(layer, rank) for name, layer in layers.items()}
    if not skeleton:
        for number, layer in enumerate(adapters.values()):
            layer.adapter.initialise(seed=number, dtype=dtype)
    replace(model, adapters)


def adapt_tokens(model: LanguageModel, tokens: Sequence[int]) -> None:
    """Train the rows of some tokens, of a frozen embedding and of a frozen head (`minigrad.adapters.token_rows`).

    Raises InputError for a token that the model lacks or that is listed twice, and for a quantised model.

    >>> import models
    >>> model = models.build("vidya-v2", "nano", vocab_size=300).freeze()
    >>> adapt_tokens(model, [1, 4])
    >>> [(name, each.shape) for name, each in model.named_parameters() if each.requires_grad]
    [('model.embed_tokens.token_adapter.delta', (2, 96))]
    """
    vocab_size, skeleton = model.config.vocab_size, is_skeleton(model)
    if any(isinstance(table, AdaptedEmbedding) for table in tables_of(model).values()):
        raise InputError("the model trains rows of tokens already; merge them first, or name all tokens at once")
    if wrong := [token for token in tokens if not isinstance(token, int | np.integer)]:
        raise InputError(f"tokens are given by their ids, which are whole numbers, not {wrong[0]!r}")
    unknown = [token for token in tokens if not 0 <= token < vocab_size]
    if unknown:
        raise InputError(f"the model has tokens from 0 to {vocab_size - 1}, and no token {unknown[0]}")
    if twice := [token for token, count in Counter(tokens).items() if count > 1]:
        raise InputError(f"token {twice[0]} is listed twice, and has one row: list each token once")
    if (stored := format_of(model)) is not None:
        raise InputError(f"rows of tokens cannot be trained in a matrix stored as {stored}; adapt the layers alone")
    with shapes_only():
        tables = {name: AdaptedEmbedding(table, tokens) for name, table in tables_of(model).items()}
    if not skeleton:
        for table in tables.values():
            table.token_adapter.initialise(dtype=table.weight.dtype)
    replace(model, tables)


def merge(model: Module) -> None:
    r"""Add every adapter to its matrix, $W \leftarrow W + B A$, and remove it; the whole model can be trained again.

    The rows of tokens are added too.
    Raises InputError for a quantised model, whose matrices would have to be rounded again.

    >>> from minigrad import nn, no_grad, Tensor
    >>> model = nn.Sequential(nn.Linear(2, 2, bias=False))
    >>> adapt(model, 1)
    >>> with no_grad():
    ...     model[0].adapter.lora_B.weight[...] = 1.0
    >>> before = model(Tensor([[1.0, 2.0]])).numpy()
    >>> merge(model)
    >>> bool(abs(model(Tensor([[1.0, 2.0]])).numpy() - before).max() < 1e-6)
    True
    """
    if (stored := format_of(model)) is not None:
        wanted = "adapters cannot be added to them; load the base without --quantize"
        raise InputError(f"the matrices are stored as {stored}: {wanted}")
    plain = dict[str, Module]()
    once = {id(module): (name, module) for name, module in model.named_modules()}  # also a layer used in two places
    for name, module in once.values():
        if isinstance(module, LowRankLinear):
            product = module.adapter.product()
            module.weight.data += product.T if module.inner.inputs_first else product
            plain[name] = module.inner
        elif isinstance(module, AdaptedEmbedding):
            module.weight.data = module.token_adapter.merged(module.weight)
            plain[name] = module.inner
    replace(model, plain)
    model.freeze(False)
