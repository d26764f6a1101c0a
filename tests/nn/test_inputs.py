"""What a model is given: a layout follows from the shape or from the cache, and what does not fit is named."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import InputError, ShapeError
from minigrad.nn import KeyValueCache, Layout
from minigrad.nn.inputs import check_target_weights, check_targets, check_tokens


def test_a_batch_is_rectangular_or_packed_and_continues_a_cache() -> None:
    ids, layout = check_tokens([[1, 2], [3, 4]], 8)
    assert (ids.tolist(), layout.lengths.tolist()) == ([[1, 2], [3, 4]], [2, 2])
    cache = KeyValueCache(num_layers=1, batch_size=2, max_length=4, num_kv_heads=1, head_dim=2)
    cache.advance(np.array([1, 3]))
    _, continued = check_tokens([5, 6], 8, cache, Layout.packed([1, 1]))
    assert continued.positions.tolist() == [1, 3]


def test_what_does_not_fit_is_named() -> None:
    with pytest.raises(ShapeError, match="a layout of 2 rows needs as many tokens"):
        check_tokens([1, 2, 3], 8, layout=Layout.packed([2]))
    with pytest.raises(InputError, match="a Tensor cannot be made of this data"):
        check_tokens([[1, 2], [3]], 8)
    with pytest.raises(InputError, match="3 tokens are more than the model's context of 2"):
        check_tokens([[1, 2, 3]], 2)
    with pytest.raises(ShapeError, match="one target per token"):
        check_targets([1], np.zeros((1, 1)))
    with pytest.raises(ShapeError, match="one weight per target"):
        check_target_weights([1.0], np.zeros((1, 1)))
    assert check_target_weights(None, np.zeros(2)) is None
