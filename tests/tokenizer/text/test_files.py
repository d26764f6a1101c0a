import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer import TokenizerError
from tokenizer.text import chunks
from tokenizer.text.files import read_files
from tokenizer.text.scanner import Scanner

some_text = st.text() | st.text("a 1\n!'sl日\u00a0\u2028,")


@given(text=some_text)
def test_files_are_read_in_parts(tmp_path_factory, text):
    path = tmp_path_factory.mktemp("texts") / "text"
    path.write_bytes(text.encode())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "CHUNK_SIZE", 5)
        parts = list(read_files([path, str(path)]))
    assert "".join(parts) == 2 * text
    words = [word for part in parts for word in Scanner("gpt4").words(part)]
    assert words == 2 * Scanner("gpt4").words(text)


def test_files_that_cannot_be_read_are_named(tmp_path):
    with pytest.raises(TokenizerError, match=r"cannot read .*missing: No such file"):
        list(read_files([tmp_path / "missing"]))
    (tmp_path / "latin").write_bytes(b"caf\xe9 ")
    with pytest.raises(TokenizerError, match="latin is not UTF-8: invalid continuation byte; convert it"):
        list(read_files([tmp_path / "latin"]))
