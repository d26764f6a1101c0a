"""The steps that decoding takes for the operations of rounded matrices."""

from __future__ import annotations

import numpy as np

from minigrad.programs.lower import look_up
from minigrad.programs.trace import lowers
from minigrad.quantised.parameter import quantised_embedding, quantised_linear

lowers(quantised_embedding)(lambda trace, ids, *, matrix: look_up(trace, matrix, ids, np.float32))
lowers(quantised_linear)(lambda trace, x, bias=None, *, matrix: trace.linear(x, *matrix.shape, matrix, bias))
