import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer import TokenizerError
from tokenizer.text import chunks
from tokenizer.text.chunks import in_order, num_threads, read_files
from tokenizer.text.scanner import RULES, Scanner

some_text = (
    st.text()
    | st.text("a 1\n!'sl日\u00a0\u2028,")
    | st.lists(st.sampled_from(["it's ", "a  b\n\n", "12 ", "，"])).map("".join)
)


@pytest.mark.parametrize("split", [name for name in RULES if name != "none"])
@given(text=some_text, size=st.integers(1, 8))
def test_cutting_a_text_at_a_border_changes_no_word(split, text, size):
    scanner = Scanner(split)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "LOT", size)
        pieces = [piece for lot in chunks.lots([text], may_cut=True) for piece in lot.pieces]
    assert "".join(pieces) == text
    assert [word for piece in pieces for word in scanner.words(piece)] == scanner.words(text)


def test_long_texts_are_cut_and_short_ones_share_a_lot(monkeypatch):
    monkeypatch.setattr(chunks, "LOT", 8)
    found = list(chunks.lots(["to be or not", "a", "b", "", "none left"], may_cut=True))
    assert [lot.pieces for lot in found] == [["to be", " or not"], ["a", "b", "", "none", " left"]]
    assert [lot.owners for lot in found] == [[0, 0], [1, 2, 3, 4, 4]]
    assert [lot.pieces for lot in chunks.lots(["to be or not"], may_cut=False)] == [["to be or not"]]


@given(text=some_text)
def test_files_are_read_in_pieces(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("texts") / "text"
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "LOT", 5)
        pieces = list(read_files([path, str(path)]))
    assert "".join(pieces) == 2 * text
    words = [word for piece in pieces for word in Scanner("gpt4").words(piece)]
    assert words == 2 * Scanner("gpt4").words(text)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(TokenizerError, match=r"cannot read .*missing: No such file"):
        list(read_files([tmp_path / "missing"]))
    (tmp_path / "latin").write_bytes(b"caf\xe9 ")
    with pytest.raises(TokenizerError, match="latin is not UTF-8: invalid continuation byte; convert it"):
        list(read_files([tmp_path / "latin"]))


def test_threads():
    assert num_threads(3) == 3
    assert num_threads(None) >= 1
    with pytest.raises(TokenizerError, match="threads=0: expected 1 or more"):
        num_threads(0)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_results_come_in_order_and_only_a_few_items_are_taken_ahead(threads):
    taken = []

    def items():
        for i in range(20):
            taken.append(i)
            yield i

    for number, result in enumerate(in_order(lambda i: i * i, items(), threads)):
        assert result == number * number
        assert len(taken) <= number + threads + 1
