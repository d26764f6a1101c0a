"""Neural network modules: the layers, blocks and caches that models are built from."""

from minigrad.nn.attention import GroupedQueryAttention, SelfAttention
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.checkpointing import CheckpointedLayer, recompute
from minigrad.nn.feed_forward import Conv1DFeedForward, GELUFeedForward, SwiGLUFeedForward
from minigrad.nn.layers import (
    Conv1D,
    Dropout,
    Embedding,
    Head,
    LayerNorm,
    Linear,
    Residual,
    RMSNorm,
    Sequential,
    dropouts,
    set_step,
)
from minigrad.nn.layout import Layout
from minigrad.nn.loss_pass import loss_pass
from minigrad.nn.module import Module
from minigrad.nn.parameter import Init, Parameter, shapes_only
from minigrad.nn.replacing import Wrapper, replace
from minigrad.nn.rotary import LinearAngles, NTKAngles, RotaryAngles, YarnAngles, ntk_theta

__all__ = [
    "CheckpointedLayer", "Conv1D", "Conv1DFeedForward", "Dropout", "Embedding", "GELUFeedForward",
    "GroupedQueryAttention", "Head", "Init", "KeyValueCache", "LayerNorm", "Layout", "Linear", "LinearAngles", "Module",
    "NTKAngles", "Parameter", "RMSNorm", "Residual", "RotaryAngles", "SelfAttention", "Sequential", "SwiGLUFeedForward",
    "Wrapper", "YarnAngles", "dropouts", "loss_pass", "ntk_theta", "recompute", "replace", "set_step", "shapes_only",
]  # fmt: skip
