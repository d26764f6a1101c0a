"""The range in which products of elements split into three bfloat16 parts are as close as float32 products.

Within the range of float32 two things differ (see `minigrad.kernels.codegen.bfloat16_pairs`):

* Large elements. A part of infinity or NaN is NaN, and where the sum of products overflows, parts of opposite signs can
overflow too, and add up to NaN instead of infinity.
* Small elements. The tile registers take a number below $2^{-126}$ for zero, on the way in and on the way out.
  An element $x$ keeps all three parts if its last bit is at least $2^{-126}$, so if $|x| \\ge 2^{-103}$; else it loses
  less than $2 \\cdot 2^{-126}$. Each term of a sum is six products of parts, added up in pairs: at most nine roundings
  that lose less than $2^{-126}$. A term $a b$ then loses less than
  $2^{-126} (9 + 2 \\max|a| + 2 \\max|b|)$.

Float32 itself rounds each term by up to $2^{-24} |a b|$. So nothing more is lost if all non-zero $|a|$ and $|b|$ are at
least $2^{-103}$ and all non-zero $|a b|$ at least $2^{-98}$, because $9 \\cdot 2^{-126} < 2^{-24} \\cdot 2^{-98}$. Nor
is it where an element of the result is at least $2^{24}$ times what a term loses, because it is at most the sum of the
absolute values of its terms.
"""

from __future__ import annotations

import numpy as np

from minigrad.kernels.gemm.panels import Extremes
from minigrad.typing import Array

_LEAST_ELEMENT, _LEAST_TERM, _LARGEST_SUM = 2.0**-103, 2.0**-98, 2.0**127


def is_as_close_as_float32(left: Extremes, right: Extremes, depth: int, result: Array) -> bool:
    """Return whether the product of two factors, sums of `depth` terms, lies in the range described above."""
    largest = left.largest * right.largest * depth
    if not (np.isfinite((left.largest, right.largest)).all() and largest < _LARGEST_SUM):
        return False
    if largest == 0:
        return True
    smallest = min(left.smallest, right.smallest)
    if smallest >= _LEAST_ELEMENT and left.smallest * right.smallest >= _LEAST_TERM:
        return True
    lost = 2.0**-126 * (9 + 2 * left.largest + 2 * right.largest)
    return float(np.abs(result).min(initial=np.inf)) >= 2.0**24 * lost
