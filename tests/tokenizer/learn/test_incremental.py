from hypothesis import given
from hypothesis import strategies as st

from tokenizer import naive
from tokenizer.learn import incremental

words = st.dictionaries(st.text("abc", max_size=20).map(str.encode), st.integers(1, 5), max_size=8)


@given(words, st.integers(0, 30), st.integers(1, 4))
def test_the_merges_are_those_of_the_naive_code(words, num_merges, min_frequency):
    expected = naive.learn_merges(words, num_merges, min_frequency)
    assert incremental.learn_merges(words, num_merges, min_frequency) == expected


def test_a_count_that_has_decreased_is_corrected():
    # The heap has (b, c) with its first count, 5; the merge of (a, b) leaves none, so (x, y) comes before it.
    words = {b"ab": 2, b"abc": 5, b"xy": 3}
    assert incremental.learn_merges(words, 9) == [(ord("a"), ord("b")), (256, ord("c")), (ord("x"), ord("y"))]
