"""Tokens as printable characters, in the two ways that files spell them.

**The byte alphabet** (`spell`). A token can end in the middle of a UTF-8 character, so its bytes are not always text.
GPT-2 therefore gave each of the 256 bytes one printable character. A printable character of Latin-1 spells its own
byte; the other 68 bytes (the space, the control characters, ...) become the characters from U+0100 on, in order. So a
space becomes `Ġ` and a newline `Ċ`. Source: Radford et al., "Language Models are Unsupervised Multitask Learners"
(2019), section 2.2, and the code released with it.

**Marked spaces** (`mark_spaces`): "Hello world" -> "▁Hello▁world", as SentencePiece writes a text. Every space becomes
U+2581, and another one is put before the text, so that a word has the same token at the beginning of a text as in the
middle. A U+2581 in the text itself also becomes a space: only this character is lost. Source: Kudo and Richardson,
"SentencePiece" (2018), section 3.2.
"""

from __future__ import annotations

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHER = [byte for byte in range(256) if byte not in _PRINTABLE]

CHARACTERS = {byte: chr(byte) for byte in _PRINTABLE} | {byte: chr(256 + i) for i, byte in enumerate(_OTHER)}
_BYTES = {character: byte for byte, character in CHARACTERS.items()}


def spell(token: bytes) -> str:
    """Write bytes in the alphabet.

    >>> spell(b" caf\\xc3\\xa9\\n")
    'ĠcafÃ©Ċ'
    """
    return "".join([CHARACTERS[byte] for byte in token])


def unspell(spelling: str) -> bytes | None:
    """Return the bytes that `spell` wrote, or None if a character is not in the alphabet.

    >>> unspell("Ġthe"), unspell(" the")
    (b' the', None)
    """
    try:
        return bytes([_BYTES[character] for character in spelling])
    except KeyError:
        return None


MARK = "\u2581"


def mark_spaces(text: str) -> str:
    """Return a text with its spaces marked, and one before it; an empty text stays empty.

    >>> mark_spaces("to  be")
    '▁to▁▁be'
    """
    return (MARK + text).replace(" ", MARK) if text else ""


def unmark_spaces(text: str) -> str:
    """Return a text, or a part of one, with its marks as spaces; the one before the text remains."""
    return text.replace(MARK, " ")
