"""Twins of rounding to bfloat16 and of splitting a float32 into three of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from tests.kernels.twin import Arguments, Array, Twin


def rounded(x: Array) -> Array:
    """Round float32 to bfloat16 by looking at the two neighbours; of two equally near ones the even one is chosen."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    below = bits >> 16
    near = (bits & 0xFFFF).astype(np.int64) - 0x8000  # above 0: the upper neighbour is nearer
    up = (near > 0) | ((near == 0) & (below % 2 == 1))
    return np.where(np.isnan(x), np.uint32(0x7FC0), below + up).astype(np.uint32)


def split(x: Array) -> list[Array]:
    """Return the bits (uint32) of three bfloat16 that add up to x: one truncated, one rounded, the rest."""
    with np.errstate(invalid="ignore"):
        high = np.ascontiguousarray(x, np.float32).view(np.uint32) & np.uint32(0xFFFF0000)
        rest = x - high.view(np.float32)
        middle = (rest.view(np.uint32) + np.uint32(0x8000)) & np.uint32(0xFFFF0000)
        low = rest - middle.view(np.float32)
    return [bits >> 16 for bits in (high, middle, low.view(np.uint32))]


def _bits_arguments(dtype: Any) -> st.SearchStrategy[Arguments]:
    return st.floats(width=32).map(lambda x: [np.float32(x)])


TWINS: dict[str, Twin] = {
    "codegen.bits.rounded_to_bfloat16": Twin(
        lambda dtype: st.floats(width=32, allow_nan=False).map(lambda x: [np.float32(x)]),
        lambda x: (rounded(np.array([x], np.float32)) << 16).view(np.float32)[0],
    ),
    "codegen.bits.bfloat16_bits": Twin(_bits_arguments, lambda x: int(rounded(np.array([x], np.float32))[0])),
}
