"""The bytes of a file as text, portion by portion, so that a file may be larger than the memory.

Text is UTF-8; other bytes are refused with their place. A name that ends in .gz says that the bytes are packed.
"""

from __future__ import annotations

import codecs
import gzip
import io
import zlib
from collections.abc import Iterable, Iterator
from typing import IO

from minigrad.errors import InputError
from minigrad.system import hardware
from minigrad.system.units import format_bytes

_PORTION = 1 << 22  # bytes that are read at a time
_MEMORY_PER_BYTE = 4  # of text: the bytes, the decoded text, its documents and its tokens


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
    """Yield the parts of a text that will be held in memory; raises InputError when they fill it.

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
