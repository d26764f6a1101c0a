from __future__ import annotations

import gzip
import json
import os
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.data import corpus, text_files
from minigrad.errors import InputError
from minigrad.system import hardware


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.py", "a", "a.unknown", "a.txt.gz", "A.TXT.GZ"])
def test_a_text_file_is_a_document(tmp_path, name):
    data = "\ufeffGrüße\r\n\r\nund π\r".encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    loaded = corpus.load(str(tmp_path / name))
    assert loaded.documents == ("Grüße\n\nund π\n",)


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_json_lines_are_documents(tmp_path, name):
    texts = ["one\r\nline", "two\u2028lines\r", "  ", "drei ü"]
    data = "\n\n".join(json.dumps({"id": 1, "text": text}, ensure_ascii=False) for text in texts).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert corpus.load(str(tmp_path / name)).documents == ("one\nline", "two\u2028lines\n", "drei ü")


@pytest.mark.parametrize("portion", [1, 3, 7, 1_000])
def test_lines_that_lie_in_several_portions_are_joined(portion, tmp_path, monkeypatch):
    texts = ["one", "a much longer line", "x"]
    (tmp_path / "a.jsonl").write_text("\n\n".join(json.dumps({"text": text}) for text in texts), encoding="utf-8")
    monkeypatch.setattr(text_files, "_PORTION", portion)
    assert corpus.load(str(tmp_path / "a.jsonl")).documents == tuple(texts)


def test_a_folder_is_read_in_order_and_in_depth(tmp_path):
    files = {
        "b.txt": "b",
        "a/z.md": "az",
        "a/b/c.py": "abc",
        "a.jsonl": '{"text": "aj"}',
        "empty.txt": " \n",
        "photo.jpg": "\0",
        ".git/config.txt": "hidden",
        "a/.secret.txt": "hidden",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"gz"))
    (tmp_path / "folder.txt").mkdir()
    assert corpus.load(str(tmp_path)).documents == ("abc", "az", "aj", "b", "gz")


def test_the_files_of_a_folder_that_are_not_read_are_named(tmp_path):
    for name in ("a.txt", "b.pdf", "c/d.js", "c/.e.docx", "__pycache__/f.pyc", ".git/g"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("a", encoding="utf-8")
    told = list[str]()
    corpus.load(str(tmp_path), progress=told.append)
    assert told == [f"2 files of {tmp_path} are not read: b.pdf, {Path('c/d.js')}"]
    for number in range(5):
        (tmp_path / f"{number}.docx").touch()
    corpus.load(str(tmp_path), progress=told.append)
    assert told[1].endswith("are not read: 0.docx, 1.docx, 2.docx, 3.docx, 4.docx and 2 more")
    told.clear()
    corpus.load(str(tmp_path / "a.txt"), progress=told.append)
    assert not told


def test_links_to_folders_are_not_followed_and_are_named(tmp_path):
    (tmp_path / "texts" / "a").mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    for name in ("texts/a/a.txt", "texts/b.pdf", "elsewhere/c.txt"):
        (tmp_path / name).write_text(name, encoding="utf-8")
    try:
        (tmp_path / "texts" / "a" / "more.txt").symlink_to(tmp_path / "elsewhere", target_is_directory=True)
        (tmp_path / "texts" / "c.txt").symlink_to(tmp_path / "elsewhere" / "c.txt")
    except OSError:
        pytest.skip("no links here")
    told = list[str]()
    assert corpus.load(str(tmp_path / "texts"), progress=told.append).documents == ("texts/a/a.txt", "elsewhere/c.txt")
    link = Path("a/more.txt")
    assert told == [f"1 file and 1 linked folder of {tmp_path / 'texts'} are not read: b.pdf, {link}"]
    (tmp_path / "texts" / "b.pdf").unlink()
    assert text_files.TextFiles(tmp_path / "texts").left_out().startswith("1 linked folder of ")
    (tmp_path / "texts" / "d.txt").symlink_to("nowhere")
    assert text_files.TextFiles(tmp_path / "texts").left_out().startswith("1 file and 1 linked folder of ")
    assert text_files.TextFiles(tmp_path / "texts").left_out().endswith(f" are not read: d.txt, {link}")


BAD_FILES = {
    "empty.txt": (b"", "holds no text"),
    "blank.txt": (b" \n\n", "holds no text"),
    "empty.jsonl": (b"\n", "holds no text"),
    "binary.txt": (b"ab\0cd", "byte 2 is NUL"),
    "utf16.txt": ("ab".encode("utf-16-le"), "byte 1 is NUL"),
    "latin.txt": ("caf\u00e9 au lait".encode("latin-1"), "byte 3 is 0xe9"),
    "cut.txt": ("π".encode()[:1], "byte 0 is 0xcf .unexpected end of data"),
    "not.gz": (b"plain", "cannot be unpacked"),
    "cut.gz": (gzip.compress(b"text")[:-5], "cannot be unpacked"),
    "wrong.gz": (gzip.compress(b"text")[:10] + b"\xff\xff\xff", "cannot be unpacked"),
    "json.jsonl": (b'{"text": "a"}\n{"text": \n', "line 2 is not JSON"),
    "other.jsonl": (b'\n{"content": "a"}', "line 2 has no text"),
    "list.jsonl": (b'["text"]', "line 1 has no text"),
    "number.jsonl": (b'{"text": 5}', r"line 1 has no text .it is 5."),
    "deep.jsonl": (b'{"text": "a"}\n' + b'{"text":' * 100_000, "line 2 is not JSON: it is nested deeper"),
    "half.jsonl": (b'{"text": "\\ud800"}', "line 1 holds a lone surrogate"),
    "nul.jsonl": (b'{"text": "a"}\n{"text": "a\\u0000b"}', "line 2 is not text: it holds NUL"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_the_error_of_a_bad_file_names_the_place(tmp_path, name):
    data, message = BAD_FILES[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}.*{message}"):
        corpus.load(str(tmp_path / name))


def test_the_error_of_a_folder_without_text_lists_the_file_types(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"holds no text: expected files that end in \.txt, \.md"):
        corpus.load(str(tmp_path))


def test_a_file_that_cannot_be_read_is_refused(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "a.txt").write_text("text", encoding="utf-8")
    monkeypatch.setattr(text_files, "open_text", refuse)
    with pytest.raises(InputError, match=r"cannot read .*a\.txt: Permission denied\."):
        corpus.load(str(tmp_path / "a.txt"))


def test_a_folder_that_cannot_be_read_is_refused_unless_it_is_hidden(tmp_path, monkeypatch):
    for name in ("a.txt", "open/b.txt", ".hidden/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("text", encoding="utf-8")
    closed, scan = {".hidden"}, os.scandir

    def refuse(path):
        if Path(path).name in closed:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert len(corpus.load(str(tmp_path)).documents) == 2
    closed.add("open")
    with pytest.raises(InputError, match=r"cannot read .*open: Permission denied\."):
        corpus.load(str(tmp_path))


PARTS = st.lists(st.sampled_from(["a line\n", "\n", "x" * 50, "ü" * 9 + "\n\n"]), max_size=120)


@pytest.fixture
def _short(monkeypatch):
    """Cut texts of few characters, in small chunks: 2 million characters would take long."""
    monkeypatch.setattr(text_files, "LARGEST_DOCUMENT", 500)
    monkeypatch.setattr(text_files, "CHUNK", 64)


@pytest.mark.usefixtures("_short")
@given(PARTS)
def test_the_chunks_add_up_to_the_text(parts):
    text = "".join(parts)
    chunks = list(text_files.chunks([text]))
    assert "".join(chunks) == text
    if len(text) > text_files.LARGEST_DOCUMENT:
        assert len(chunks) > 4
        assert all(text_files.CHUNK / 2 < len(chunk) <= text_files.CHUNK * 1.5 for chunk in chunks)
    else:
        assert chunks == [text] * bool(text)


@pytest.mark.usefixtures("_short")
@given(PARTS)
def test_the_chunks_do_not_depend_on_the_pieces_in_which_a_text_comes(parts):
    assert list(text_files.chunks(parts)) == list(text_files.chunks(["".join(parts)]))


@pytest.mark.usefixtures("_short")
@given(PARTS, st.integers(0, 120))
def test_a_long_text_is_cut(parts, place):
    parts.insert(place, "a line\n" * 100)
    chunks = list(text_files.chunks(parts))
    assert "".join(chunks) == "".join(parts)
    assert len(chunks) > 6


def test_long_texts_are_cut_at_blank_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "LARGEST_DOCUMENT", 65_536)
    (tmp_path / "book.txt").write_text(("one line\n" * 5 + "\n") * 3_000, encoding="utf-8")
    loaded = corpus.load(str(tmp_path / "book.txt"))
    assert len(loaded.documents) > 5
    assert all(text.endswith("line\n\n") for text in loaded.documents)


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device")
def test_a_device_that_never_ends_is_refused_at_once():
    with pytest.raises(InputError, match="/dev/zero is not UTF-8 text: byte 0 is NUL"):
        corpus.load("/dev/zero")


def test_whoever_waits_for_a_long_text_is_told_how_much_was_read(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_TOLD", 25)
    (tmp_path / "a.jsonl").write_text('{"text": "0123456789"}\n' * 7, encoding="utf-8")
    told = []
    corpus.load(str(tmp_path), progress=told.append)
    assert told == [f"30 characters of {tmp_path} read", f"60 characters of {tmp_path} read"]


def test_nul_is_found_at_its_place_in_a_later_portion(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_PORTION", 4)
    (tmp_path / "a.txt").write_bytes(b"0123456789\0")
    with pytest.raises(InputError, match="byte 10 is NUL"):
        corpus.load(str(tmp_path / "a.txt"))


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_a_whole_text_that_does_not_fit_into_memory_is_refused_before_it_is_read(tmp_path, monkeypatch, name):
    """A packed file of 1 kB may hold a gigabyte."""
    data = b"to be " * 1_000
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    monkeypatch.setattr(text_files, "_PORTION", 100)
    monkeypatch.setattr(hardware, "available_memory_bytes", lambda: 4_000)
    with pytest.raises(InputError, match=r"has more than 1\.0 kB, for which the free memory is too small"):
        corpus.load_for_evaluation(str(tmp_path / name))


def test_a_text_that_does_not_fit_into_memory_is_read_from_its_files_each_time(tmp_path, monkeypatch):
    documents = [f"document {number}\r\n" for number in range(400)]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in documents)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    (tmp_path / "b.txt").write_text("\n\nsome lines\n" * 9_000, encoding="utf-8")
    small = corpus.load(str(tmp_path))
    monkeypatch.setattr(text_files, "_PORTION", 100)
    monkeypatch.setattr(text_files, "_KEPT", 1_000)
    monkeypatch.setattr(hardware, "available_memory_bytes", lambda: 4_000)
    large = corpus.load(str(tmp_path))
    assert isinstance(small.documents, tuple)
    assert isinstance(large.documents, text_files.TextFiles)
    for _ in range(2):
        assert tuple(large.split().train) == small.split().train
        assert large.split().held_out == small.split().held_out
    assert (large.num_documents, large.bytes_to_train) == (small.num_documents, small.bytes_to_train)
    assert len(tuple(large.split().train)) == len(tuple(small.split().train))
    (tmp_path / "c.jsonl").write_text(json.dumps({"text": "x" * 2_000}), encoding="utf-8")
    with pytest.raises(InputError, match=r"c\.jsonl has more than 1\.0 kB"):  # one line of it
        list(large.documents)


def test_text_may_come_from_a_pipe(tmp_path):
    """As in `--data <(zcat book.txt.gz)`."""
    if not hasattr(os, "mkfifo"):
        pytest.skip("no pipes with names")
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"to be"))
    writer.start()
    assert corpus.load(str(tmp_path / "pipe")).documents == ("to be",)
    writer.join()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_pipe_that_nobody_fills_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_PATIENCE", 0)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match=r"cannot read .*pipe: it is a pipe, and no program wrote into it for 0 sec"):
        corpus.load(str(tmp_path / "pipe"))
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "folder" / "a.txt")
    (tmp_path / "folder" / "b.txt").symlink_to(tmp_path / "pipe")
    (tmp_path / "folder" / "c.txt").write_text("to be", encoding="utf-8")
    assert corpus.load(str(tmp_path / "folder")).documents == ("to be",)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz"])
def test_white_space_without_end_is_no_text_and_takes_no_memory(tmp_path, monkeypatch, name):
    monkeypatch.setattr(text_files, "_KEPT", 1_000)
    monkeypatch.setattr(text_files, "_PORTION", 100)
    blank = b" \n" * 5_000
    (tmp_path / name).write_bytes(gzip.compress(blank) if name.endswith("gz") else blank)
    with pytest.raises(InputError, match=rf"{name} begins with more than 1,000 characters of white space, so it is"):
        corpus.load(str(tmp_path / name))
    (tmp_path / name).write_bytes(b" " * 900 + b"to be" if name == "a.txt" else gzip.compress(b" " * 900 + b"to be"))
    assert corpus.load(str(tmp_path / name)).documents == (" " * 900 + "to be",)


def test_a_folder_below_a_hidden_one_is_read(tmp_path):
    (tmp_path / ".texts" / "mine").mkdir(parents=True)
    (tmp_path / ".texts" / "mine" / "a.txt").write_text("to be", encoding="utf-8")
    assert corpus.load(str(tmp_path / ".texts" / "mine")).documents == ("to be",)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names")
def test_a_long_text_from_a_pipe_is_kept_because_it_can_be_read_only_once(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_KEPT", 2)
    os.mkfifo(tmp_path / "pipe")
    writer = threading.Thread(target=lambda: (tmp_path / "pipe").write_bytes(b"to be or not"))
    writer.start()
    assert corpus.load(str(tmp_path / "pipe")).documents == ("to be or not",)
    writer.join()


def test_a_run_in_the_folder_of_its_text_does_not_change_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a text", encoding="utf-8")
    run = tmp_path / "runs" / "one"
    run.mkdir(parents=True)
    (run / "minigrad.json").write_text("{}", encoding="utf-8")
    (run / "metrics.jsonl").write_text('{"step": 1}\n', encoding="utf-8")
    assert [*text_files.TextFiles(tmp_path)] == ["a text"]
    left_out = text_files.TextFiles(tmp_path).left_out()
    assert left_out == f"1 run folder of {tmp_path} is not read: {Path('runs/one')}"
