"""The formats in which a tokenizer can be stored, and the format that a path means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path

from tokenizer.errors import TokenizerError
from tokenizer.formats import gpt2_files, rank_files, tokenizer_json
from tokenizer.vocabulary import Vocabulary

RANK_SUFFIX = ".tiktoken"

FORMATS: dict[str, Callable[[Vocabulary, Path], None]] = {
    "huggingface": tokenizer_json.write,  # tokenizer.json and tokenizer_config.json: they store everything
    "gpt2": gpt2_files.write,  # vocab.json and merges.txt
    "tiktoken": rank_files.write,  # a rank file
}
"""From the name of a format to the function that writes it."""


def write(vocabulary: Vocabulary, path: Path, format: str | None = None) -> None:
    """Write a tokenizer; without a format, a path ending in .tiktoken means a rank file, any other huggingface.

    Raises TokenizerError for an unknown format, or one that cannot store this tokenizer.
    """
    name = format or ("tiktoken" if path.suffix == RANK_SUFFIX else "huggingface")
    if name not in FORMATS:
        nearest = get_close_matches(name, FORMATS, n=1)
        hint = f"; did you mean {nearest[0]!r}?" if nearest else "."
        raise TokenizerError(f"unknown format {name!r}: expected one of {', '.join(FORMATS)}{hint}")
    FORMATS[name](vocabulary, path)


def read(path: Path, split: str | None = None, special_tokens: Mapping[str, int] | None = None) -> Vocabulary:
    """Read a tokenizer: a tokenizer.json, a rank file (.tiktoken), vocab.json or merges.txt, or a folder of these.

    In a folder, tokenizer.json comes before vocab.json and merges.txt. A rank file holds neither its split nor its
    special tokens: give `split` and `special_tokens`, or leave them out for the files that OpenAI publishes.
    Raises TokenizerError naming the file and the fault, also if either is given for another format.
    """
    if path.suffix == RANK_SUFFIX:
        return rank_files.read(path, split, special_tokens)
    if split is not None or special_tokens is not None:
        raise TokenizerError(
            f"{path} contains its split and its special tokens: the arguments split and special_tokens are for rank "
            f"files, whose names end in {RANK_SUFFIX}."
        )
    if path.name in (gpt2_files.VOCAB_FILE, gpt2_files.MERGES_FILE):
        return gpt2_files.read(path.parent)
    has_gpt2_files = (path / gpt2_files.VOCAB_FILE).is_file() and (path / gpt2_files.MERGES_FILE).is_file()
    if has_gpt2_files and not (path / tokenizer_json.TOKENIZER_FILE).is_file():
        return gpt2_files.read(path)
    return tokenizer_json.read(path)
