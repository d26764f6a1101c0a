"""Building blocks with parameters: what a model file is written with."""

from minigrad.nn.attention import GroupedQueryAttention
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.feed_forward import SwiGLUFeedForward
from minigrad.nn.layers import Dropout, Embedding, LayerNorm, Linear, RMSNorm, set_step
from minigrad.nn.module import Module, Parameter, Start, shapes_only
from minigrad.nn.positions import Layout, RotaryAngles

__all__ = [
    "Dropout",
    "Embedding",
    "GroupedQueryAttention",
    "KeyValueCache",
    "LayerNorm",
    "Layout",
    "Linear",
    "Module",
    "Parameter",
    "RMSNorm",
    "RotaryAngles",
    "Start",
    "SwiGLUFeedForward",
    "set_step",
    "shapes_only",
]
