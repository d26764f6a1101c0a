from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tokenizer.words import words
from tokenizer import TokenizerError
from tokenizer.text.split import Scanner

some_text = (
    st.text()
    | st.lists(st.sampled_from(["'s", "日", "𝒳", "e\u0301", "12", "½", "\r\n", "  ", "...", "👩‍👩‍👧", "\x00"])).map(
        "".join
    )
    | st.text("'sl \nré1!\u00a0ſ")
)


@given(st.lists(some_text, max_size=5))
def test_no_word_goes_from_one_text_to_the_next(texts):
    for split in ("gpt2", "none", r"\w+"):
        layout = Scanner(split).lay_out(texts)
        ends = [0, *(layout.stops[last - 1] if last else 0 for last in layout.num_stops)]
        data = layout.text.tobytes()
        found = [data[start:end].decode() for start, end in pairwise(ends)]
        assert found == texts
        assert np.all(np.diff(layout.stops, prepend=0) >= 0)


def test_a_pattern_of_your_own():
    assert words(Scanner(r"\w+ ?"), "to be, or") == ["to ", "be", ", ", "or"]
    assert words(Scanner(r"(a)|(b)"), "xaab") == ["x", "a", "a", "b"]
    assert words(Scanner(r"x*"), "axxb") == ["a", "xx", "b"]
    with pytest.raises(TokenizerError, match=r"the split '\(a' is not a regular expression: missing \)"):
        Scanner("(a")


def test_a_lone_surrogate_is_refused():
    for split in ("gpt2", r"\w+"):
        with pytest.raises(TokenizerError, match="lone surrogate"):
            Scanner(split).lay_out(["a", "b \udc00"])
