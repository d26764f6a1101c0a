"""The steps that decoding takes for the operations of Wiola."""

from __future__ import annotations

from minigrad import ops
from minigrad.autograd.tensor import Tensor
from minigrad.kernels.decoding import program as codes
from minigrad.programs.lower import norm
from minigrad.programs.trace import Recorder, Unknown, UntraceableError, lowers
from minigrad.typing import Array
from models.wiola.attention import with_context
from models.wiola.cache import WiolaCache
from models.wiola.operations.gates import blend, sigmoid_gate
from models.wiola.operations.offset_norm import offset_rms_norm


@lowers(offset_rms_norm)
def _offset_rms_norm(trace: Recorder, x: Unknown, weight: Tensor, offset: Tensor, *, eps: float = 1e-6) -> Unknown:
    return norm(trace, codes.OFFSET_RMS_NORM, x, eps, weight, offset)


@lowers(sigmoid_gate)
def _sigmoid_gate(trace: Recorder, x: Unknown, gate: Unknown) -> Unknown:
    return trace.step(codes.SIGMOID_GATE, gate, over=x)


@lowers(blend)
def _blend(trace: Recorder, a: Unknown, b: Unknown, gate: Unknown) -> Unknown:
    return trace.step(codes.BLEND, a, b, gate, width=a.width)


@lowers(with_context)
def _with_context(trace: Recorder, attended: Unknown, q: Unknown, k: Unknown, v: Unknown, logit: Tensor) -> Unknown:
    trace.agree(num_heads=q.shape[1], num_kv_heads=k.shape[2])
    return trace.step(codes.ATTEND_TO_FEW, q, k, v, over=attended, operands=[ops.sigmoid(logit)])


@lowers(WiolaCache.means)
def _means(trace: Recorder, cache: WiolaCache, layer: int, x: Unknown, offsets: Array) -> Unknown:
    if cache is not trace.cache:
        raise UntraceableError("a step adds to the sums of the cache of the pass")
    return trace.step(codes.SUMMARISE, x, layer=layer)
