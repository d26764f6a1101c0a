"""Unicode: the UTF-8 bytes of a text and back, with errors that name the place, and texts in normal form C."""

from __future__ import annotations

from collections.abc import Iterable
from unicodedata import normalize

from tokenizer.errors import TokenizerError


def encode_utf8(text: str) -> bytes:
    """Return the UTF-8 bytes of a text.

    Raises TokenizerError for a lone surrogate (U+D800 to U+DFFF), which a Python string can hold and UTF-8 cannot.
    """
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        around = text[max(0, error.start - 20) : error.start + 20]
        raise TokenizerError(
            f"a text has the lone surrogate U+{ord(text[error.start]):04X} at character {error.start}, in "
            f"{around!r}, which has no bytes in UTF-8; read it with errors='replace', or repair it with "
            "text.encode('utf-16', 'surrogatepass').decode('utf-16', 'replace')."
        ) from error


def decode_utf8(data: bytes, errors: str = "strict", *, way_out: str, first: int = 0) -> str:
    """Return the text of UTF-8 bytes; errors="replace" turns each broken character into U+FFFD.

    Raises TokenizerError, with the `way_out`, for bytes that are not UTF-8 if errors="strict". `first` is the position
    of the first byte in its file, from which the error counts.
    """
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        around = data[max(0, error.start - 20) : error.start + 20]
        raise TokenizerError(
            f"byte 0x{data[error.start]:02x} at position {first + error.start}, in {around!r}, is not UTF-8 "
            f"({error.reason}); {way_out}."
        ) from error


def compose(text: str) -> str:
    """Return a text in Unicode's normal form C (NFC).

    >>> compose("e\\u0301") == "\\u00e9"
    True
    """
    return normalize("NFC", text)


def composed(texts: Iterable[str]) -> Iterable[str]:
    """Return the texts in NFC, one at a time; `chunks` refuses one str in place of many, and what is not a str."""
    if isinstance(texts, str):
        return texts
    return (compose(text) if isinstance(text, str) else text for text in texts)
