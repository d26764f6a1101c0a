"""A paragraph that repeats held-out text is not trained on; everything else is."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from minigrad.data.selection import RUN, without_repeats

HELD = " ".join(f"held{number}" for number in range(40)).split()
paragraphs = st.tuples(st.integers(0, 27), st.integers(1, 20), st.sampled_from(["", "new words ", "new\n"])).map(
    lambda place: place[2] + " ".join(HELD[place[0] : place[0] + place[1]])
)
documents = st.lists(st.lists(paragraphs, min_size=1, max_size=4).map("\n \n".join), max_size=4)


def runs(text: str) -> set[str]:
    words = text.split()
    return {" ".join(words[start : start + RUN]) for start in range(len(words) - RUN + 1)}


def unseen_in(text: str) -> list[str]:
    found: list[str] = []
    for part in reversed(text.split("\n \n")):
        if not runs(" ".join([part, *found])) & runs(" ".join(HELD)):
            found.insert(0, part)
    return found


@given(documents)
def test_exactly_the_paragraphs_in_which_a_shared_run_of_words_begins_are_left_out(train):
    found, left_out = without_repeats(train, [" ".join(HELD)])
    expected = [unseen_in(text) for text in train]
    assert [re.split("\n \n", text) for text in found] == [parts for parts in expected if parts]
    assert found.num_bytes == sum(len(text) for text in found)
    assert left_out == sum(len(text.split("\n \n")) for text in train) - sum(map(len, expected))


def test_neither_case_nor_punctuation_hides_a_copy():
    copy = f">>> {', '.join(HELD[3:20]).upper()}."
    assert without_repeats([f"new\n\n{copy}"], [" ".join(HELD)])[1] == 1


def test_line_ends_do_not_matter_and_what_shares_nothing_stays_as_it_is():
    copy = "a\n\n\n" + "\n  ".join(HELD[3:20]) + "  \n\t\n\nb \n\n"
    unseen, left_out = without_repeats([copy, " \n\na\n\n"], [" ".join(HELD)])
    assert (list(unseen), left_out) == (["a\n\n\nb", " \n\na\n\n"], 1)


def test_a_document_that_is_held_out_as_it_is_is_dropped_however_short():
    unseen, left_out = without_repeats(["to be", "to be or"], ["to be"])
    assert (list(unseen), left_out) == (["to be or"], 1)


def test_a_run_that_crosses_into_the_next_paragraphs_takes_the_one_in_which_it_begins():
    held = [" ".join(HELD)]
    assert len(HELD) >= RUN
    first, second, third = (" ".join(HELD[start : start + 5]) for start in (0, 5, 10))
    unseen, left_out = without_repeats([f"new {first}\n\n{second}\n\n{third}\n\nend"], held)
    assert list(unseen) == [f"{second}\n\n{third}\n\nend"]
    assert left_out == 1


def test_a_run_may_begin_with_the_last_word_of_a_paragraph():
    unseen, left_out = without_repeats([f"{HELD[0]}\n\n{' '.join(HELD[1:13])}"], [" ".join(HELD)])
    assert (list(unseen), left_out) == ([" ".join(HELD[1:13])], 1)


def test_the_bytes_that_are_left_are_counted_and_not_the_characters():
    unseen, _ = without_repeats([f"ünü\n\n{' '.join(HELD[:13])} π\n\nπ"], [" ".join(HELD)])
    assert list(unseen) == ["ünü\n\nπ"]
    assert unseen.num_bytes == len("ünü\n\nπ".encode())
