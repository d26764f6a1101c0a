"""The default text: the documentation and the comments of Python, NumPy and Numba, in its three parts.

Validation text is of Python's own documentation alone, chosen by the hash of each document: which text figures are of
changes neither with the versions of the packages nor, but for documents that are new, with that of Python. The test
text is as long, and of all three by their shares, as is the text that is trained on.
"""

from __future__ import annotations

import platform
from collections.abc import Collection
from dataclasses import dataclass

from minigrad.data import comments, installed_packages, standard_library
from minigrad.data.split import SHARE, first_by_hash, hash_of, num_bytes

LARGEST_IN_TEST = 1 / 8  # of the test text: no document decides alone


@dataclass(frozen=True)
class PythonDocs:
    """The default text: all documents, without the comments of modules that are held out, and which are held out."""

    description: str
    documents: tuple[str, ...]
    validation: tuple[str, ...]
    test: tuple[str, ...]

    @property
    def train(self) -> tuple[str, ...]:
        """The documents that are not held out."""
        held_out = {*self.validation, *self.test}
        return tuple(text for text in self.documents if text not in held_out)


def read() -> PythonDocs:
    """Return the default text; nothing of it where this Python has no source of its standard library.

    All paragraphs are different ones, but those below 40 characters. The first call parses for some seconds; the
    documents are kept in the cache folder.
    """
    library = standard_library.documentation()
    name = f"documentation and docstrings of Python {platform.python_version()}"
    if not library:
        return PythonDocs(name, (), (), ())
    sources, before = {name: library}, library
    for package in installed_packages.PACKAGES:
        found = installed_packages.documentation(package, before)
        sources[f"docstrings of {package} {installed_packages.version(package)}"] = found
        before = [*before, *found]
    validation = tuple(text for text in library if hash_of(text) < SHARE)
    test = _test(sources.values(), validation)
    sources["comments in the source of all three"] = comments.documentation(before, (*validation, *test))
    total = sum(map(num_bytes, sources.values()))
    description = ", ".join(f"{name} ({num_bytes(texts) / total:.0%})" for name, texts in sources.items())
    documents = tuple(text for texts in sources.values() for text in texts)
    return PythonDocs(description, documents, validation, test)


def _test(sources: Collection[list[str]], validation: tuple[str, ...]) -> tuple[str, ...]:
    """Return test text of about as many bytes as validation text, each source with its share of them."""
    wanted, total = num_bytes(validation), sum(map(num_bytes, sources))
    known, chosen = set(validation), set[str]()
    for documents in sources:
        left = [text for text in documents if text not in known and len(text.encode()) <= LARGEST_IN_TEST * wanted]
        chosen.update(first_by_hash(left, wanted * num_bytes(documents) / total))
    return tuple(text for documents in sources for text in documents if text in chosen)
