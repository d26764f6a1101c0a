"""The default text in its three parts."""

from __future__ import annotations

import hashlib
import re

import pytest

from minigrad.data import corpus, python_docs
from minigrad.data.python_docs import paragraphs
from minigrad.data.selection import RUN
from minigrad.data.split import num_bytes


@pytest.fixture(scope="module")
def sources():
    """The documents of the library and of each package."""
    found = [python_docs.library_documentation()]
    for package in python_docs.PACKAGES:
        found.append(python_docs.package_docstrings(package, [text for source in found for text in source]))
    return found


@pytest.fixture(scope="module")
def text():
    return python_docs.read()


@pytest.fixture(scope="module")
def parts():
    return corpus.load().split()


@pytest.fixture(scope="module")
def source():
    return set(corpus.load("python-source").documents)


def digest(documents):
    return hashlib.sha256("\0".join(documents).encode()).hexdigest()[:16]


# The documentation of a version of Python (its documents as a digest), and what of it is for validation.
VALIDATION = {"8764f0a5ec0f6310": "95c6f3e0eac4d859"}


def test_the_validation_documents_are_always_the_same(sources, parts):
    """Figures of today and of another year are of the same text: its choice depends on the library alone."""
    library = sources[0]
    hashes = [hashlib.blake2b(each.encode(), digest_size=8).hexdigest() for each in library]
    assert parts.validation == tuple(each for each, found in zip(library, hashes, strict=True) if found[0] == "0")
    assert VALIDATION.get(digest(library), digest(parts.validation)) == digest(parts.validation)
    assert 0.03 < num_bytes(parts.validation) / num_bytes(library) < 0.12


def test_the_test_text_is_as_long_as_validation_text_and_of_each_source_by_its_share(sources, text):
    assert set(text.test) <= {each for source in sources for each in source}
    assert not set(text.test) & set(text.validation)
    wanted, total = num_bytes(text.validation), sum(map(num_bytes, sources))
    assert 0.95 < num_bytes(text.test) / wanted < 1.15
    for source in sources:
        share = num_bytes(set(source) & set(text.test)) / num_bytes(text.test)
        assert share == pytest.approx(num_bytes(source) / total, abs=0.05)
    assert max(len(each.encode()) for each in text.test) <= python_docs.LARGEST_IN_TEST * wanted


def runs(document: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", document.lower())
    return {tuple(words[start : start + RUN]) for start in range(len(words) - RUN + 1)}


def test_no_document_and_no_run_of_words_that_is_held_out_is_trained_on(parts):
    """Not even a run of 13 words that crosses from a paragraph into the next one."""
    trained = list(parts.train)
    assert not set(trained) & set(parts.held_out)
    known = set().union(*map(runs, trained))
    for part in (parts.validation, parts.test):
        every = set().union(*map(runs, part))
        assert len(every) > 5_000
        assert not every & known
    assert not {each for part in trained for each in paragraphs(part) if len(each) > 80} & {
        each for part in parts.held_out for each in paragraphs(part)
    }


def test_all_else_is_trained_on_but_what_repeats_text_that_is_held_out(sources, text, parts):
    assert 0 < parts.left_out < 100
    assert 0.99 * num_bytes(text.train) < num_bytes(parts.train) < num_bytes(text.train)
    assert len(text.train) == len(text.documents) - len(parts.held_out)
    assert list(text.documents[: len(sources[0])]) == sources[0]
    assert 0.92 < num_bytes(parts.train) / num_bytes(text.documents) < 0.96


def test_python_source_has_no_module_that_the_default_text_holds_out(parts, source):
    """Its docstrings would be there, and its names: 14% of the runs of five words of the validation text, not 3%."""
    folder = python_docs.library_folder()
    headings = {text.partition("\n")[0] + "." for text in (*parts.validation, *parts.test)}
    left_out = 0
    for path in python_docs.python_files(folder):
        prefix = f"{python_docs.module_at(path)}."
        if any(heading.startswith(prefix) for heading in headings):
            left_out += 1
            text = python_docs.read_source(folder / path)
            assert text not in source or len(text) < 50, path  # one line, which other packages have too
    assert left_out > 30
    assert len(source) > 500
