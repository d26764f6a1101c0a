import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenizer import naive
from tokenizer.encode.merging import RESULT, Workspace, merge_table, merge_word
from tokenizer.structures.hash_table import number_slot

words = st.text("abc", min_size=1, max_size=40).map(str.encode)


def merged(word, pairs):
    table = merge_table((left, right, 256 + rank) for rank, (left, right) in enumerate(pairs))
    work = Workspace.of(len(word))
    work.tokens[:] = list(word)
    return work.tokens[: merge_word(work, len(word), table)].tolist()


@given(words, st.lists(words, max_size=6), st.integers(0, 40))
def test_the_merges_of_a_word_are_those_of_the_naive_code(word, corpus, num_merges):
    pairs = naive.learn_from_all(corpus, num_merges, 1)
    assert merged(word, pairs) == naive.encode_word(word, pairs)


def test_a_merge_takes_the_tokens_of_a_pair_in_the_heap():
    # (b, c) is learned first and leaves nothing for (a, b), which was in the heap before.
    pairs = [(ord("b"), ord("c")), (ord("a"), ord("b"))]
    assert merged(b"abc", pairs) == [ord("a"), 256]
    assert merged(b"abab", pairs) == [257, 257]


def test_the_row_of_a_merge_is_its_rank():
    table = merge_table([(5, 7, 300), (256, 7, 301)])
    assert table.slots[number_slot(table, 256 << 32 | 7)] == 1
    assert table.rows[1, RESULT] == 301
    assert table.slots[number_slot(table, 7 << 32 | 5)] == -1
    empty = merge_table([])
    assert empty.slots[number_slot(empty, 5 << 32 | 7)] == -1


def test_a_workspace_may_be_larger_than_the_word():
    table = merge_table([(97, 97, 256)])
    work = Workspace.of(10)
    for length, expected in ((5, [256, 256, 97]), (2, [256]), (1, [97]), (0, [])):
        work.tokens[:] = np.full(10, 97)
        assert work.tokens[: merge_word(work, length, table)].tolist() == expected
