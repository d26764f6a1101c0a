"""Docstrings of the packages that minigrad needs, as training text: every installation has them too.

None of them is validation text: which text figures are of must not change with their versions.
"""

from __future__ import annotations

import importlib.util
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path

from minigrad.data.docstrings import docstrings_of, hash_of, kept, modules, python_files, without_repeats, words_of

PACKAGES = ("numpy", "numba")  # the docstrings of the others have less than 0.1 MB each


def documentation(package: str, before: Iterable[str]) -> list[str]:
    """Return the docstrings of an installed package: a document for each module, without its tests.

    A paragraph that occurred anywhere before is dropped, also one of the documents `before`. 1.8 MB of numpy, 0.7 MB of
    numba. The first call parses for some seconds; the result is kept in the cache folder. A package that is not there
    as source files gives no documents.
    """
    folder = package_folder(package)
    if folder is None:
        return []
    before = tuple(before)

    def texts() -> Iterator[str]:
        files = [Path(package) / file for file in python_files(folder)]
        return without_repeats(itertools.starmap(docstrings_of, modules(folder.parent, files)), words_of(before))

    return kept(f"{folder} {version(package)} {hash_of(before)}", texts)


def version(package: str) -> str:
    """Return the version of an installed package."""
    from importlib import metadata  # which takes 30 ms, and only a plan needs it

    return metadata.version(package)


def package_folder(package: str) -> Path | None:
    """Return the folder of an installed package, or None if it is not there as source files."""
    found = importlib.util.find_spec(package)
    places = found.submodule_search_locations if found else None
    return Path(places[0]) if places else None
