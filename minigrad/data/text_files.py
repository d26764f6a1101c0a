"""Documents from files: plain text, JSON lines, either of them gzipped, and folders of these.

Documents are read one by one, as often as they are wanted, and the bytes of a file portion by portion: only what fits
is kept in memory, and a text may be larger. Text is UTF-8; other bytes are refused with their place.
"""

from __future__ import annotations

import codecs
import errno
import gzip
import io
import os
import select
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from minigrad.errors import InputError
from minigrad.formats.folders import RECORD
from minigrad.formats.json_files import parse_json
from minigrad.options import shown
from minigrad.system import hardware
from minigrad.system.files import reason
from minigrad.system.units import format_bytes, plural

TEXT_SUFFIXES = (".txt", ".md", ".py", ".jsonl")  # files that are read in a folder, also followed by .gz
LARGEST_DOCUMENT = 1 << 21  # characters; a longer text is cut into chunks, which need not all fit into memory
CHUNK = 8_192  # characters, about: so a text that is cut gives 256 chunks at least, enough to hold some out
_NAMED = 5  # of the files that are not read
_KEPT = 1 << 26  # characters of text that are kept in memory; of a longer one, none
_PATIENCE = 60  # seconds, for the first bytes of a pipe
_TOLD = 500_000_000  # characters between two lines of progress
_PORTION = 1 << 22  # bytes that are read at a time
_MEMORY_PER_BYTE = 4  # of text: the bytes, the decoded text, its documents and its tokens


@dataclass(frozen=True)
class TextFiles:
    """The documents of a file, or of all text files in a folder and the folders below it, sorted by their paths.

    Hidden files and folders, empty files and other kinds of files are left out. Links to files are read, and links to
    folders are not followed. `whole`: see `documents_in`.
    To iterate is to read the files; it raises InputError if a file or a folder cannot be read, or as `documents_in`
    does.
    """

    path: Path
    whole: bool = False
    progress: Callable[[str], None] | None = field(default=None, compare=False)  # told how much was read

    def __iter__(self) -> Iterator[str]:
        """Yield the documents."""
        size = told = 0
        for path in self._files():
            try:
                with open_text(path) as file:
                    for document in documents_in(file, str(path), whole=self.whole, at_once=not path.is_file()):
                        yield document
                        size += len(document)
                        if self.progress is not None and size - told >= _TOLD:
                            told = size
                            self.progress(f"{size:,} characters of {self.path} read")
            except OSError as error:
                raise InputError(f"cannot read {path}: {reason(error)}.") from error

    def left_out(self) -> str:
        """Return a sentence that names the files, linked folders and run folders that are not read; "" if none are.

        Files are left out because of their names; a link that leads nowhere counts as one. Hidden files, and those of
        Python in __pycache__, are not mentioned.
        Raises InputError if a folder cannot be read.
        """
        if not self.path.is_dir():
            return ""
        places = [path for path in self._visible() if "__pycache__" not in path.relative_to(self.path).parts]
        files = [path for path in places if not path.is_dir() and not _is_text(path)]
        links = [path for path in places if path.is_dir() and path.is_symlink()]
        runs = [path for path in places if not path.is_symlink() and _is_run(path)]
        kinds = (files, "file"), (links, "linked folder"), (runs, "run folder")
        counts = [plural(len(each), noun) for each, noun in kinds if each]
        if not counts:
            return ""
        names = [str(path.relative_to(self.path)) for path in (*files, *links, *runs)]
        shown, more = names[:_NAMED], len(names) - _NAMED
        listed = ", ".join(shown) + (f" and {more:,} more" if more > 0 else "")
        are = "is" if len(names) == 1 else "are"
        return f"{' and '.join(counts)} of {self.path} {are} not read: {listed}"

    def _files(self) -> Iterable[Path]:
        if not self.path.is_dir():
            return [self.path]
        return filter(_is_text, self._visible())

    def _visible(self) -> list[Path]:
        """Return what is in the folder and in the folders below it, without anything hidden or in a run folder.

        A run may be written into the folder of its text, which must stay as it was.
        """
        found = list[Path]()
        for place, folders, files in os.walk(self.path, onerror=_refuse):  # follows no links
            folders[:] = [name for name in folders if not name.startswith(".")]
            found += [Path(place, name) for name in (*folders, *files) if not name.startswith(".")]
            folders[:] = [name for name in folders if not _is_run(Path(place, name))]
        return sorted(found, key=lambda path: path.relative_to(self.path).parts)


def _refuse(error: OSError) -> None:
    raise InputError(f"cannot read {error.filename}: {reason(error)}.") from error


def _is_run(path: Path) -> bool:
    return (path / RECORD).is_file()


def _is_text(path: Path) -> bool:
    return path.is_file() and path.name.lower().removesuffix(".gz").endswith(TEXT_SUFFIXES)


def read(
    path: Path, *, whole: bool = False, progress: Callable[[str], None] | None = None
) -> tuple[str, ...] | TextFiles:
    """Return the documents of a file or a folder: those of a long text as `TextFiles`, else as they are.

    What stays whole, and what can be read only once, such as a pipe, is kept in memory however long it is. Raises
    InputError as `TextFiles` does, and if a folder holds no text. `progress` is also told which files are not read.
    """
    files, kept, size = TextFiles(path, whole, progress), list[str](), 0
    if progress is not None and (others := files.left_out()):
        progress(others)
    for document in files:
        kept.append(document)
        size += len(document)
        if size > _KEPT and not whole and (path.is_file() or path.is_dir()):
            return files
    if not kept and path.is_dir():
        raise InputError(
            f"the folder {path} holds no text: expected files that end in {', '.join(TEXT_SUFFIXES)}, "
            "as they are or followed by .gz."
        )
    return tuple(kept)


def open_text(path: Path) -> IO[bytes]:
    """Open a file, or a pipe into which another program writes (`--data <(zcat a.gz)`); raises OSError.

    To open a pipe is to wait for that program, perhaps for ever: here one that stays empty is an error after a minute.
    """
    return open(path, "rb", opener=_open_pipe if path.is_fifo() else None)


def _open_pipe(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    if not select.select([descriptor], [], [], _PATIENCE)[0]:
        os.close(descriptor)
        raise OSError(errno.ETIMEDOUT, f"it is a pipe, and no program wrote into it for {_PATIENCE} seconds")
    os.set_blocking(descriptor, True)
    return descriptor


def documents_in(file: IO[bytes], name: str, *, whole: bool = False, at_once: bool = False) -> Iterator[str]:
    """Yield the documents in the bytes of one file; the file's `name` shows its kind.

    A `.jsonl` file holds one document per line, in the field `text`; any other file is one document of UTF-8
    text; `.gz` is unpacked first. Line ends become a single newline, blank documents are dropped, long ones
    are cut (see `chunks`) unless they should stay `whole`. What will be kept in memory is read `at_once`.
    Raises InputError, with the place, for bytes that are not such text, and if what has to be in memory does not fit.
    """
    text: Iterable[str] = [text_in(file, name)] if whole or at_once else text_portions(file, name)
    documents = ([each] for each in _json_lines(text, name)) if is_json_lines(name) else [text]
    for pieces in documents:
        text_of_one = _unless_blank(pieces, name)
        yield from text_of_one if whole else chunks(text_of_one)


def is_json_lines(name: str) -> bool:
    """Whether a file holds lines of JSON, according to its name."""
    return name.lower().removesuffix(".gz").endswith(".jsonl")


def chunks(pieces: Iterable[str]) -> Iterator[str]:
    r"""Cut a text of more than 2,097,152 characters, which comes in pieces, into chunks of about 8,192.

    Joined, they are the text. A book is one document, but a part of it must be held out from training. Cuts are made
    after a blank line, or after a line, or otherwise anywhere. Training on the neighbours of a chunk that is held out
    can teach its style and names, not its sentences.

    >>> lengths = [len(chunk) for chunk in chunks(["To be, or not to be.\n\n" * 100_000])]
    >>> len(lengths), set(lengths), lengths[-1]
    (269, {8184, 6688}, 6688)
    """
    text, start, is_long = "", 0, False
    for piece in pieces:
        text, start = text[start:] + piece, 0
        is_long = is_long or len(text) > LARGEST_DOCUMENT
        while is_long and len(text) - start > CHUNK * 3 // 2:  # so that the last chunk is not tiny
            end = _end_of_chunk(text, start)
            yield text[start:end]
            start = end
    if text:
        yield text[start:]


def _end_of_chunk(text: str, start: int) -> int:
    end = start + CHUNK
    for separator in ("\n\n", "\n"):
        found = text.rfind(separator, start + CHUNK // 2, end)
        if found >= 0:
            return found + len(separator)
    return end


def _unless_blank(pieces: Iterable[str], name: str) -> Iterator[str]:
    """Yield the pieces of a text; nothing for a blank text.

    Raises InputError for more white space than any text begins with: a small packed file may hold any amount of it.
    """
    blank, rest, size = list[str](), iter(pieces), 0
    for piece in rest:
        blank.append(piece)
        size += len(piece)
        if piece.strip():
            yield from blank
            yield from rest
            return
        if size > _KEPT:
            raise InputError(f"{name} begins with more than {_KEPT:,} characters of white space, so it is not text")


def _json_lines(pieces: Iterable[str], name: str) -> Iterator[str]:
    for number, line in enumerate(_lines(pieces, name), start=1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
        except InputError as error:
            raise InputError(f"{name}, line {number:,} is not JSON: {error}.") from error
        document = record.get("text") if isinstance(record, dict) else None
        if not isinstance(document, str):
            found = "" if document is None else f" (it is {shown(document)})"
            raise InputError(f'{name}, line {number:,} has no text{found}: expected an object like {{"text": "..."}}.')
        try:
            document.encode("utf-8")
        except UnicodeEncodeError as error:  # JSON can spell half of a surrogate pair, which is not a character
            raise InputError(f"{name}, line {number:,} holds a lone surrogate: {error}.") from error
        if "\0" in document:  # see `_decoded`
            raise InputError(f"{name}, line {number:,} is not text: it holds NUL.")
        yield document.replace("\r\n", "\n").replace("\r", "\n")


def _lines(pieces: Iterable[str], name: str) -> Iterator[str]:
    # Not splitlines(): it also breaks at the Unicode separators that JSON allows inside a string.
    rest, size = list[str](), 0  # the parts of a line that is not complete
    for piece in pieces:
        first, *lines = piece.split("\n")
        rest.append(first)
        if lines:
            yield "".join(rest)
            yield from lines[:-1]
            rest, size = lines[-1:], 0
        size += len(rest[-1])
        check_memory(size, name)
    yield "".join(rest)


def text_in(file: IO[bytes], name: str) -> str:
    """Return all of the text in the bytes of one file; raises InputError as `text_portions` and `within_memory` do."""
    return "".join(_decoded(within_memory(_unpacked(file, name), name), name))


def text_portions(file: IO[bytes], name: str) -> Iterator[str]:
    """Yield the text in the bytes of one file, unpacked if its name ends in .gz, with a newline as every line end.

    Raises InputError, with the place, for bytes that are not UTF-8 text or cannot be unpacked.
    """
    return _decoded(_unpacked(file, name), name)


def portions(file: IO[bytes] | gzip.GzipFile) -> Iterator[bytes]:
    """Yield the bytes of a file."""
    while part := file.read(_PORTION):
        yield part


def within_memory(parts: Iterable[bytes], name: str) -> Iterator[bytes]:
    """Yield the parts of a text that will be held in memory; raises InputError when memory is full.

    The file `name` that they come from may never end, such as a device.
    """
    size = 0
    for part in parts:
        size += len(part)
        check_memory(size, name)
        yield part


def check_memory(size: int, name: str) -> None:
    """Raise InputError if the free memory is too small for `size` bytes of text from the file `name`."""
    most = hardware.available_memory_bytes() // _MEMORY_PER_BYTE
    if 0 < most < size:
        raise InputError(
            f"{name} has more than {format_bytes(most)}, for which the free memory is too small; give a part of it."
        )


def _unpacked(file: IO[bytes], name: str) -> Iterator[bytes]:
    if not name.lower().endswith(".gz"):
        yield from portions(file)
        return
    size = 0
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            for part in portions(unpacked):
                size += len(part)
                yield part
    except (OSError, EOFError, zlib.error) as error:
        place = f" after the first {format_bytes(size)}" if size else ""
        raise InputError(f"{name} cannot be unpacked{place}: {str(error).rstrip('.')}.") from error


def _decoded(parts: Iterable[bytes], name: str) -> Iterator[str]:
    decoder, line_ends = codecs.getincrementaldecoder("utf-8")(), io.IncrementalNewlineDecoder(None, translate=True)
    size, is_first = 0, True
    for part in parts:
        # UTF-8 text may hold NUL, but in practice NUL means UTF-16 or binary data, which no model should learn from.
        if (offset := part.find(0)) >= 0:
            place = size + offset
            raise InputError(f"{name} is not UTF-8 text: byte {place:,} is NUL. Is it a binary file, or UTF-16?")
        text = _decode(decoder, part, size, name)
        size += len(part)
        if text and is_first:
            text, is_first = text.removeprefix("\ufeff"), False
        yield line_ends.decode(text)
    yield line_ends.decode(_decode(decoder, b"", size, name, final=True), final=True)


def _decode(decoder: codecs.IncrementalDecoder, part: bytes, size: int, name: str, *, final: bool = False) -> str:
    """Return the text of the next part of a file, after its first `size` bytes."""
    pending = len(decoder.getstate()[0])  # bytes of a character that the part before did not complete
    try:
        return decoder.decode(part, final)
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} is not UTF-8 text: byte {size - pending + error.start:,} is 0x{error.object[error.start]:02x} "
            f"({error.reason}). Convert the file to UTF-8 first."
        ) from error
