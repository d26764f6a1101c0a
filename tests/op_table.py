"""One table of every differentiable function: what arguments it may be given, and what it must compute from them.

Where an operation runs a fused kernel, the reference is the formula that stands beside the operation.
`tests/ops/test_every_op.py` drives the checks of `tests/op_checks.py` through the whole table.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from minigrad import Tensor, ops
from minigrad.autograd.operators import OPS
from minigrad.experts.mixture import combine_experts_formula
from minigrad.nn.checkpointing import recompute
from minigrad.ops.attention import attention_formula
from minigrad.ops.cross_entropy import cross_entropy_formula, linear_cross_entropy_formula, linear_losses_formula
from minigrad.ops.distillation import linear_distillation_formula
from minigrad.ops.dropout import dropout_formula
from minigrad.ops.elementwise import gelu_formula
from minigrad.ops.embedding import embedding_formula
from minigrad.ops.gating import swiglu_formula, swiglu_linear_formula
from minigrad.ops.key_shift import key_shift_formula
from minigrad.ops.matmul import linear_formula, matmul_formula
from minigrad.ops.norm import layer_norm_formula, rms_norm_formula
from minigrad.ops.rotary import rotary_formula
from minigrad.ops.softmax import log_softmax_formula, softmax_formula
from minigrad.quantised.parameter import quantised_linear
from models.vsla.operations.far_keys import attention_with_far_keys_formula, block_mean_formula
from models.vsla.operations.sparse_attention import sparse_attention_formula
from models.wiola.operations.context_attention import context_attention_formula
from models.wiola.operations.gates import blend_formula, sigmoid_gate_formula
from models.wiola.operations.offset_norm import offset_rms_norm_formula
from models.wiola.operations.own_key import attention_with_own_key_formula
from models.wiola.operations.prefix_mean import prefix_mean_formula
from tests import attention_cases, op_cases, quantised_cases, variable_cases
from tests.op_cases import COUNTS, Array, Case, Values, no_ties, nonzero, normal, positive
from tests.philox import kept_elements, kept_probabilities


@dataclass(frozen=True)
class Row:
    """The arguments that an operation may be given, the same operation in NumPy, and how it is called.

    Without `operation`, that is the `@op` of the name of the row.
    """

    cases: SearchStrategy[Case]
    reference: Callable[..., Any]
    keeps_dtype: bool = True
    operation: Callable[..., Tensor] | None = None


def elementwise(
    reference: Callable[..., Any],
    domain: Values = normal,
    count: int = 1,
    min_dims: int = 0,
    keeps_dtype: bool = True,
    **options: SearchStrategy[Any],
) -> Row:
    """Make a row for a function of `count` arrays of one shape."""
    return Row(op_cases.elementwise(domain, count, min_dims, options), reference, keeps_dtype)


def broadcast(reference: Callable[..., Any], domain: Values = normal) -> Row:
    """Make a row for a function of two arrays that broadcast against each other."""
    return Row(op_cases.broadcast(domain), reference)


def along_one_axis(reference: Callable[..., Any]) -> Row:
    """Make a row for a function along one axis, such as softmax."""
    return Row(op_cases.along_one_axis(), reference)


def reduction(reference: Callable[..., Any], domain: Values = normal, empty: bool = False) -> Row:
    """Make a row for a reduction over any axes; `empty` says whether it may reduce no elements at all."""
    return Row(op_cases.reduction(domain, empty), reference)


def norm(reference: Callable[..., Any], vectors: int) -> Row:
    """Make a row for a normalisation of rows with `vectors` vectors of learned values."""
    return Row(op_cases.norm(vectors), reference)


# References that are not a formula as it stands.


def _sigmoid(x: Array) -> Array:
    result: Array = 1 / (1 + np.exp(-x))
    return result


def _dropout(x: Array, probability: float, **draws: int) -> Array:
    return dropout_formula(x, kept_elements(x.shape, probability, **draws), probability=probability)


def _attention(
    *arrays: Array,
    offsets: Array,
    key_ranges: Array | None = None,
    visible: Array | None = None,
    first_visible: Array | None = None,
    dropout: float = 0.0,
    **draws: int,
) -> Array:
    (rows, num_heads, _), mask = arrays[0].shape, None
    if dropout:
        num_keys = np.diff(offsets if key_ranges is None else key_ranges).max(initial=0)
        mask = kept_probabilities((rows, num_heads, int(num_keys)), dropout, **draws) / (1 - dropout)
    keys = {"key_ranges": key_ranges, "visible": visible, "first_visible": first_visible}
    return attention_formula(*arrays, offsets=offsets, **keys, dropout_mask=mask)


@functools.wraps(ops.linear)  # which refuses what the function below cannot compute
def _recomputed(x: Tensor, *parameters: Tensor, **options: bool) -> Tensor:
    """Recompute a small layer as a model does: its input is an argument, and its parameters belong to the function."""
    return recompute(lambda rows: ops.tanh(ops.linear(rows, *parameters, **options)), x, parameters=parameters)


TABLE: dict[str, Row] = {
    "absolute": elementwise(np.abs, no_ties),
    "add": broadcast(np.add),
    "astype": elementwise(lambda x, dtype: x.astype(dtype), keeps_dtype=False, dtype=st.just("float64")),
    "attention": Row(attention_cases.attention(), _attention),
    "attention_with_far_keys": Row(attention_cases.attention_with_far_keys(), attention_with_far_keys_formula),
    "attention_with_own_key": Row(attention_cases.attention_with_own_key(), attention_with_own_key_formula),
    "blend": elementwise(blend_formula, count=3, min_dims=1),
    "block_mean": Row(attention_cases.block_mean(), block_mean_formula),
    "combine_experts": Row(op_cases.combine_experts(), combine_experts_formula),
    "concatenate": Row(op_cases.concatenate(), lambda *parts, axis: np.concatenate(parts, axis)),
    "context_attention": Row(attention_cases.context_attention(), context_attention_formula),
    "convolve": Row(variable_cases.convolve(), variable_cases.convolve_reference),
    "cross_entropy": Row(op_cases.cross_entropy(), cross_entropy_formula),
    "divide": broadcast(np.divide, nonzero),
    "dropout": elementwise(
        _dropout,
        probability=st.sampled_from([0.25, 0.0, 0.9]),
        **dict.fromkeys(("seed", "step", "index", "first_row"), COUNTS),
    ),
    "embedding": Row(op_cases.embedding(), embedding_formula),
    "exp": elementwise(np.exp),
    "gelu": elementwise(gelu_formula, approximate=st.sampled_from(["none", "tanh"])),
    "key_shift": Row(op_cases.key_shift(), key_shift_formula),
    "layer_norm": norm(layer_norm_formula, vectors=2),
    "linear": Row(op_cases.linear(), linear_formula),
    "linear_cross_entropy": Row(op_cases.linear_cross_entropy(), linear_cross_entropy_formula),
    "linear_distillation": Row(op_cases.linear_distillation(), linear_distillation_formula),
    "linear_losses": Row(op_cases.linear_losses(), linear_losses_formula),
    "log": elementwise(np.log, positive),
    "log_softmax": along_one_axis(log_softmax_formula),
    "logsumexp": reduction(lambda x, **options: np.log(np.exp(x).sum(**options))),
    "matmul": Row(op_cases.matmul(), matmul_formula),
    "max": reduction(np.max, no_ties),
    "maximum": broadcast(np.maximum),
    "mean": reduction(np.mean),
    "min": reduction(np.min, no_ties),
    "minimum": broadcast(np.minimum),
    "multiply": broadcast(np.multiply),
    "negative": elementwise(np.negative),
    "offset_rms_norm": norm(offset_rms_norm_formula, vectors=2),
    "outer": Row(variable_cases.outer(), np.multiply.outer),
    "power": Row(op_cases.power(), lambda x, exponent: np.power(x, float(exponent))),
    "prefix_mean": Row(op_cases.prefix_mean(), prefix_mean_formula),
    "quantised_linear": Row(quantised_cases.linear(), quantised_cases.linear_reference, operation=quantised_linear),
    "recompute": Row(
        op_cases.linear(), lambda *arrays, **how: np.tanh(linear_formula(*arrays, **how)), True, _recomputed
    ),
    "relu": elementwise(lambda x: np.maximum(x, 0), no_ties),
    "reshape": Row(op_cases.reshape(), lambda x, shape: x.reshape(shape)),
    "resize_sequences": Row(variable_cases.resize_sequences(), variable_cases.resize_sequences_reference),
    "rms_norm": norm(rms_norm_formula, vectors=1),
    "rotary": Row(op_cases.rotary(), rotary_formula),
    "sigmoid": elementwise(_sigmoid),
    "sigmoid_gate": elementwise(sigmoid_gate_formula, count=2, min_dims=1),
    "silu": elementwise(lambda x: x * _sigmoid(x)),
    "slice": Row(op_cases.slicing(), lambda x, index: x[index]),
    "softmax": along_one_axis(softmax_formula),
    "sparse_attention": Row(attention_cases.sparse_attention(), sparse_attention_formula),
    "sqrt": elementwise(np.sqrt, positive),
    "stack": Row(op_cases.stack(), lambda *parts, axis: np.stack(parts, axis)),
    "subtract": broadcast(np.subtract),
    "sum": reduction(np.sum, empty=True),
    "sum_sequences": Row(variable_cases.sum_sequences(), variable_cases.sum_sequences_reference),
    "swiglu": elementwise(swiglu_formula, count=2, min_dims=1),
    "swiglu_linear": Row(op_cases.swiglu_linear(), swiglu_linear_formula),
    "tanh": elementwise(np.tanh),
    "transpose": Row(op_cases.transpose(), lambda x, axes: np.transpose(x, axes)),
    "where": Row(op_cases.where(), np.where),
    "zero_extend": Row(variable_cases.zero_extend(), variable_cases.zero_extend_reference),
    "zero_extended_stack": Row(variable_cases.zero_extended_stack(), variable_cases.zero_extended_stack_reference),
}


def operation(name: str) -> Callable[..., Tensor]:
    """Return how the operation of a row is called."""
    return TABLE[name].operation or OPS[name]


# The formulas of these multiply by 0 what the operation leaves out: dropped elements, rows of a table that were not
# looked up, and keys that a query does not see.
FORMULAS_WITH_ZEROS = {"attention", "dropout", "embedding"}

# A row whose squares overflow is NaN here, where the formula divides by infinity; so is one whose logits are infinite.
NAN_ON_OVERFLOW = {"rms_norm", "offset_rms_norm", "linear_distillation"}
