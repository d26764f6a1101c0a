from __future__ import annotations

import ast
import gzip
import hashlib
import io
import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.data import corpus, standard_library, text_files
from minigrad.data.corpus import Corpus
from minigrad.errors import InputError, RunError
from minigrad.system import cache

ROOT = Path(__file__).parents[2]
TEXT = "The quick brown fox jumps over the lazy dog.\n" * 20


@pytest.fixture(autouse=True)
def _own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path_factory.mktemp("cache")))


@pytest.fixture
def web(monkeypatch):
    """A web of one's own: address -> bytes; and the list of addresses that were asked for."""
    pages, asked = {}, []

    def urlopen(address, timeout):
        asked.append(address)
        if address not in pages:
            raise OSError("Name or service not known")
        return io.BytesIO(pages[address])

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    return pages, asked


# The cache folder


def test_the_cache_folder_follows_the_environment(monkeypatch):
    monkeypatch.setenv("MINIGRAD_CACHE", "/chosen")
    assert cache.cache_folder() == Path("/chosen")
    monkeypatch.delenv("MINIGRAD_CACHE")
    monkeypatch.setenv("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME", "/system")
    assert cache.cache_folder() == Path("/system/minigrad")
    monkeypatch.delenv("LOCALAPPDATA" if os.name == "nt" else "XDG_CACHE_HOME")
    assert cache.cache_folder() == Path.home() / ".cache" / "minigrad"


def test_a_stored_file_is_whole_or_not_there(tmp_path):
    def fail(file):
        file.write(b"half")
        raise OSError("No space left on device")

    path = tmp_path / "new" / "file"
    assert not cache.store(path, fail)
    assert list(path.parent.iterdir()) == []
    assert cache.store(path, lambda file: file.write(b"whole"))
    assert not cache.store(path, fail)
    assert path.read_bytes() == b"whole"
    assert list(path.parent.iterdir()) == [path]


# Python's own text


@pytest.fixture(scope="module")
def docs(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINIGRAD_CACHE", str(tmp_path_factory.mktemp("docs")))
        yield corpus.load()


def test_python_docs_are_megabytes_of_text_without_repeats(docs):
    assert docs.name == "python-docs"
    assert "documentation and docstrings of Python 3." in docs.description
    assert 1_000_000 < docs.num_bytes < 5_000_000
    assert min(map(len, docs.documents)) >= 200
    paragraphs = Counter(
        " ".join(paragraph.split()) for text in docs.documents for paragraph in standard_library.paragraphs(text)
    )
    assert [paragraph for paragraph, count in paragraphs.items() if count > 1 and len(paragraph) > 80] == []


def test_python_docs_hold_the_reference_and_the_docstrings(docs):
    text = "\n\n".join(docs.documents)
    assert 'The "assert" statement' in text
    assert "\n\njson.dumps(obj, *, skipkeys=False," in text
    assert "Serialize ``obj`` to a JSON formatted ``str``." in text
    assert "\n\ntextwrap.TextWrapper\n\nObject for wrapping/filling text." in text
    assert "site-packages" not in {name for text in docs.documents for name in text.split("\n")[0].split(".")}


def test_python_docs_hold_out_a_share_that_training_does_not_contain(docs):
    train, held_out = docs.split()
    assert sorted(train + held_out) == sorted(docs.documents)
    assert 0.03 < corpus.num_bytes(held_out) / docs.num_bytes < 0.12
    known = {p for text in train for p in standard_library.paragraphs(text)}
    new = [p for text in held_out for p in standard_library.paragraphs(text) if len(p) > 80]
    assert len(new) > 100
    assert known.isdisjoint(new)


def library(folder, monkeypatch, **files):
    for name, text in files.items():
        path = folder / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".py").write_bytes(text.encode() if isinstance(text, str) else text)
    monkeypatch.setattr(standard_library, "library_folder", lambda: folder)


SENTENCE = "Paragraphs of documentation are long enough to be told apart. "


def test_docstrings_become_documents_and_repeats_are_dropped(tmp_path, monkeypatch):
    method = f"    def run(self, now=1):\n        '''{SENTENCE * 2}\n\n        Example:\n        '''\n"
    library(
        tmp_path,
        monkeypatch,
        pydoc_data__topics=f"topics = {{'b': 'Title\\n\\n{SENTENCE * 4}', 'a': 'A\\n\\n{SENTENCE * 5}'}}",
        alpha=f"'''Alpha.\n\n{SENTENCE * 3}'''\nif True:\n  class A:\n    'Example:'\n{method}\n",
        beta=f"'''Beta {SENTENCE * 5}'''\n\nclass B:\n{method}\nclass C:\n    '{SENTENCE * 2}'\n",
        gamma="'''Too short to be a document.'''",
        test__unit=f"'''Test {SENTENCE * 5}'''",
        broken=b"\xff",
    )
    assert standard_library.documentation() == [
        f"A\n\n{SENTENCE * 5}".rstrip(),
        f"Title\n\n{SENTENCE * 4}".rstrip(),
        f"alpha\n\nAlpha.\n\n{SENTENCE * 3}".rstrip()
        + f"\n\nalpha.A\n\nExample:\n\nalpha.A.run(self, now=1)\n\n{SENTENCE * 2}".rstrip()
        + "\n\nExample:",
        f"beta\n\nBeta {SENTENCE * 5}".rstrip() + "\n\nbeta.B.run(self, now=1)\n\nExample:",
    ]


def test_python_docs_come_from_the_cache_the_second_time(tmp_path, monkeypatch):
    library(tmp_path / "one", monkeypatch, alpha=f"'''{SENTENCE * 5}'''")
    first = standard_library.documentation()
    monkeypatch.setattr(ast, "parse", None)
    assert standard_library.documentation() == first
    monkeypatch.undo()
    library(tmp_path / "other", monkeypatch, beta=f"'''{SENTENCE * 6}'''")
    assert standard_library.documentation() != first


def test_python_source_is_every_file_once(tmp_path, monkeypatch):
    files = {
        "alpha": "a = 1\n",
        "test__copy": "a = 1\n",
        "test__unit": "b = π\r\n",
        "empty": "",
        "bad": b"\xff",
    }
    library(tmp_path, monkeypatch, **files, encodings__table="c = 3", **{"site-packages__d": "d = 4"})
    assert corpus.load("python-source").documents == ("a = 1\n", "b = π\n")


def test_a_python_without_source_says_so(tmp_path, monkeypatch):
    library(tmp_path, monkeypatch)
    for name in ("python-docs", "python-source"):
        with pytest.raises(RunError, match=f"no Python source in .*no {name}. Give --data PATH"):
            corpus.load(name)


# Files and folders


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.py", "a", "a.unknown", "a.txt.gz", "A.TXT.GZ"])
def test_a_text_file_is_a_document(tmp_path, name):
    data = "\ufeffGrüße\r\n\r\nund π\r".encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.lower().endswith(".gz") else data)
    loaded = corpus.load(str(tmp_path / name))
    assert loaded.documents == ("Grüße\n\nund π\n",)
    assert loaded.num_bytes == len("Grüße\n\nund π\n".encode())


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz"])
def test_json_lines_are_documents(tmp_path, name):
    texts = ["one\nline", "two\u2028lines", "  ", "drei ü"]
    data = "\n\n".join(json.dumps({"id": 1, "text": text}, ensure_ascii=False) for text in texts).encode()
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    assert corpus.load(str(tmp_path / name)).documents == ("one\nline", "two\u2028lines", "drei ü")


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
        (tmp_path / name).write_text(text)
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"gz"))
    (tmp_path / "folder.txt").mkdir()
    assert corpus.load(str(tmp_path)).documents == ("abc", "az", "aj", "b", "gz")


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
    "number.jsonl": (b'{"text": 5}', "line 1 has no text"),
    "half.jsonl": (b'{"text": "\\ud800"}', "line 1 holds a lone surrogate"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_bad_files_say_what_is_wrong_and_where(tmp_path, name):
    data, message = BAD_FILES[name]
    (tmp_path / name).write_bytes(data)
    with pytest.raises(InputError, match=rf"{name}.*{message}"):
        corpus.load(str(tmp_path / name))


def test_a_folder_without_text_says_what_it_looked_for(tmp_path):
    (tmp_path / "photo.jpg").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"holds no text: expected files that end in \.txt, \.md"):
        corpus.load(str(tmp_path))


def test_an_unreadable_file_says_so(tmp_path, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    (tmp_path / "a.txt").write_text("text")
    monkeypatch.setattr(Path, "read_bytes", refuse)
    with pytest.raises(InputError, match=r"cannot read .*a\.txt: Permission denied\."):
        corpus.load(str(tmp_path / "a.txt"))


def test_a_missing_name_offers_the_nearest(tmp_path, monkeypatch):
    (tmp_path / "novels.txt").write_text("text")
    monkeypatch.chdir(tmp_path)
    for wrong, near in {
        "novel.txt": "novels.txt",
        "python-doc": "python-docs",
        "Shakespeare": "shakespeare",
        str(tmp_path / "novls.txt"): str(tmp_path / "novels.txt"),
    }.items():
        with pytest.raises(InputError) as caught:
            corpus.load(wrong)
        assert f"Did you mean {near}" in str(caught.value)
    for wrong in ("", "zzz", "no/such/folder", "a whole text " * 500, "nul\0"):
        with pytest.raises(InputError, match=r"no data called .* Expected python-docs, python-source"):
            corpus.load(wrong)


@given(st.lists(st.sampled_from(["a line\n", "\n", "x" * 5_000, "ü" * 900 + "\n\n"]), max_size=120))
def test_chunks_joined_are_the_text(parts):
    text = "".join(parts)
    chunks = text_files.chunks(text)
    assert "".join(chunks) == text
    if len(text) > text_files.LARGEST_DOCUMENT:
        assert all(text_files.CHUNK / 2 < len(chunk) <= text_files.CHUNK * 1.5 for chunk in chunks)
    else:
        assert chunks == [text]


def test_long_texts_are_cut_at_blank_lines(tmp_path):
    (tmp_path / "book.txt").write_text(("one line\n" * 5 + "\n") * 3_000)
    loaded = corpus.load(str(tmp_path / "book.txt"))
    assert len(loaded.documents) > 5
    assert all(text.endswith("line\n\n") for text in loaded.documents)


# The web


def test_an_address_is_downloaded_once(web):
    pages, asked = web
    address = "https://example.org/texts/some.jsonl.gz?raw=1"
    pages[address] = gzip.compress(b'{"text": "a page"}')
    said = []
    assert corpus.load(address, progress=said.append).documents == ("a page",)
    assert corpus.load(address).documents == ("a page",)
    assert asked == [address]
    assert said == [f"downloading {address}"]


@pytest.mark.parametrize("name", ["shakespeare", "http://example.org/a.txt"])
@pytest.mark.usefixtures("web")
def test_offline_says_the_address_and_the_way_out(name):
    with pytest.raises(RunError, match=r"cannot download https?://.*txt .*not known.*--data PATH"):
        corpus.load(name)


def test_shakespeare_must_have_the_right_checksum(web, monkeypatch):
    pages, asked = web
    play = ("First Citizen:\nBefore we proceed any further, hear me speak.\n\n" * 2_000).encode()
    monkeypatch.setattr(corpus, "SHAKESPEARE_SHA256", hashlib.sha256(play).hexdigest())
    pages[corpus.SHAKESPEARE] = play[:-1]
    with pytest.raises(RunError, match=r"SHA-256 is [0-9a-f]{64}, not [0-9a-f]{64}.*--data PATH"):
        corpus.load("shakespeare")
    pages[corpus.SHAKESPEARE] = play
    loaded = corpus.load("shakespeare")
    assert "".join(loaded.documents) == play.decode()
    train, held_out = loaded.split()
    assert train
    assert held_out
    assert len(asked) == 2
    for kept in (cache.cache_folder() / "downloads").iterdir():
        kept.write_bytes(b"rotten")
    assert corpus.load("shakespeare") == loaded
    assert len(asked) == 3


def test_a_download_needs_no_disk(web, tmp_path, monkeypatch):
    (tmp_path / "taken").write_text("a file where the folder should be")
    monkeypatch.setenv("MINIGRAD_CACHE", str(tmp_path / "taken"))
    web[0]["http://example.org/a.txt"] = b"a page"
    assert corpus.load("http://example.org/a.txt").documents == ("a page",)


# Holding out


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), min_size=2, max_size=60))
def test_every_document_is_on_one_side(documents):
    if len(set(documents)) < 2:
        return
    train, held_out = Corpus("name", "", tuple(documents)).split()
    assert train
    assert held_out
    assert set(train).isdisjoint(held_out)
    assert Counter(train + held_out) == Counter(documents)


def test_more_documents_move_none_of_the_others():
    texts = [f"document {number}" for number in range(1_000)]
    _, few = Corpus("", "", tuple(texts[:500])).split()
    _, more = Corpus("", "", tuple(reversed(texts))).split()
    assert set(few) == set(more) & set(texts[:500])
    assert 40 < len(more) < 85


def test_a_corpus_of_chosen_documents_only_still_trains():
    texts = Corpus("", "", tuple(f"document {number}" for number in range(100))).split()[1]
    train, held_out = Corpus("", "", texts).split()
    assert len(train) == 1
    assert len(held_out) == len(texts) - 1


def test_a_single_document_gives_its_last_tenth():
    for documents in ((TEXT,), (TEXT, TEXT)):
        (train,), (held_out,) = Corpus("", "", documents).split()
        assert train + held_out == TEXT
        assert train.endswith("dog.\n")
        assert 0.05 < len(held_out) / len(TEXT) < 0.25
    (train,), (held_out,) = Corpus("", "", ("x" * 100,)).split()
    assert (len(train), len(held_out)) == (90, 10)
    with pytest.raises(InputError, match="1 characters of text are too few"):
        Corpus("", "", ("x",)).split()


def test_importing_the_corpus_is_light():
    code = "import sys, minigrad.data.corpus; print({'numpy', 'ssl', 'urllib.request', 'lzma'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
