"""Places hold texts in one cache; a piece of a prompt is copied from another place, with the bits of reading it."""

from __future__ import annotations

import hashlib
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from minigrad import no_grad
from minigrad.serving.places import Beginnings, Places
from tests.models.tiny import CONTEXT, build

IDS = list(range(1, 10))
PROMPT = Beginnings(IDS)


@pytest.mark.parametrize("family", ["vidya-v2", "gpt2"])
def test_a_copied_piece_has_the_bits_of_a_piece_that_is_read(family: str) -> None:
    model = build(family).eval()
    places = Places(model, 3, CONTEXT, piece=4)
    first, second, third = (places.take() for _ in range(3))

    def read(place: int, start: int, stop: int) -> np.ndarray:
        tokens, layout = np.array(IDS[start:stop]), places.layout([place], stop - start)
        with no_grad():
            return np.array(model(tokens, cache=places.cache, layout=layout, last=1).data)

    for place in (first, third):
        read(place, 0, 4)
    places.hold(first, PROMPT[4])
    assert not places.copy(second, PROMPT[8], 4, 8)
    assert places.copy(second, PROMPT[4], 0, 4)
    assert places.cache.lengths.tolist() == [4, 4, 4]
    assert (read(second, 4, 9) == read(third, 4, 9)).all()


def test_pieces_are_copied_one_after_the_other() -> None:
    places = Places(build("gpt2"), 2, CONTEXT, piece=4)
    first, second = places.take(), places.take()
    places.cache.keys[:, first] = 1
    for stop in (4, 8):
        places.hold(first, PROMPT[stop])
        assert places.copy(second, PROMPT[stop], stop - 4, stop)
        assert places.cache.lengths.tolist() == [0, stop]
    assert (places.cache.keys[:, second, :8] == 1).all()


def test_a_place_that_is_taken_again_is_empty_and_holds_no_pieces() -> None:
    places = Places(build("gpt2"), 2, CONTEXT, piece=4)
    first, second = places.take(), places.take()
    places.cache.advance([4, 4])
    places.hold(first, PROMPT[4])
    places.leave(first)
    assert places.num_free == 1
    assert places.take() == first
    assert places.cache.lengths.tolist() == [0, 4]
    assert not places.copy(second, PROMPT[4], 0, 4)


def test_a_piece_can_be_copied_from_every_place_that_holds_it() -> None:
    places = Places(build("gpt2"), 3, CONTEXT, piece=4)
    first, second, third = (places.take() for _ in range(3))
    places.hold(first, PROMPT[4])
    assert places.copy(second, PROMPT[4], 0, 4)
    for place in (first, second):
        places.leave(place)
    assert places.take() == first  # with another prompt
    assert places.copy(third, PROMPT[4], 0, 4)
    assert places.take() == second
    assert places.copy(first, PROMPT[4], 0, 4)


def test_a_place_that_is_taken_again_keeps_the_pieces_of_its_next_prompt_alone() -> None:
    places = Places(build("gpt2"), 2, CONTEXT, piece=4)
    place, other = places.take(), places.take()
    for stop in (4, 8):
        places.hold(place, PROMPT[stop])
    places.cache.keys[:, place] = 1
    places.leave(place)
    assert places.take(Beginnings([*IDS[:6], 11, 12, 13])) == place
    assert not places.copy(other, PROMPT[8], 4, 8)
    assert places.copy(place, PROMPT[4], 0, 4)
    assert places.cache.lengths[place] == 4
    assert (places.cache.keys[:, place] == 1).all()


def test_a_prompt_is_hashed_once_and_not_for_a_place_that_holds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    places, hashed, blake2b = Places(build("gpt2"), 1, CONTEXT, piece=4), list[int](), hashlib.blake2b

    def counted(data: bytes, digest_size: int) -> Any:
        hashed.append(len(data) // 8)
        return blake2b(data, digest_size=digest_size)

    monkeypatch.setattr("minigrad.serving.places.hashlib", SimpleNamespace(blake2b=counted))
    prompt = Beginnings(IDS)
    place = places.take(prompt)
    assert not hashed
    for _ in range(3):
        places.hold(place, prompt[4])
        places.leave(place)
        places.take(prompt)
    assert hashed == [4, 8]


def test_the_place_that_is_free_for_longest_is_taken_first() -> None:
    places = Places(build("gpt2"), 3, CONTEXT)
    taken = [places.take() for _ in range(3)]
    for place in (taken[2], taken[0]):
        places.leave(place)
    assert [places.take(), places.take()] == [taken[2], taken[0]]


def test_a_cache_of_more_than_keys_and_values_copies_no_pieces() -> None:
    places = Places(build("wiola"), 2, CONTEXT, piece=4)
    places.hold(places.take(), PROMPT[4])
    assert not places.copy(places.take(), PROMPT[4], 0, 4)


def test_the_hash_of_a_piece_does_not_grow_with_the_prompt() -> None:
    assert len(Beginnings(range(4))[4]) == len(Beginnings(range(4_000))[4_000])
    one, other = Beginnings([1, 2, 3]), Beginnings([1, 2, 4])
    assert one[2] == other[2] != one[3]
    assert one[3] != Beginnings([4, 2, 3])[3]
