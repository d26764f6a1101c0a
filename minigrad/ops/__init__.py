"""The differentiable operations. A file holds similar ones: the formula, the forward and the backward pass together."""

from minigrad.ops.arithmetic import add, divide, maximum, minimum, multiply, negative, power, subtract
from minigrad.ops.attention import attention
from minigrad.ops.cross_entropy import cross_entropy, linear_cross_entropy, linear_losses
from minigrad.ops.distillation import linear_distillation
from minigrad.ops.dropout import dropout
from minigrad.ops.elementwise import absolute, astype, exp, gelu, log, relu, sigmoid, silu, sqrt, tanh
from minigrad.ops.embedding import embedding
from minigrad.ops.gating import swiglu, swiglu_linear
from minigrad.ops.key_shift import key_shift
from minigrad.ops.masked_attention import scaled_dot_product_attention
from minigrad.ops.matmul import linear, matmul
from minigrad.ops.norm import layer_norm, rms_norm
from minigrad.ops.reduce import logsumexp, max, mean, min, sum
from minigrad.ops.rotary import rotary
from minigrad.ops.sequences import sum_sequences
from minigrad.ops.shape import concatenate, reshape, slice, stack, transpose, where
from minigrad.ops.softmax import log_softmax, softmax

__all__ = [
    "absolute", "add", "astype", "attention", "concatenate", "cross_entropy", "divide", "dropout", "embedding", "exp",
    "gelu", "key_shift", "layer_norm", "linear", "linear_cross_entropy", "linear_distillation", "linear_losses", "log",
    "log_softmax", "logsumexp", "matmul", "max", "maximum", "mean", "min", "minimum", "multiply", "negative", "power",
    "relu", "reshape", "rms_norm", "rotary", "scaled_dot_product_attention", "sigmoid", "silu", "slice", "softmax",
    "sqrt", "stack", "subtract", "sum", "sum_sequences", "swiglu", "swiglu_linear", "tanh", "transpose", "where",
]  # fmt: skip
