"""The vocabulary of a GGUF file: tokenizer.json and tokenizer_config.json in llama.cpp's terms.

Both files spell the bytes of a token in GPT-2's alphabet and list the same merges. llama.cpp reads no regular
expression: one of its own programs splits a text into words, chosen by its name (`tokenizer.ggml.pre`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from minigrad.errors import InputError
from minigrad.formats.gguf.container import Value
from minigrad.formats.json_files import read_json
from minigrad.formats.typed import read_dataclass
from minigrad.options import shown
from tokenizer.errors import TokenizerError
from tokenizer.formats.post_processor import around_documents
from tokenizer.formats.pre_tokenizer import split_of

# llama.cpp's kinds of tokens: ordinary, special, found in every text, and without a text.
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5

# From the name of a split to that of llama.cpp's program that splits in the same way.
_SPLITS = {"gpt2": "gpt-2", "digits": "smollm", "gpt4": "dbrx", "qwen2": "qwen2"}
_WHOLE_WORDS = {"dbrx": "llama-bpe"}  # the same split, and a word that is a token becomes that token


@dataclass(frozen=True)
class _Added:
    """An entry of `added_tokens`."""

    id: int
    content: str
    special: bool = False


@dataclass(frozen=True)
class _Model:
    """The field `model`."""

    vocab: dict[str, int]
    merges: list[Any]
    type: str = "BPE"
    ignore_merges: bool = False
    byte_fallback: bool = False


@dataclass(frozen=True)
class _File:
    """The fields of tokenizer.json that decide the tokens of a text."""

    model: _Model
    pre_tokenizer: dict[str, Any] | None = None
    added_tokens: list[_Added] = field(default_factory=list)
    normalizer: dict[str, Any] | None = None
    post_processor: dict[str, Any] | None = None


def read_vocabulary(folder: Path, vocab_size: int) -> dict[str, Value]:
    """Return the metadata of the tokenizer in a folder, for a network whose embedding has `vocab_size` rows.

    Raises InputError, naming the file, if it is missing or damaged, or describes what llama.cpp cannot do.
    """
    path, config_file = folder / "tokenizer.json", folder / "tokenizer_config.json"
    document, config = read_json(path), read_json(config_file) if config_file.exists() else {}
    try:
        file = read_dataclass(_File, document, ignore_unknown=True)
        return {**_tokens(file, vocab_size), **_borders(file, config)}
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _tokens(file: _File, vocab_size: int) -> dict[str, Value]:
    """Return the split, the merges, and the spelling and kind of each token, one for each row of the embedding."""
    # llama.cpp has a tokenizer for byte fallback, but it chooses a pair by the token that the pair becomes, leftmost
    # first, and tokenizer.json chooses by the pair. Where two pairs overlap and become the same token, as in a run of
    # spaces, llama.cpp may take the other one, and so write other tokens.
    if file.model.type != "BPE" or file.model.byte_fallback:
        found = shown(file.model.type) + " with byte_fallback" * file.model.byte_fallback
        raise InputError(f"model.type is {found}, and only byte-level BPE can be written")
    if file.normalizer is not None:
        raise InputError(f"normalizer is {shown(file.normalizer)}: llama.cpp takes every text as it is")
    names, kinds = [f"<unused {row}>" for row in range(vocab_size)], [UNUSED] * vocab_size
    tokens = [(name, number, NORMAL) for name, number in file.model.vocab.items()]
    tokens += [(each.content, each.id, CONTROL if each.special else USER_DEFINED) for each in file.added_tokens]
    for name, number, kind in tokens:
        if not 0 <= number < vocab_size:
            raise InputError(
                f"token {shown(name)} has the id {number}, but the model's ids end at {vocab_size - 1}: "
                "they do not belong together"
            )
        if name != f"<unused {number}>":  # which is how tokenizer.json writes an id without a token
            names[number], kinds[number] = name, kind
    if len(set(names)) < vocab_size:
        raise InputError("two ids have the same token")
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": split_name(file.pre_tokenizer, whole_words=file.model.ignore_merges),
        "tokenizer.ggml.tokens": names,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": [_merge(index, each) for index, each in enumerate(file.model.merges)],
    }


def _merge(index: int, merge: Any) -> str:
    """Return the two tokens of a merge with a space between them, as older files write it; newer ones have a list."""
    parts = merge.split(" ") if isinstance(merge, str) else merge
    if not isinstance(parts, list) or len(parts) != 2 or not all(isinstance(part, str) and part for part in parts):
        raise InputError(f"model.merges[{index}] is {shown(merge)}, not two tokens")
    return " ".join(parts)


def split_name(pre_tokenizer: dict[str, Any] | None, *, whole_words: bool = False) -> str:
    """Return llama.cpp's name of the split that a pre-tokenizer makes; raises InputError if it has none.

    With `whole_words`, a word that is a token becomes that token, whatever the merges would give.

    >>> split_name({"type": "ByteLevel", "add_prefix_space": False})
    'gpt-2'
    """
    try:
        name = _SPLITS.get(split_of(pre_tokenizer or {}))
    except TokenizerError:
        name = None
    if whole_words:
        name = _WHOLE_WORDS.get(name or "")
    if name is None:
        raise InputError(
            f"llama.cpp has no split like pre_tokenizer {shown(pre_tokenizer)}{' with ignore_merges' * whole_words}; "
            "it has those called gpt2, digits, gpt4 and qwen2 here"
        )
    return name


def _borders(file: _File, config: dict[str, Any]) -> dict[str, Value]:
    """Return the special tokens at the borders of documents and of a chat's turns.

    Every text begins with a token, as in generate.py: with the one that tokenizer.json puts before documents, or else
    with the one between documents. In generate.py a conversation does not begin with such a token, but llama.cpp has
    one setting for both.
    """
    specials = {each.content: each.id for each in file.added_tokens if each.special}
    token = config.get("eos_token", "<|endoftext|>")
    end = token.get("content") if isinstance(token, dict) else token
    if not isinstance(end, str) or end not in specials:
        raise InputError(f"it has no special token {shown(end)} to end a document")
    try:
        before, after = around_documents(file.post_processor, specials)
    except TokenizerError as error:
        raise InputError(str(error)) from None
    if len(before) > 1 or after not in ((), (end,)):
        sides = f"{[*before]} before and {[*after]} after a text"
        raise InputError(f"post_processor puts {sides}, which llama.cpp cannot do")
    borders: dict[str, Value] = {
        "tokenizer.ggml.bos_token_id": specials[before[0] if before else end],
        "tokenizer.ggml.eos_token_id": specials[end],
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": bool(after),
    }
    if "<|end|>" in specials:  # of a message
        borders["tokenizer.ggml.eot_token_id"] = specials["<|end|>"]
    return borders
