import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.learn.word_counts import WordCounts


@given(st.dictionaries(st.binary(max_size=5), st.integers(1, 2**62)))
def test_a_mapping_in_arrays_and_back(words):
    arrays = WordCounts.of(words)
    assert dict(arrays.items()) == words
    assert arrays.counts.dtype == np.int64
