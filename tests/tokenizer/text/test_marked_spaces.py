from hypothesis import given
from hypothesis import strategies as st

from tokenizer.text.marked_spaces import MARK, mark_spaces, unmark_spaces


@given(st.text())
def test_only_the_mark_itself_is_lost(text):
    marked = mark_spaces(text)
    assert " " not in marked
    assert unmark_spaces(marked) == (" " + text.replace(MARK, " ") if text else "")
