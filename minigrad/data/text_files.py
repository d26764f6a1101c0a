"""Documents from files: plain text, JSON lines, either of them gzipped, and folders of these."""

from __future__ import annotations

import json
from pathlib import Path

from minigrad.errors import InputError

TEXT_SUFFIXES = (".txt", ".md", ".py", ".jsonl")  # files that are read in a folder, also followed by .gz
LARGEST_DOCUMENT = 65_536  # characters; a longer text is cut
CHUNK = 8_192  # characters, about: 1 MB gives about 140 chunks, enough for a fair held-out split


def read_folder(folder: Path) -> list[str]:
    """Return the documents of all text files in `folder` and the folders below it, sorted by their paths.

    Hidden files and folders, empty files and other kinds of files are left out.
    Raises InputError if nothing remains, or as `documents_in` does.
    """
    documents: list[str] = []
    for path in sorted(folder.rglob("*"), key=lambda path: path.relative_to(folder).parts):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        is_text = path.name.lower().removesuffix(".gz").endswith(TEXT_SUFFIXES)
        if is_text and not hidden and path.is_file():
            documents += documents_in(read_bytes(path), str(path))
    if not documents:
        raise InputError(
            f"the folder {folder} holds no text: expected files that end in {', '.join(TEXT_SUFFIXES)}, "
            "as they are or followed by .gz."
        )
    return documents


def read_bytes(path: Path) -> bytes:
    """Return the bytes of a file; raises InputError if it cannot be read."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}.") from error


def documents_in(data: bytes, name: str) -> list[str]:
    """Return the documents that the bytes of one file hold; the file's `name` tells its kind.

    A `.jsonl` file holds one document per line, in the field `text`; any other file is one document of UTF-8
    text; `.gz` is unpacked first. Line ends become a single newline, blank documents are dropped, long ones
    are cut (see `chunks`).
    Raises InputError, with the place, for bytes that are not such text.
    """
    kind = name.lower()
    if kind.endswith(".gz"):
        data, kind = _unpack(data, name), kind.removesuffix(".gz")
    text = _decode(data, name)
    documents = _json_lines(text, name) if kind.endswith(".jsonl") else [text]
    return [chunk for document in documents if document.strip() for chunk in chunks(document)]


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


def _unpack(data: bytes, name: str) -> bytes:
    import gzip
    import zlib

    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"{name} cannot be unpacked: {str(error).rstrip('.')}.") from error


def _decode(data: bytes, name: str) -> str:
    # UTF-8 text may hold NUL, but in practice NUL means UTF-16 or binary data, which no model should be trained on.
    if (offset := data.find(0)) >= 0:
        raise InputError(f"{name} is not UTF-8 text: byte {offset:,} is NUL. Is it a binary file, or UTF-16?")
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
            record = json.loads(line)
        except ValueError as error:
            raise InputError(f"{name}, line {number:,} is not JSON: {error}.") from error
        document = record.get("text") if isinstance(record, dict) else None
        if not isinstance(document, str):
            raise InputError(f'{name}, line {number:,} has no text: expected an object like {{"text": "..."}}.')
        try:
            document.encode("utf-8")
        except UnicodeEncodeError as error:  # JSON can spell half of a surrogate pair, which is no character
            raise InputError(f"{name}, line {number:,} holds a lone surrogate: {error}.") from error
        documents.append(document)
    return documents
