"""Documents from files: plain text, JSON lines, either of them gzipped, and folders of these."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from minigrad.errors import InputError
from minigrad.formats.json_files import parse_json
from minigrad.options import shown
from minigrad.system import hardware
from minigrad.system.files import reason
from minigrad.system.units import format_bytes

TEXT_SUFFIXES = (".txt", ".md", ".py", ".jsonl")  # files that are read in a folder, also followed by .gz
LARGEST_DOCUMENT = 65_536  # characters; a longer text is cut
_PORTION = 1 << 24  # bytes that are read at a time
_MEMORY_PER_BYTE = 4  # of text: the bytes, the decoded text, its documents and its tokens
CHUNK = 8_192  # characters, about: 1 MB gives about 140 chunks, enough for a fair held-out split


def read_folder(folder: Path, *, whole: bool = False) -> list[str]:
    """Return the documents of all text files in `folder` and the folders below it, sorted by their paths.

    Hidden files and folders, empty files and other kinds of files are left out. `whole`: see `documents_in`.
    Raises InputError if nothing remains, or as `documents_in` does.
    """
    documents: list[str] = []
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).parts):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        is_text = path.name.lower().removesuffix(".gz").endswith(TEXT_SUFFIXES)
        if is_text and not hidden and path.is_file():
            documents += read_documents(path, whole=whole)
    if not documents:
        raise InputError(
            f"the folder {folder} holds no text: expected files that end in {', '.join(TEXT_SUFFIXES)}, "
            "as they are or followed by .gz."
        )
    return documents


def read_documents(path: Path, *, whole: bool = False) -> list[str]:
    """Return the documents of one file; raises InputError if it cannot be read, or as `documents_in` does."""
    try:
        with path.open("rb") as file:
            return documents_in(file, str(path), whole=whole)
    except OSError as error:
        raise InputError(f"cannot read {path}: {reason(error)}.") from error


def documents_in(file: IO[bytes], name: str, *, whole: bool = False) -> list[str]:
    """Return the documents in the bytes of one file; the file's `name` tells its kind.

    A `.jsonl` file holds one document per line, in the field `text`; any other file is one document of UTF-8
    text; `.gz` is unpacked first. Line ends become a single newline, blank documents are dropped, long ones
    are cut (see `chunks`) unless they should stay `whole`.
    Raises InputError, with the place, for bytes that are not such text, and if they do not fit into memory.
    """
    text = text_in(file, name)
    documents = _json_lines(text, name) if is_json_lines(name) else [text]
    documents = [document for document in documents if document.strip()]
    return documents if whole else [chunk for document in documents for chunk in chunks(document)]


def text_in(file: IO[bytes], name: str) -> str:
    """Return the text in the bytes of one file, unpacked if its name ends in .gz; errors as those of `documents_in`."""
    return _decode(_unpacked(file, name) if name.lower().endswith(".gz") else _text_bytes(file, name), name)


def is_json_lines(name: str) -> bool:
    """Whether a file holds lines of JSON, as its name says."""
    return name.lower().removesuffix(".gz").endswith(".jsonl")


def chunks(text: str) -> list[str]:
    r"""Cut a text of more than 65,536 characters into chunks of about 8,192; joined they are the text again.

    A book is one document, but a part of it must be held out from training. Cuts are made after a blank line,
    or a line, or else anywhere. Training on the neighbours of a held-out chunk can teach its style and names, not its
    sentences.

    >>> [len(chunk) for chunk in chunks("To be, or not to be.\n\n" * 3000)]
    [8184, 8184, 8184, 8184, 8184, 8184, 8184, 8712]
    """
    if len(text) <= LARGEST_DOCUMENT:
        return [text]
    result, start = [], 0
    while len(text) - start > CHUNK * 3 // 2:  # so that the last chunk is not tiny
        end = start + CHUNK
        for separator in ("\n\n", "\n"):
            found = text.rfind(separator, start + CHUNK // 2, end)
            if found >= 0:
                end = found + len(separator)
                break
        result.append(text[start:end])
        start = end
    return [*result, text[start:]]


def portions(file: IO[bytes] | gzip.GzipFile, name: str) -> Iterator[bytes]:
    """Yield the bytes of a file that may never end, such as a device; raises InputError when they fill the memory."""
    most, size = hardware.available_memory_bytes() // _MEMORY_PER_BYTE, 0
    while part := file.read(_PORTION):
        size += len(part)
        if 0 < most < size:
            raise InputError(
                f"{name} has more than {format_bytes(most)}, for which the free memory is too small; give a part of it."
            )
        yield part


def _unpacked(file: IO[bytes], name: str) -> bytes:
    try:
        with gzip.GzipFile(fileobj=file) as unpacked:
            return _text_bytes(unpacked, name)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{name} cannot be unpacked: {str(error).rstrip('.')}.") from error


def _text_bytes(file: IO[bytes] | gzip.GzipFile, name: str) -> bytes:
    # UTF-8 text may hold NUL, but in practice NUL means UTF-16 or binary data, which no model should be trained on.
    data = bytearray()
    for part in portions(file, name):
        if (offset := part.find(0)) >= 0:
            offset += len(data)
            raise InputError(f"{name} is not UTF-8 text: byte {offset:,} is NUL. Is it a binary file, or UTF-16?")
        data += part
    return bytes(data)


def _decode(data: bytes, name: str) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(
            f"{name} is not UTF-8 text: byte {error.start:,} is 0x{data[error.start]:02x} ({error.reason}). "
            "Convert the file to UTF-8 first."
        ) from error
    return text.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def _json_lines(text: str, name: str) -> list[str]:
    documents = []
    # Not splitlines(): it also breaks at the Unicode separators that JSON allows inside a string.
    for number, line in enumerate(text.split("\n"), start=1):
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
        except UnicodeEncodeError as error:  # JSON can spell half of a surrogate pair, which is no character
            raise InputError(f"{name}, line {number:,} holds a lone surrogate: {error}.") from error
        documents.append(document)
    return documents
