from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from tokenizer import naive

few_bytes = st.text("ab", max_size=20).map(str.encode)


def test_the_example_of_the_paper():
    # The words of algorithm 1, with a dot for the end of a word. The paper leaves ties open.
    words = {b"low.": 5, b"lower.": 2, b"newest.": 6, b"widest.": 3}
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in naive.learn_merges(words, 5):
        tokens.append(tokens[left] + tokens[right])
    assert tokens[256:] == [b"es", b"t.", b"est.", b"lo", b"low"]


@given(st.lists(st.integers(0, 2)), st.tuples(st.integers(0, 2), st.integers(0, 2)))
def test_a_merge_leaves_no_such_pair(ids, pair):
    merged = naive.merge(ids, pair, 9)
    spelled = [number for token in merged for number in (pair if token == 9 else [token])]
    assert spelled == ids
    assert pair not in pairwise(merged)


@given(few_bytes, st.lists(few_bytes, max_size=5))
def test_the_tokens_of_a_word_spell_it(word, words):
    merges = naive.learn_from_all(words, 20, 1)
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in merges:
        tokens.append(tokens[left] + tokens[right])
    assert b"".join(tokens[number] for number in naive.encode_word(word, merges)) == word


def test_learning_stops_at_min_frequency():
    assert naive.learn_from_all([b"ab", b"ab", b"cd"], 9) == [(97, 98)]
    assert naive.learn_merges({b"ab": 2, b"cd": 1}, 9, min_frequency=3) == []
