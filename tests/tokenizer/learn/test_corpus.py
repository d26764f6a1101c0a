import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.learn.corpus import BORDER, lay_out
from tokenizer.learn.word_counts import WordCounts


@given(st.dictionaries(st.binary(max_size=6), st.integers(1, 9)))
def test_the_words_stand_between_borders(words):
    corpus = lay_out(WordCounts.of(words))
    useful = [word for word in words if len(word) >= 2]
    expected = [BORDER]
    for word in useful:
        expected += [*word, BORDER]
    assert corpus.tokens.tolist() == expected
    assert corpus.tokens.dtype == corpus.words.dtype == np.int32
    for position, token in enumerate(corpus.tokens):
        if token >= 0:
            word = useful[corpus.words[position]]
            assert int(token) in word
            assert corpus.counts[corpus.words[position]] == words[word]
