"""Building blocks with parameters: what a model file is written with."""

from minigrad.nn.attention import GroupedQueryAttention
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.cross_layer import GatedCrossLayerAttention, block_order
from minigrad.nn.dual_stream import DualStreamFeedForward
from minigrad.nn.feed_forward import GELUFeedForward, SwiGLUFeedForward
from minigrad.nn.layers import Conv1D, Dropout, Embedding, LayerNorm, Linear, RMSNorm, WiolaRMSNorm, set_step
from minigrad.nn.module import Module, Parameter, Start, shapes_only
from minigrad.nn.positions import Layout, RotaryAngles
from minigrad.nn.recompute import Layer, recompute
from minigrad.nn.rotary_scaling import LinearAngles, NTKAngles, YarnAngles, ntk_theta
from minigrad.nn.spiral import SpiralAngles
from minigrad.nn.wiola_cache import WiolaCache

__all__ = [
    "Conv1D",
    "Dropout",
    "DualStreamFeedForward",
    "Embedding",
    "GELUFeedForward",
    "GatedCrossLayerAttention",
    "GroupedQueryAttention",
    "KeyValueCache",
    "Layer",
    "LayerNorm",
    "Layout",
    "Linear",
    "LinearAngles",
    "Module",
    "NTKAngles",
    "Parameter",
    "RMSNorm",
    "RotaryAngles",
    "SpiralAngles",
    "Start",
    "SwiGLUFeedForward",
    "WiolaCache",
    "WiolaRMSNorm",
    "YarnAngles",
    "block_order",
    "ntk_theta",
    "recompute",
    "set_step",
    "shapes_only",
]
