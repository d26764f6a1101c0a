"""vocab.json and merges.txt: the two files in which GPT-2 was released, and early models after it.

vocab.json gives the id of each token, spelled in the alphabet of text/spelling.py; merges.txt has one merge per line,
in the order of learning, after a line with the version. The files contain nothing else: text is split by GPT-2's
pattern, and a token that is neither a byte nor the result of a merge is a special token, because no text gives it.

Source: Radford et al. (2019), and the code released with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from tokenizer.disk import read_file, read_json, write_file, write_json
from tokenizer.errors import TokenizerError
from tokenizer.formats.tokenizer_json import CONFIG_FILE, named_roles, read_config, read_roles, spellings
from tokenizer.text.spelling import spell, unspell
from tokenizer.text.unicode import decode_utf8
from tokenizer.vocabulary import Vocabulary

FILES = ("vocab.json", "merges.txt")


def check(vocabulary: Vocabulary) -> None:
    """Raise TokenizerError if the tokenizer needs more than the two files can store."""
    made = {left + right for left, right in vocabulary.merges}
    unsupported = {
        f"split={vocabulary.split!r}": vocabulary.split != "gpt2",
        "added tokens": vocabulary.added,
        "NFC": vocabulary.nfc,
        "byte fallback": vocabulary.byte_ids,
        "whole words before merges": vocabulary.whole_words,
        "tokens that no merge makes": len(vocabulary.ids) > 256 + len(made),
        "tokens around every document": vocabulary.before or vocabulary.after,
    }
    if found := [name for name, present in unsupported.items() if present]:
        raise TokenizerError(f"{' and '.join(FILES)} cannot store {', '.join(found)}: save as tokenizer.json instead.")


def write(vocabulary: Vocabulary, folder: Path) -> None:
    """Write both files, and the end of text into tokenizer_config.json."""
    vocab_file, merges_file = (folder / name for name in FILES)
    lines = [f"{spell(left)} {spell(right)}\n" for left, right in vocabulary.merges]
    write_json(vocab_file, spellings(vocabulary))
    write_file(merges_file, "".join(["#version: 0.2\n", *lines]).encode())
    if roles := named_roles(vocabulary):
        write_json(folder / CONFIG_FILE, {"tokenizer_class": "GPT2Tokenizer", **roles, "add_prefix_space": False})


def read(folder: Path) -> Vocabulary:
    """Read vocab.json and merges.txt, and the end of text from tokenizer_config.json if the folder has one.

    Raises TokenizerError naming the file, and the token or the line.
    """
    vocab_file, merges_file = (folder / name for name in FILES)
    numbers = read_json(vocab_file)
    merges = tuple(_merges(merges_file))
    ordinary = {bytes([byte]) for byte in range(256)} | {left + right for left, right in merges}
    ids: dict[bytes, int] = {}
    specials: dict[str, int] = {}
    for spelling, number in numbers.items():
        if type(number) is not int:
            raise TokenizerError(f"{vocab_file}: the id of {spelling!r} is {number!r}, expected a whole number.")
        token = unspell(spelling)
        if token in ordinary:
            ids[token] = number
        elif spelling != f"<unused {number}>":
            specials[spelling] = number
    size, roles = 1 + max(numbers.values(), default=-1), read_roles(read_config(folder), specials)
    try:
        return Vocabulary(split="gpt2", ids=ids, merges=merges, specials=specials, size=size, **roles)
    except TokenizerError as error:
        raise TokenizerError(f"{vocab_file} and {merges_file}: {error}") from error


def _merges(file: Path) -> Iterator[tuple[bytes, bytes]]:
    """Yield the two tokens of each merge in merges.txt; raises TokenizerError naming the line."""
    try:
        text = decode_utf8(read_file(file), way_out="the file is damaged")
    except TokenizerError as error:
        raise TokenizerError(f"{file}: {error}") from error
    # Many programs write no line end after the last line, so a file that was cut short cannot be detected.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line or (number == 1 and line.startswith("#version")):
            continue
        parts = [unspell(part) for part in line.rstrip("\r").split(" ")]
        if len(parts) != 2 or not parts[0] or not parts[1]:
            raise TokenizerError(f"{file}, line {number} is {line!r}, expected two tokens of the byte alphabet.")
        yield parts[0], parts[1]
