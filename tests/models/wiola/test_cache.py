"""Wiola's cache: keys and values of sequences that store different numbers of rows, sums, and pending tokens."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import models
from minigrad import GraphError, InputError, Tensor
from minigrad.nn import Layout
from models.wiola.attention import Pass
from models.wiola.cache import Pending, WiolaCache
from models.wiola.merged_attention import merged_attention
from tests.models.wiola.tiny import TINY, Array, build, logits, merging, repeated


def cache_of(batch_size: int = 2, max_length: int = 4, **changes: object) -> WiolaCache:
    return WiolaCache(models.configure("wiola", **(TINY | changes)), batch_size, max_length)  # type: ignore[arg-type]


def rows(*values: float) -> Tensor:
    return Tensor(np.array(values, np.float32)[:, None, None] * np.ones((1, 2, 4), np.float32))


def test_each_sequence_is_filled_on_its_own() -> None:
    cache = cache_of(atm_at_generation=True)
    cache.append(2, rows(1, 2, 3), rows(-1, -2, -3), np.array([0, 1, 3]))
    keys, values, ranges = cache.append(2, rows(4, 5), rows(-4, -5), np.array([0, 2, 2]))
    assert ranges.tolist() == [[0, 3], [4, 6]]
    assert keys.data[:3, 0, 0].tolist() == [1, 4, 5]
    assert values.data[4:6, 0, 0].tolist() == [-2, -3]
    assert (cache.stored(2).tolist(), cache.stored(1).tolist()) == ([3, 2], [0, 0])
    assert np.shares_memory(keys.data, cache.keys)


def test_sums_are_float64_and_each_sequence_has_its_own() -> None:
    cache = cache_of()
    x = np.arange(64, dtype=np.float32).reshape(4, 16)
    for offsets in ([0, 3, 4], [0, 4, 4], [0, 0, 0]):
        cache.means(0, Tensor(x[: offsets[-1]]), np.array(offsets))
    assert cache.sums.dtype == np.float64
    np.testing.assert_array_equal(cache.sums[0], [x[:3].sum(axis=0) + x.sum(axis=0), x[3]])


def test_only_layers_that_merge_during_generation_have_pending_tokens() -> None:
    assert cache_of().pending == {}
    pending = cache_of(atm_at_generation=True).pending
    assert sorted(pending) == [2, 3]
    assert not pending[2].open.any()
    assert isinstance(pending[2], Pending)


def test_the_memory_in_bytes_is_that_of_every_array() -> None:
    plain, merging = cache_of(), cache_of(atm_at_generation=True)
    keys_and_values = 2 * 6 * 2 * 4 * 2 * 4 * 4
    assert plain.num_bytes == keys_and_values + 6 * 2 * 8 + 6 * 2 * 16 * 8
    state: list[Array] = [each for pending in merging.pending.values() for each in vars(pending).values()]
    assert merging.num_bytes == plain.num_bytes + sum(array.nbytes for array in state)


def test_running_sums_keep_their_digits_over_many_tokens() -> None:
    """In bfloat16 a running count would stop at 256 tokens."""
    model = build("float32", context_length=400)
    ids = np.random.default_rng(0).integers(0, 17, (1, 400))
    whole, cache = logits(model, ids), model.new_cache(1, 400)
    parts = [logits(model, ids[:, t : t + 1], cache) for t in range(400)]
    np.testing.assert_allclose(np.concatenate(parts, axis=1), whole, rtol=0, atol=1e-5 * np.abs(whole).max())


@pytest.mark.parametrize("merges", [False, True])
def test_chosen_sequences_continue_as_if_they_were_alone(merges: bool) -> None:
    model = merging() if merges else build()
    ids = np.concatenate([repeated(seed, 20) for seed in (1, 2, 3)])
    cache = model.new_cache(3, 20)
    logits(model, ids[:, :11], cache)
    chosen = cache.select([2, 0, 2])
    logits(model, ids[:, 11:], cache)  # the chosen ones do not share memory with the others
    rest = logits(model, ids[[2, 0, 2], 11:], chosen)
    np.testing.assert_allclose(rest, logits(model, ids)[[2, 0, 2], 11:], atol=1e-10)


@pytest.mark.parametrize("merges", [False, True])
def test_a_cache_returns_to_its_mark_as_often_as_needed(merges: bool) -> None:
    model = merging() if merges else build()
    ids, other = repeated(1, 20), repeated(5, 20)
    cache = model.new_cache(1, 20)
    logits(model, ids[:, :9], cache)
    cache.mark()
    for tries in (3, 1, 5):
        logits(model, other[:, :tries], cache)
        cache.truncate(9 + tries - 1)
        assert cache.lengths.tolist() == [9]
    logits(model, ids[:, 9:12], cache)
    cache.truncate(12)
    assert cache.lengths.tolist() == [12]
    rest = logits(model, ids[:, 12:], cache)
    np.testing.assert_allclose(rest, logits(model, ids)[:, 12:], atol=1e-10)


def test_a_length_before_the_mark_is_refused() -> None:
    cache = cache_of()
    cache.advance(np.array([1, 2]))
    with pytest.raises(InputError, match="a cache of 2 tokens with no mark cannot be cut to 1, only emptied"):
        cache.truncate(1)
    cache.mark()
    cache.advance(np.array([2, 1]))
    for length, message in ((1, "with a mark at 2 cannot be cut to 1"), (4, "cannot be cut to 4")):
        with pytest.raises(InputError, match=f"a cache of 3 tokens {message}"):
            cache.truncate([3, length])


def test_an_emptied_sequence_begins_anew_and_the_others_go_on() -> None:
    model, ids = merging(), np.concatenate([repeated(seed, 20) for seed in (1, 2)])
    cache = model.new_cache(2, 20)
    logits(model, ids[:, :7], cache)
    cache.mark()
    cache.truncate([0, 7])
    assert cache.lengths.tolist() == [0, 7]
    rest = logits(model, ids[:, 7:], cache)
    np.testing.assert_allclose(rest[0], logits(model, ids[:1, 7:])[0], atol=1e-10)
    np.testing.assert_allclose(rest[1], logits(model, ids)[1, 7:], atol=1e-10)
    with pytest.raises(InputError, match="a cache of 13 tokens with no mark cannot be cut to 12"):
        cache.truncate(cache.lengths - 1)


def test_the_gradient_of_what_an_earlier_pass_stored_is_refused() -> None:
    """Also where keys and values need none: of sums over rows, and of the output of a pair that began earlier."""
    model: Any = merging()
    cache, layout, angles = model.new_cache(1, 8), Layout.rectangular(1, 1), model._angles
    x = Tensor(np.ones((1, 16)), requires_grad=True)
    with pytest.raises(GraphError, match="computed with a cache"):
        model._summary(x, layout, cache, 0).sum().backward()
    attention = model.model.layers[2].attn
    attention.freeze()
    attention.o_proj.weight.requires_grad = True
    for _ in range(2):
        run = Pass(layout, angles, cache, 2)
        out, _ = merged_attention(attention, Tensor(x.data), [], run, "first", 0.8)
        cache.advance(layout.lengths)
    with pytest.raises(GraphError, match="computed with a cache"):
        out.sum().backward()


def test_an_emptied_cache_forgets_a_first_pass_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The sums of the layers that had run would count for the next text."""
    model = build().eval()
    ids, cache = np.arange(1, 9)[None], model.new_cache(1, 8)
    want = model(ids, cache=model.new_cache(1, 8)).data

    def fails(layer: int, *arguments: Any) -> Tensor:
        if layer:
            raise MemoryError
        return WiolaCache.means(cache, layer, *arguments)

    monkeypatch.setattr(cache, "means", fails)
    with pytest.raises(MemoryError):
        model(ids, cache=cache)
    monkeypatch.undo()
    assert cache.sums.any()
    assert not cache.lengths.any()
    cache.truncate([0])
    np.testing.assert_array_equal(model(ids, cache=cache).data, want)
