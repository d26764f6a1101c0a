"""The key-value cache: the keys and values that it returns, and what it refuses."""

from __future__ import annotations

import numpy as np
import pytest

from minigrad import GraphError, InputError, ShapeError, Tensor, no_grad
from minigrad.nn import KeyValueCache


def rows(count: int, value: float) -> Tensor:
    return Tensor(np.full((count, 1, 2), value, np.float32))


def test_new_keys_and_values_are_returned_together_with_the_old_ones() -> None:
    cache = KeyValueCache(num_layers=2, batch_size=2, max_length=4, num_kv_heads=1, head_dim=2)
    assert cache.num_bytes == 2 * 2 * 2 * 4 * 1 * 2 * 4
    for length, value in ((2, 1.0), (1, 2.0)):
        counts = np.full(2, length)
        cache.check_capacity(counts)
        for layer in (0, 1):
            new = rows(2 * length, value + layer), rows(2 * length, -value)
            keys, values, ranges = cache.append(layer, *new, np.arange(3) * length)
        cache.advance(counts)
    assert cache.lengths.tolist() == [3, 3]
    assert ranges.tolist() == [[0, 3], [4, 7]]
    assert keys.shape == (8, 1, 2)
    assert keys.data[:3, 0, 0].tolist() == keys.data[4:7, 0, 0].tolist() == [2, 2, 3]
    assert values.data[:3, 0, 0].tolist() == [-1, -1, -2]
    assert np.shares_memory(keys.data, cache.keys)
    assert cache.keys[0, 0, :3, 0, 0].tolist() == [1, 1, 2]


def test_a_batch_of_another_size_and_too_many_tokens_are_refused() -> None:
    cache = KeyValueCache(1, 2, 4, 1, 2)
    with pytest.raises(InputError, match="holds 2 sequences, but got tokens of 3"):
        cache.check_capacity(np.ones(3, np.int64))
    cache.advance(np.array([1, 3]))
    cache.check_capacity(np.array([3, 1]))
    with pytest.raises(InputError, match=r"capacity of 4 tokens; it holds 3, and got 2 more\..*max_length"):
        cache.check_capacity(np.array([3, 2]))
    for batch_size, max_length in ((0, 4), (1, 0)):
        message = f"batch_size and max_length of at least 1, not {batch_size} and {max_length}"
        with pytest.raises(InputError, match=message):
            KeyValueCache(1, batch_size, max_length, 1, 2)


@pytest.mark.parametrize(("keys", "values"), [((3, 2, 2), (3, 1, 2)), ((3, 1, 2), (3, 1, 4)), ((3, 1), (3, 1, 2))])
def test_keys_and_values_of_other_heads_are_refused(keys: tuple[int, ...], values: tuple[int, ...]) -> None:
    cache = KeyValueCache(1, 1, 4, 1, 2)
    given = (Tensor(np.ones(shape, np.float32)) for shape in (keys, values))
    with pytest.raises(ShapeError, match=r"of 1 heads of 2 channels, but a layer computed the shape \(3, .*new_cache"):
        cache.append(0, *given, np.array([0, 3]))


def test_another_dtype_and_a_layer_that_is_not_there_are_refused() -> None:
    cache, new = KeyValueCache(1, 1, 4, 1, 2), rows(3, 1.0)
    with pytest.raises(
        ShapeError, match="the cache is of 1 layers in float32, and the model computes layer 2 in float32"
    ):
        cache.append(1, new, new, np.array([0, 3]))
    with pytest.raises(ShapeError, match=r"computes layer 1 in float64 and float32; take a cache of model\.new_cache"):
        cache.append(0, Tensor(new.data.astype(np.float64)), new, np.array([0, 3]))


def test_chosen_sequences_have_their_keys_and_go_on_by_themselves() -> None:
    cache = KeyValueCache(num_layers=1, batch_size=2, max_length=4, num_kv_heads=1, head_dim=2)
    cache.append(0, Tensor(np.arange(8, dtype=np.float32).reshape(4, 1, 2)), rows(4, -1.0), np.array([0, 1, 4]))
    cache.advance(np.array([1, 3]))
    chosen = cache.select([1, 1, 0])
    assert (chosen.batch_size, chosen.lengths.tolist(), chosen.max_length) == (3, [3, 3, 1], 4)
    assert chosen.keys[0, :, :3, 0].tolist() == cache.keys[0, [1, 1, 0], :3, 0].tolist()
    chosen.append(0, rows(2, 9.0), rows(2, 9.0), np.array([0, 1, 1, 2]))
    assert chosen.keys[0, :, :, 0, 0].tolist() == [[2, 4, 6, 9], [2, 4, 6, 0], [0, 9, 0, 0]]
    assert not cache.keys[0, :, 3].any()


def test_a_cache_that_is_cut_back_takes_other_tokens() -> None:
    cache = KeyValueCache(1, 2, 4, 1, 2)
    cache.append(0, rows(5, 1.0), rows(5, 1.0), np.array([0, 3, 5]))
    cache.advance(np.array([3, 2]))
    cache.mark()
    cache.truncate([1, 0])
    keys, _, ranges = cache.append(0, rows(2, 2.0), rows(2, 2.0), np.arange(3))
    assert ranges.tolist() == [[0, 2], [4, 5]]
    assert keys.data[[0, 1, 4], 0, 0].tolist() == [1, 2, 2]
    cache.advance(np.array([0, 1]))
    for length in (2, -1):
        with pytest.raises(InputError, match=f"a cache of 1 tokens cannot be cut to {length}"):
            cache.truncate(length)
    cache.truncate(0)
    assert cache.lengths.tolist() == [0, 0]


def test_backward_to_stored_keys_and_values_is_refused() -> None:
    cache = KeyValueCache(1, 1, 4, 1, 2)
    k = Tensor(np.ones((1, 1, 2), np.float32), requires_grad=True)
    for stored, pair in ((0, (k, rows(1, 1.0))), (1, (rows(1, 1.0), k * 2))):
        found = cache.append(0, *pair, np.arange(2))
        with pytest.raises(GraphError, match=r"computed with a cache.*without a cache.*no_grad"):
            (found[stored].sum() + k.sum()).backward()
        assert not found[1 - stored].requires_grad
        with no_grad():
            assert not cache.append(0, *pair, np.arange(2))[stored].requires_grad


@pytest.mark.parametrize("wrong", [[], [True, False], [0.5], [[0]], 1])
def test_select_takes_numbers_of_sequences(wrong: object) -> None:
    cache = KeyValueCache(1, 2, 4, 1, 2)
    with pytest.raises(InputError, match="select takes the numbers of one or more sequences"):
        cache.select(wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [0.0, [0, 0, 0], [True, False]])
def test_truncate_takes_a_length_for_each_sequence(wrong: object) -> None:
    with pytest.raises(InputError, match="a cache is cut to one length, or one for each of its 2, not"):
        KeyValueCache(1, 2, 4, 1, 2).truncate(wrong)  # type: ignore[arg-type]
