"""Text to train on that validation or test text has too: it is left out of training, so that only learning counts.

Documents of one source copy from each other. A model that was trained on a copy of such a paragraph has seen the
answers. Two paragraphs are taken to be copies if they share 13 words in a row, as in the evaluation of GPT-3 (Brown et
al. 2020, appendix C). Words are letters and digits; case, punctuation and white space do not matter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from minigrad.data.selection import DocumentPass, Selection

RUN = 13  # words


def without_repeats(train: Iterable[str], held_out: Iterable[str]) -> tuple[Selection, int]:
    """Return the training documents without the paragraphs that share a run of 13 words with text that is held out.

    Also returns the number of these paragraphs. A paragraph ends at a blank line. A document that is held out as it is,
    or that loses all its paragraphs, is dropped; one that shares nothing is returned as it is.

    >>> words = "to be or not to be that is the question whether tis nobler in the mind"
    >>> unseen, left_out = without_repeats([f"Hamlet\\n\\n{words}\\n\\nExit"], [f"He said {words} to suffer"])
    >>> list(unseen), left_out
    (['Hamlet\\n\\nExit'], 1)
    """
    documents = set(held_out)
    held = {run for text in documents for run in _runs(text)}
    changed, left_out, lost, reading = dict[int, str | None](), 0, 0, DocumentPass(train)
    for number, document in reading:
        pieces = [document]
        if document not in documents and not held.isdisjoint(_runs(document)):
            pieces = re.findall(r".+?(?:\n\s*\n|$(?!\n))", document, re.DOTALL)  # each with its blank lines
        unseen = [piece for piece in pieces if piece not in documents and held.isdisjoint(_runs(piece))]
        left_out += len(pieces) - len(unseen)
        if len(unseen) < len(pieces):
            is_empty = not any(piece.strip() for piece in unseen)
            changed[number] = kept = None if is_empty else "".join(unseen).rstrip()
            lost += len(document.encode()) - len((kept or "").encode())
    return Selection(train, changed, reading, reading.num_bytes - lost), left_out


def _runs(text: str) -> Iterator[Sequence[str]]:
    words = re.findall(r"\w+", text.lower())
    return zip(*(words[start:] for start in range(RUN)), strict=False)
