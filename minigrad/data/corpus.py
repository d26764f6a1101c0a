"""Text to train on, and the part of it that is held out.

A corpus is a list of documents: topics, modules, files, scenes. Whole documents are held out, not sentences: two
sentences of one page have much in common, and the evaluation must be on text that the model was not trained on.
Held-out text may also be given, as a text of its own.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import io
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from minigrad.data import installed_packages, standard_library
from minigrad.data.download import download
from minigrad.data.overlap import without_repeats
from minigrad.data.text_files import documents_in, read_documents, read_folder
from minigrad.errors import InputError, RunError

NAMES = ("python-docs", "python-source", "shakespeare")
HELD_OUT_SHARE = 1 / 16  # of the documents

SHAKESPEARE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


@dataclass(frozen=True)
class Corpus:
    """Documents under a name; `description` names them in a few words.

    `held_out` is held-out text of its own, if there is some. With `unrepeated`, no paragraph of the training part
    repeats held-out text (`minigrad.data.overlap`). That is not done to the documents of a user that are split here:
    a phrase that many of them share is a part of the language that the model is to learn.
    """

    name: str
    description: str
    documents: tuple[str, ...]
    held_out: tuple[str, ...] = ()
    unrepeated: bool = False

    @property
    def num_bytes(self) -> int:
        """Size of all documents as UTF-8, in bytes."""
        return num_bytes(self.documents)

    def split(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return (documents to train on, held-out documents); neither is ever empty.

        Held-out text of its own is the held-out part. Otherwise a document is held out if the hash of its text, read
        as a number in [0, 1), is below 1/16. So the choice needs no seed, equal documents stay together, and a document
        added later does not change the choice of the others. If no hash is below 1/16, the document with the smallest
        one is held out; of a single document, its last tenth. Raises InputError if there is too little text to split.
        """
        return self._parts[:2]

    @property
    def left_out(self) -> int:
        """The number of paragraphs that are not trained on, because they repeat held-out text."""
        return self._parts[2]

    @functools.cached_property
    def _parts(self) -> tuple[tuple[str, ...], tuple[str, ...], int]:
        train, held_out = (self.documents, self.held_out) if self.held_out else _split(self.documents)
        if not self.unrepeated:
            return train, held_out, 0
        unseen, left_out = without_repeats(train, held_out)
        if not unseen:
            raise InputError(f"all of the text in {self.name} is in the held-out text too: nothing is left to train on")
        return unseen, held_out, left_out


def load(
    name: str = "python-docs", *, held_out: str | None = None, progress: Callable[[str], None] | None = None
) -> Corpus:
    """Return the corpus of that name: one of `NAMES`, a file, a folder, or an address that starts with http.

    `held_out` names held-out text of its own: see `load_for_evaluation`. `progress` is called with a sentence before a
    download, which is kept in the cache folder. Raises InputError if there is no such name or no UTF-8 text under it,
    and RunError if a download fails or this Python has no source of its standard library.
    """
    description, documents = _read(name, progress)
    if held_out is None and name == "python-docs":  # of the library's own documents, whatever is trained on beside them
        _, chosen = _split(tuple(standard_library.documentation()))
        rest = tuple(text for text in documents if text not in set(chosen))
        return Corpus(name, description, rest, chosen, unrepeated=True)
    if held_out is None:
        return Corpus(name, description, documents)
    other = load_for_evaluation(held_out, progress=progress)
    description += f"; held out: {other.description}"
    return Corpus(name, description, documents, other.documents, unrepeated=True)


def load_for_evaluation(name: str, *, progress: Callable[[str], None] | None = None) -> Corpus:
    """Return a text to evaluate: the held-out part of one of `NAMES`, or all of a file, a folder or an address.

    Each file is one document, however long it is; a long one is cut only for training. Arguments and errors: as those
    of `load`.
    """
    if name in NAMES:
        text = load(name, progress=progress)
        return Corpus(name, f"held-out part of: {text.description}", text.split()[1])
    return Corpus(name, *_read(name, progress, whole=True))


def _read(name: str, progress: Callable[[str], None] | None, *, whole: bool = False) -> tuple[str, tuple[str, ...]]:
    """Return a description of the text of that name, and its documents; long ones are cut unless they stay whole."""
    python = f"Python {platform.python_version()}"
    if name == "python-docs":
        description, documents = _python_docs(f"documentation and docstrings of {python}")
    elif name == "python-source":
        description, documents = f"source of the standard library of {python}", standard_library.source()
    elif name == "shakespeare":
        data = download(SHAKESPEARE, sha256=SHAKESPEARE_SHA256, progress=progress)
        description, documents = "plays of Shakespeare", documents_in(io.BytesIO(data), "shakespeare", whole=whole)
    elif name.startswith(("http://", "https://")):
        data, address = download(name, progress=progress), name.partition("?")[0]
        description, documents = f"text from {name}", documents_in(io.BytesIO(data), address, whole=whole)
    else:
        check_name(name)
        path = Path(name)
        read = read_folder if path.is_dir() else read_documents
        description, documents = f"text in {name}", read(path, whole=whole)
    if not documents and name in NAMES:
        raise RunError(
            f"there is no Python source in {standard_library.library_folder()}, so no {name}. Give --data PATH."
        )
    if not documents:
        raise InputError(f"{name} holds no text.")
    return description, tuple(documents)


def _python_docs(library: str) -> tuple[str, list[str]]:
    """Return the documents of the library and of the packages that minigrad needs, and what share each has of them."""
    documents = standard_library.documentation()
    if not documents:
        return library, []
    sources = {library: num_bytes(documents)}
    for package in installed_packages.PACKAGES:
        found = installed_packages.documentation(package, documents)
        sources[f"docstrings of {package} {installed_packages.version(package)}"] = num_bytes(found)
        documents = [*documents, *found]
    shares = [f"{name} ({size / sum(sources.values()):.0%})" for name, size in sources.items()]
    return ", ".join(shares), documents


def num_bytes(documents: Iterable[str]) -> int:
    """Return the size of the documents as UTF-8, in bytes.

    >>> num_bytes(["π", "pi"])
    4
    """
    return sum(len(text.encode()) for text in documents)


def check_name(name: str) -> None:
    """Raise InputError, naming the closest, if there is no corpus of that name: see `load`. Nothing is read."""
    path = Path(name)
    if name in NAMES or name.startswith(("http://", "https://")):
        return
    # os.path.exists, unlike Path.exists, is False for what cannot be a path at all, such as a whole text.
    if not name or not os.path.exists(path):  # noqa: PTH110
        near = difflib.get_close_matches(name, [*NAMES, *_names_beside(path)])
        raise InputError(
            f"there is no data called {name!r}. "
            + (f"Did you mean {' or '.join(near)}? " if near else "")
            + f"Expected {', '.join(NAMES)}, a file, a folder or an address that starts with http."
        )


def _names_beside(path: Path) -> list[str]:
    try:
        return sorted(str(other) for other in path.parent.iterdir())
    except (OSError, ValueError):  # no such folder, or no path at all
        return []


def _split(documents: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return (documents to train on, held-out documents), as `Corpus.split` describes it."""
    shares = {text: _share(text) for text in documents}
    if len(shares) == 1:
        return _cut(documents[0])
    held_out = {text for text, share in shares.items() if share < HELD_OUT_SHARE}
    if not held_out:
        held_out = {min(shares, key=shares.__getitem__)}
    elif len(held_out) == len(shares):
        held_out.remove(max(shares, key=shares.__getitem__))
    return tuple(t for t in documents if t not in held_out), tuple(t for t in documents if t in held_out)


def _share(text: str) -> float:
    """Return a hash of the text as a number in [0, 1); the hashes of different texts are spread evenly."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") / 2**64


def _cut(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    place = len(text) * 9 // 10
    # After a line break, if there is one in the eighth or ninth tenth.
    place = text.rfind("\n", place * 8 // 9, place) + 1 or place
    train, held_out = text[:place], text[place:]
    if not train.strip() or not held_out.strip():
        raise InputError(
            f"{len(text):,} characters of text are too few to hold some out from training. Give --data more text."
        )
    return (train,), (held_out,)
