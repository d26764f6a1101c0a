"""Notes beside the lines of a function: what a group of lines does, said by the page that shows them.

    ```{annotate} minigrad.optim.adamw.adamw_formula
    :code: 5d1c0a3e

    m = factors.beta1 * m
    : A running mean of the gradients: noise cancels out.
    ```

A note begins with the beginning of the first line of its group, and its text follows on lines that begin with a colon.
The group ends where the next one begins. `code` stands for all lines of code that are shown: if they change, the notes
must be read again, so the page does not build, and the error says the new value.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import NamedTuple

from docs.extensions.source_parts import Excerpt, Part, parts_of


class NoteError(ValueError):
    """A note does not fit the code."""


class Note(NamedTuple):
    """The beginning of a line of code, and the Markdown that stands beside it."""

    line: str
    text: str


def read_notes(content: Sequence[str]) -> list[Note]:
    """Return the notes that the lines of a directive hold; raises NoteError for a line without a text."""
    found = list[Note]()
    for line in filter(str.strip, content):
        if not line.startswith(":"):
            found.append(Note(line.strip(), ""))
        elif not found:
            raise NoteError(f"a note begins with a line of code, not with {line!r}")
        else:
            found[-1] = Note(found[-1].line, f"{found[-1].text}\n{line[1:].strip()}".strip())
    if empty := [note.line for note in found if not note.text]:
        raise NoteError(f"{empty[0]!r} has no text; it follows on lines that begin with a colon")
    return found


def code_of(excerpt: Excerpt) -> str:
    """Return the value that stands for the lines of code of an excerpt: docstrings and comments do not count."""
    lines = excerpt.text.splitlines()
    code = "\n".join(lines[number - 1].strip() for part in parts_of(excerpt) for number in part.lines)
    return hashlib.sha256(code.encode()).hexdigest()[:8]


def noted_parts(excerpt: Excerpt, notes: Sequence[Note], code: str) -> list[Part]:
    """Return the parts of an excerpt, divided where notes begin.

    Raises NoteError if the code is another than when the notes were written, or a note does not fit exactly one line
    after that of the note before.
    """
    parts, lines = parts_of(excerpt), excerpt.text.splitlines()
    if notes and code != (now := code_of(excerpt)):
        raise NoteError(f"the code has changed since its notes were written; read them again, then set :code: {now}")
    after = 0
    for note in notes:
        numbers = [number for part in parts for number in part.lines if number > after]
        fitting = [number for number in numbers if lines[number - 1].strip().startswith(note.line)]
        if len(fitting) != 1:
            raise NoteError(
                f"{len(fitting)} lines begin with {note.line!r}; a note needs one, in the order of the code"
            )
        after = fitting[0]
        parts = [piece for part in parts for piece in _divided(part, after, note.text)]
    return parts


def _divided(part: Part, number: int, text: str) -> list[Part]:
    """Return a part as it is, or as two if it holds a line: the second begins there and has the text as its prose."""
    if number not in part.lines:
        return [part]
    place = part.lines.index(number)
    if place == 0:
        return [Part(f"{part.prose}\n\n{text}".strip(), part.lines)]
    return [Part(part.prose, part.lines[:place]), Part(text, part.lines[place:])]
