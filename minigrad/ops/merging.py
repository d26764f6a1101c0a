"""Which neighbours are alike: the decision of adaptive token merging, which has no gradient."""

from __future__ import annotations

from minigrad.kernels.sequence import merging as kernels
from minigrad.typing import Array


def merged_rows(x: Array, offsets: Array, threshold: float) -> Array:
    r"""Tell which rows join the row before them (Wiola, arXiv 2607.01394, eq. 30 and algorithm 1).

    From the left, row t + 1 joins row t if their cosine $\rho_t = \hat x_t \cdot \hat x_{t+1}$ exceeds the threshold
    and row t has not joined another itself. Sequences lie in the rows as in `attention`; none reaches into the next.
    Shapes: x (rows, C), offsets (S + 1,) -> (rows,) booleans.
    """
    return kernels.merge_groups(x, offsets, threshold)
