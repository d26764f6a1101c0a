"""Text to train on, and the part of it that is held out.

A corpus is a list of documents: topics, modules, files, scenes. Whole documents are held out, not sentences: two
sentences of one page have much in common, and the evaluation must be on text that the model was not trained on.
Held-out text may also be given, as a text of its own.
"""

from __future__ import annotations

import difflib
import functools
import io
import os
import platform
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from minigrad.data import comments, installed_packages, standard_library
from minigrad.data.download import download
from minigrad.data.held_out import hold_out
from minigrad.data.overlap import without_repeats
from minigrad.data.selection import Selection
from minigrad.data.text_files import TextFiles, documents_in, read
from minigrad.errors import InputError, RunError

NAMES = ("python-docs", "python-source", "shakespeare")

SHAKESPEARE = "https://raw.githubusercontent.com/karpathy/char-rnn/master/data/tinyshakespeare/input.txt"
SHAKESPEARE_SHA256 = "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed"

Texts = tuple[str, ...] | TextFiles | Selection
"""Documents in memory, or those that are read as often as they are wanted."""


class Parts(NamedTuple):
    """The documents of a corpus to train on, those that are held out, and how many paragraphs are in neither."""

    train: Texts
    held_out: tuple[str, ...]
    left_out: int = 0


@dataclass(frozen=True)
class Corpus:
    """Documents under a name, in memory or in files; `description` names them in a few words.

    `held_out` is held-out text of its own, if there is some. With `unrepeated`, no paragraph of the training part
    repeats held-out text (`minigrad.data.overlap`). That is not done to the documents of a user that are split here:
    a phrase that many of them share is a part of the language that the model is to learn.
    """

    name: str
    description: str
    documents: tuple[str, ...] | TextFiles
    held_out: tuple[str, ...] = ()
    unrepeated: bool = False

    @property
    def num_bytes(self) -> int:
        """Size of all documents as UTF-8, in bytes."""
        return num_bytes(self.documents)

    @property
    def bytes_to_train(self) -> int:
        """Size of the documents to train on as UTF-8, in bytes."""
        train = self._parts.train
        return train.num_bytes if isinstance(train, Selection) else num_bytes(train)

    @property
    def num_documents(self) -> int:
        """The number of all documents, but for those of held-out text of its own."""
        if isinstance(self.documents, TextFiles) and isinstance(self._parts.train, Selection):
            return self._parts.train.seen.count
        return sum(1 for _ in self.documents)

    def split(self) -> tuple[Texts, tuple[str, ...]]:
        """Return (documents to train on, held-out documents); neither is ever empty.

        Held-out text of its own is the held-out part, else `minigrad.data.held_out` chooses it. Documents in files are
        read as they are wanted. Raises InputError if there is too little text to split.
        """
        return self._parts[:2]

    def sample(self) -> Iterable[str]:
        """Return enough of the documents to train on to learn a vocabulary from."""
        train = self._parts.train
        return train.sample() if isinstance(train, Selection) else train

    @property
    def left_out(self) -> int:
        """The number of paragraphs that are not trained on, because they repeat held-out text."""
        return self._parts.left_out

    @functools.cached_property
    def _parts(self) -> Parts:
        parts = Parts(self.documents, self.held_out) if self.held_out else Parts(*hold_out(self.documents))
        if self.unrepeated:
            unseen, left_out = without_repeats(parts.train, parts.held_out)
            parts = Parts(unseen, parts.held_out, left_out)
            if next(iter(parts.train), None) is None:
                raise InputError(
                    f"all of the text in {self.name} is in the held-out text too: nothing is left to train on"
                )
        return parts._replace(train=tuple(parts.train)) if isinstance(self.documents, tuple) else parts


def load(
    name: str = "python-docs", *, held_out: str | None = None, progress: Callable[[str], None] | None = None
) -> Corpus:
    """Return the corpus of that name: one of `NAMES`, a file, a folder, or an address that starts with http.

    `held_out` names held-out text of its own: see `load_for_evaluation`. `progress` is called with a sentence before a
    download, which is kept in the cache folder, and while a long text is read. Raises InputError if there is no such
    name or no UTF-8 text under it, and RunError if a download fails or this Python has no source of its standard
    library.
    """
    description, documents = _read(name, progress)
    if held_out is None and name == "python-docs":  # of the library's own documents, whatever is trained on beside them
        _, chosen = hold_out(standard_library.documentation())
        known = set(chosen)
        rest = tuple(text for text in documents if text not in known)
        return Corpus(name, description, rest, chosen, unrepeated=True)
    if held_out is None:
        return Corpus(name, description, documents)
    other = load_for_evaluation(held_out, progress=progress)
    description += f"; held out: {other.description}"
    return Corpus(name, description, documents, tuple(other.documents), unrepeated=True)


def load_for_evaluation(name: str, *, progress: Callable[[str], None] | None = None) -> Corpus:
    """Return a text to evaluate: the held-out part of one of `NAMES`, or all of a file, a folder or an address.

    Each file is one document, however long it is; a long one is cut only for training. Arguments and errors: as those
    of `load`.
    """
    if name in NAMES:
        text = load(name, progress=progress)
        return Corpus(name, f"held-out part of: {text.description}", text.split()[1])
    return Corpus(name, *_read(name, progress, whole=True))


def _read(
    name: str, progress: Callable[[str], None] | None, *, whole: bool = False
) -> tuple[str, tuple[str, ...] | TextFiles]:
    """Return a description of the text of that name, and its documents; long ones are cut unless they stay whole."""
    python = f"Python {platform.python_version()}"
    documents: Iterable[str]
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
        description, documents = f"text in {name}", read(Path(name), whole=whole, progress=progress)
    found = documents if isinstance(documents, TextFiles) else tuple(documents)
    if not found and name in NAMES:
        raise RunError(
            f"there is no Python source in {standard_library.library_folder()}, so no {name}. Give --data PATH."
        )
    if not found:
        raise InputError(f"{name} holds no text.")
    return description, found


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
    found = comments.documentation(documents, hold_out(standard_library.documentation())[1])
    sources["comments in the source of all three"] = num_bytes(found)
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
