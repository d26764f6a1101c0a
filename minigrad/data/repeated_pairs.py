"""Which tokens could be copied: they complete a pair of tokens seen before in the same sequence.

Text repeats itself: names, phrases, lines. Where a pair of tokens stood side by side earlier in the sequence, attention
can look for the earlier place of the first one and predict what followed it there (an induction head: Elhage et al.
2021, Olsson et al. 2022). A model learns that rather suddenly; its loss on these tokens shows whether it has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from minigrad.data.tokens.batches import Batch


def completes_a_pair(batch: Batch) -> npt.NDArray[np.bool_]:
    """Return for each row of a batch whether its target completes a repeated pair.

    It does if the token and its target stood side by side earlier in the same sequence, also where the earlier place
    is only read and not scored. Shapes: (rows,).

    >>> batch = Batch.rectangular([[1, 2, 3, 1, 2, 2]], [[2, 3, 1, 2, 2, 2]])
    >>> completes_a_pair(batch).tolist()
    [False, False, False, True, False, True]
    """
    offsets = batch.layout.offsets
    following = np.append(batch.tokens[1:], 0)  # a target of -100 hides what follows a token, so it is not used
    last = offsets[1:][np.diff(offsets) > 0] - 1
    following[last] = batch.targets[last]
    sequence = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    columns: list[npt.NDArray[Any]] = [sequence, batch.tokens, following]
    order = np.lexsort(columns)  # stable, so equal pairs of a sequence stay in the order of their rows
    repeated = np.zeros(len(order), bool)
    repeated[order[1:]] = np.all([column[order[1:]] == column[order[:-1]] for column in columns], axis=0)
    return repeated
