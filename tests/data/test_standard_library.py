from __future__ import annotations

import ast
import hashlib
from collections import Counter

import pytest

from minigrad.data import corpus, standard_library
from minigrad.data.overlap import without_repeats
from minigrad.errors import RunError


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
    rest = tuple(text for text in docs.documents if text not in set(held_out))
    assert (train, docs.left_out) == without_repeats(rest, held_out)
    assert 0.99 * corpus.num_bytes(rest) < corpus.num_bytes(train) < corpus.num_bytes(rest)
    assert 0.03 < corpus.num_bytes(held_out) / docs.num_bytes < 0.12
    known = {p for text in train for p in standard_library.paragraphs(text)}
    new = [p for text in held_out for p in standard_library.paragraphs(text) if len(p) > 80]
    assert len(new) > 100
    assert known.isdisjoint(new)


def digest(documents):
    return hashlib.sha256("\0".join(documents).encode()).hexdigest()[:16]


# The documentation of a version of Python (its documents as a digest), and what is held out of it.
HELD_OUT = {"8764f0a5ec0f6310": "95c6f3e0eac4d859"}


def test_the_held_out_documents_are_always_the_same(docs):
    """Figures of today and of another year are of the same text: its choice may depend on nothing but the documents."""
    _, held_out = docs.split()
    hashes = [hashlib.blake2b(text.encode(), digest_size=8).hexdigest() for text in docs.documents]
    assert held_out == tuple(text for text, found in zip(docs.documents, hashes, strict=True) if found[0] == "0")
    assert HELD_OUT.get(digest(docs.documents), digest(held_out)) == digest(held_out)


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


def test_a_python_without_source_is_an_error(tmp_path, monkeypatch):
    library(tmp_path, monkeypatch)
    for name in ("python-docs", "python-source"):
        with pytest.raises(RunError, match=f"no Python source in .*no {name}. Give --data PATH"):
            corpus.load(name)
