"""A part of some documents: all but a few, which are left out or have another text in their place.

The documents are read anew each time, so a part of a text that does not fit into memory is a short list of numbers.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from minigrad.errors import InputError

_LARGEST_SAMPLE = 1 << 28  # bytes


class DocumentPass:
    """One pass over documents: yields the number and the text of each, and counts and hashes them."""

    def __init__(self, documents: Iterable[str]) -> None:
        self.documents, self.count, self.num_bytes = documents, 0, 0
        self._digest = hashlib.blake2b(digest_size=16)

    def __iter__(self) -> Iterator[tuple[int, str]]:
        """Yield number and text of each document."""
        for number, document in enumerate(self.documents):
            text = document.encode()
            self._digest.update(len(text).to_bytes(8, "little") + text)  # with the length: ["ab"] is not ["a", "b"]
            self.count, self.num_bytes = number + 1, self.num_bytes + len(text)
            yield number, document

    @property
    def digest(self) -> bytes:
        """A hash of the documents that were read."""
        return self._digest.digest()


@dataclass(frozen=True, eq=False)
class Selection:
    """All `documents`, except that `changed` gives some, by number, another text, or None to leave them out.

    `seen` is the reading that chose. To iterate is to read again, as often as wanted; raises InputError if the
    documents are other ones by then.
    """

    documents: Iterable[str]
    changed: Mapping[int, str | None]
    seen: DocumentPass
    num_bytes: int  # of the documents that are left

    @property
    def digest(self) -> bytes:
        """A hash of the documents that are left, found without reading them."""
        return hashlib.blake2b(self.seen.digest + repr(sorted(self.changed.items())).encode(), digest_size=16).digest()

    def __iter__(self) -> Iterator[str]:
        """Yield the documents that are left."""
        reading = DocumentPass(self.documents)
        for number, document in reading:
            found = self.changed.get(number, document)
            if found is not None:
                yield found
        if reading.digest != self.seen.digest:
            raise InputError(
                "the text changed while it was read; wait until whatever writes it has ended, then start again."
            )

    def __len__(self) -> int:
        """Return the number of documents that are left."""
        return self.seen.count - sum(text is None for text in self.changed.values())

    def sample(self, most: int = _LARGEST_SAMPLE) -> Iterator[str]:
        """Yield every document, or every n-th if they have more than `most` bytes: enough to learn a vocabulary."""
        return itertools.islice(self, 0, None, max(1, -(-self.seen.num_bytes // most)))
