r"""Bytes as letters: how a token of arbitrary bytes is written in a JSON file.

A token is a few bytes, and half a letter of UTF-8 is no text at all. GPT-2 therefore gave each of the 256
bytes one visible character. Bytes that already are a visible character of Latin-1 stand for themselves; the
other 68 (the space, the control characters, ...) are moved up to U+0100 and beyond, in order. So a space
becomes `Ġ`, a newline `Ċ`.

Source: Radford et al., "Language Models are Unsupervised Multitask Learners" (2019), section 2.2 and its
released code.
"""

from __future__ import annotations

from tokenizer.errors import TokenizerError

_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_MOVED = [byte for byte in range(256) if byte not in _VISIBLE]

LETTERS = {byte: chr(byte) for byte in _VISIBLE} | {byte: chr(256 + i) for i, byte in enumerate(_MOVED)}
"""From a byte to its letter."""

_BYTES = {letter: byte for byte, letter in LETTERS.items()}


def spell(token: bytes) -> str:
    """Write bytes in the alphabet.

    >>> spell(b" caf\\xc3\\xa9\\n")
    'ĠcafÃ©Ċ'
    """
    return "".join([LETTERS[byte] for byte in token])


def unspell(spelling: str) -> bytes | None:
    """Return the bytes that `spell` wrote, or None if a character is not in the alphabet.

    >>> unspell("Ġthe"), unspell(" the")
    (b' the', None)
    """
    try:
        return bytes([_BYTES[letter] for letter in spelling])
    except KeyError:
        return None


def utf8(text: str) -> bytes:
    """Return the UTF-8 bytes of a text.

    Raises TokenizerError for a lone surrogate (U+D800 to U+DFFF): Python can hold one, UTF-8 has no bytes for
    it.
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


def text_of(data: bytes, errors: str = "strict") -> str:
    """Return the text that UTF-8 bytes stand for; errors="replace" turns each broken letter into U+FFFD.

    Raises TokenizerError for bytes that are not UTF-8 if errors="strict".
    """
    try:
        return data.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        around = data[max(0, error.start - 20) : error.start + 20]
        raise TokenizerError(
            f"byte 0x{data[error.start]:02x} at position {error.start}, in {around!r}, is not UTF-8 "
            f"({error.reason}); keep bytes as they are with encode_bytes and decode_bytes, or choose errors='replace'."
        ) from error
