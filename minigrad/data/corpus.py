"""A text and its three parts: to train on, for validation and for the test.

A corpus is a list of documents: topics, modules, files, scenes. Whole documents are held out where there are enough,
not sentences: two sentences of one page have much in common, and the evaluation must be on text that the model was not
trained on. Validation text may also be given as a separate text.
"""

from __future__ import annotations

import difflib
import functools
import io
import os
import platform
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from minigrad.data import python_docs
from minigrad.data.download import download
from minigrad.data.selection import Selection
from minigrad.data.split import LARGEST_SAMPLE, Parts, split
from minigrad.data.text_files import TextFiles, documents_in, read
from minigrad.errors import InputError, RunError

DEFAULT = "python-docs"
NAMES = (DEFAULT, "python-source", "shakespeare")

SHAKESPEARE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"


@dataclass(frozen=True)
class Corpus:
    """Documents under a name, in memory or in files; `description` names them in a few words.

    `validation` and `test` are other texts, not part of `documents`, if given; `validation_text` names them. With
    `unrepeated`, no paragraph that is trained on repeats validation or test text (`minigrad.data.selection`). That is
    not done to the documents of a user that are split here: a phrase that many of them share is a part of the language
    that the model is to learn.
    """

    name: str
    description: str
    documents: tuple[str, ...] | TextFiles
    validation: tuple[str, ...] = ()
    test: tuple[str, ...] = ()
    unrepeated: bool = False
    validation_text: str = ""

    @property
    def bytes_to_train(self) -> int:
        """Size of the documents to train on as UTF-8, in bytes."""
        return self._parts.bytes_to_train

    @property
    def bytes_as_one(self) -> float:
        """The size of the documents to train on; a mixture of texts counts differently (`Mixture.bytes_as_one`)."""
        return self.bytes_to_train

    @property
    def num_documents(self) -> int:
        """The number of all documents, but for those of `validation` and `test`."""
        if isinstance(self.documents, TextFiles) and isinstance(self._parts.train, Selection):
            return self._parts.train.seen.count
        return sum(1 for _ in self.documents)

    def split(self) -> Parts:
        """Return the documents to train on, for validation and for the test; only the last may be empty.

        `minigrad.data.split` chooses them, unless there is validation text of its own. Documents in files are read as
        they are wanted. Raises InputError if there is too little text to split.
        """
        return self._parts

    def sample(self) -> Iterator[str]:
        """Yield enough of the documents to train on to learn a vocabulary from."""
        return self.excerpt(LARGEST_SAMPLE)

    def excerpt(self, num_bytes: int) -> Iterator[str]:
        """Yield documents to train on of about `num_bytes` bytes at most, evenly spaced."""
        return self._parts.excerpt(num_bytes)

    @functools.cached_property
    def _parts(self) -> Parts:
        own = self.validation and Parts(self.documents, self.validation, self.test)
        parts = own or split(self.documents)
        if isinstance(self.documents, tuple):  # they are in memory, and so are those to train on
            parts = replace(parts, train=tuple(parts.train))
        refusal = f"all of the text in {self.name} is validation or test text too: nothing is left to train on"
        return parts.without_copies(parts.held_out, refusal) if self.unrepeated else parts


def load(
    name: str = DEFAULT, *, held_out: Corpus | None = None, progress: Callable[[str], None] | None = None
) -> Corpus:
    """Return the corpus of that name: one of `NAMES`, a file, a folder, or an address that starts with http.

    The parts that `held_out` holds out take the place of those of the documents (`read_held_out`). `progress` is called
    with a sentence before a download, which is kept in the cache folder, and while a long text is read. Raises
    InputError if there is no such name or no UTF-8 text under it, and RunError if a download fails or this Python has
    no source of its standard library.
    """
    if held_out is None:
        return _python_docs() if name == DEFAULT else Corpus(name, *_read(name, progress))
    if name == held_out.name and name in NAMES:
        return replace(held_out, validation_text=held_out.description)
    description, documents = _read(name, progress)
    parts = held_out.split().validation, held_out.split().test
    return Corpus(name, description, documents, *parts, unrepeated=True, validation_text=held_out.description)


def read_held_out(name: str, progress: Callable[[str], None] | None = None) -> Corpus:
    """Return the corpus of that name to judge by: one of `NAMES` holds out both parts, any other text all of itself.

    So a file, a folder or an address has no text for the test. Arguments and errors: like `load`.
    """
    if name in NAMES:
        return load(name, progress=progress)
    text = load_for_evaluation(name, progress=progress)
    return replace(text, documents=(), validation=tuple(text.documents))


def load_for_evaluation(
    name: str, part: str = "validation", *, progress: Callable[[str], None] | None = None
) -> Corpus:
    """Return a text to evaluate: the `part` "validation" or "test" of one of `NAMES`, or all of another text.

    Each file is one document, however long it is; a long one is cut only for training. Arguments and errors: like
    `load`; also raises InputError for the test part of a text that has none.
    """
    if name in NAMES:
        text = load(name, progress=progress)
        parts = {"validation": text.split().validation, "test": text.split().test}
        return Corpus(name, f"{part} part of: {text.description}", parts[part])
    if part == "test":
        raise InputError(f"{name} is evaluated as a whole, so it has no test part: leave out --split.")
    return Corpus(name, *_read(name, progress, whole=True))


def _python_docs() -> Corpus:
    found = python_docs.read()
    if not found.documents:
        raise _no_source(DEFAULT)
    return Corpus(DEFAULT, found.description, found.train, found.validation, found.test, unrepeated=True)


def _no_source(name: str) -> RunError:
    return RunError(
        f"there is no Python source in {python_docs.library_folder()}, so no {name}. Name a file or a folder instead."
    )


def _read(
    name: str, progress: Callable[[str], None] | None, *, whole: bool = False
) -> tuple[str, tuple[str, ...] | TextFiles]:
    """Return a description of the text of that name, and its documents; long ones are cut unless they stay whole."""
    documents: Iterable[str]

    def downloaded(data: bytes) -> tuple[str, ...]:
        found = tuple(documents_in(io.BytesIO(data), name.partition("?")[0], whole=whole))
        if not found:
            raise InputError(f"{name} holds no text.")
        return found

    if name == DEFAULT:  # beside validation text of its own, all of it
        text = python_docs.read()
        description, documents = text.description, text.documents
    elif name == "python-source":
        text = python_docs.read()  # the source of a module has its docstrings: what it holds out is left out here
        documents = python_docs.library_source((*text.validation, *text.test))
        description = f"source of the standard library of Python {platform.python_version()}"
    elif name == "shakespeare":
        documents = download(SHAKESPEARE, downloaded, sha256=SHAKESPEARE_SHA256, progress=progress)
        description = "plays of Shakespeare"
    elif name.startswith(("http://", "https://")):
        description, documents = f"text from {name}", download(name, downloaded, progress=progress)
    else:
        check_name(name)
        description, documents = f"text in {name}", read(Path(name), whole=whole, progress=progress)
    found = documents if isinstance(documents, TextFiles) else tuple(documents)
    if not found and name in NAMES:
        raise _no_source(name)
    if not found:
        raise InputError(f"{name} holds no text.")
    return description, found


def check_name(name: str) -> None:
    """Raise InputError, naming the closest, if there is no corpus of that name: see `load`. Nothing is read."""
    if not is_known(name):
        if os.path.islink(name):  # noqa: PTH114
            raise InputError(f"{name} is a link to {Path(name).readlink()}, where there is nothing.")
        raise InputError(
            f"there is no data called {name!r}. {closest(name, NAMES)}Expected {', '.join(NAMES)}, a file, a folder or "
            "an address that starts with http."
        )


def closest(name: str, known: Iterable[str] = ()) -> str:
    """Return "Did you mean a.txt? " for a path that is not there, with names in its folder or `known`; or ""."""
    near = difflib.get_close_matches(name, [*known, *_names_beside(Path(name))])
    return f"Did you mean {' or '.join(near)}? " if near else ""


def is_known(name: str) -> bool:
    """Whether there is a corpus of that name; an address is not tried."""
    return name in NAMES or name.startswith(("http://", "https://")) or exists(name)


def identity(name: str, folder: str = "") -> str:
    """Return the same text for all spellings of the name of one corpus: of a file or folder its full path.

    A relative path begins in `folder`, if there is such a file or folder in it, or else here.
    """
    places = (os.path.join(folder, name), name)  # noqa: PTH118  (a name need not be a path)
    return next((os.path.realpath(each) for each in places if exists(each)), name) if name not in NAMES else name


def exists(name: str) -> bool:
    """Whether there is a file or folder; unlike for Path.exists, the name may be text that cannot be a path at all."""
    return os.path.exists(name)  # noqa: PTH110


def _names_beside(path: Path) -> list[str]:
    try:
        return sorted(str(other) for other in path.parent.iterdir())
    except (OSError, ValueError):  # no such folder, or no path at all
        return []
