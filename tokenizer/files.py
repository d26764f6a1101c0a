"""tokenizer.json: the tokenizer in the format of Hugging Face's tokenizers library.

Model weights are of no use without the exact tokenizer, and this format is the one that other programs read:

    {"model": {"type": "BPE", "vocab": {"!": 38, ...}, "merges": ["Ġ t", ...]}, "added_tokens": [...], ...}

Bytes are written in the alphabet of alphabet.py. An id that training left unused is listed as `<unused 300>`:
the space, which no token of bytes can contain, tells it apart, and other programs then count as many ids as
the model has rows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from tokenizer.alphabet import spell, unspell
from tokenizer.errors import TokenizerError
from tokenizer.split import BYTE_LEVEL, SPLITS
from tokenizer.vocabulary import END_OF_TEXT, SPECIAL_TOKENS, Vocabulary

Value = TypeVar("Value")
Json = dict[str, Any]

TOKENIZER_FILE = "tokenizer.json"
CONFIG_FILE = "tokenizer_config.json"

CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""chat.py's form of a conversation, in the Jinja language that the transformers library runs."""


def write(vocabulary: Vocabulary, path: Path) -> None:
    """Write both files into a folder, or only the first if the path ends in .json."""
    file = path if path.suffix == ".json" else path / TOKENIZER_FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    _write_json(file, _tokenizer_document(vocabulary))
    if file is not path:
        _write_json(path / CONFIG_FILE, _config_document(vocabulary))


def _tokenizer_document(vocabulary: Vocabulary) -> Json:
    spellings = {number: f"<unused {number}>" for number in range(vocabulary.size)}
    spellings |= {number: spell(token) for token, number in vocabulary.ids.items()}
    spellings |= {number: special for special, number in vocabulary.specials.items()}
    plain = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": number, "content": special, **plain}
            for special, number in sorted(vocabulary.specials.items(), key=lambda item: item[1])
        ],
        "normalizer": None,
        "pre_tokenizer": SPLITS[vocabulary.split].pre_tokenizer,
        "post_processor": None,
        "decoder": BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {spelling: number for number, spelling in spellings.items()},
            "merges": [f"{spell(left)} {spell(right)}" for left, right in vocabulary.merges],
        },
    }


def _config_document(vocabulary: Vocabulary) -> Json:
    document: Json = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    if vocabulary.end_of_text in vocabulary.specials:
        document["eos_token"] = vocabulary.end_of_text
    if set(SPECIAL_TOKENS) <= set(vocabulary.specials):
        document["chat_template"] = CHAT_TEMPLATE
    return document


def _write_json(path: Path, document: Json) -> None:
    # Renaming is one step, so whoever reads finds the old file or the new one, never half a file. The bytes must be
    # on the disk before it (fsync), or after a power cut the new name could stand on an empty file.
    temporary = path.with_name(path.name + ".part")
    with temporary.open("wb") as file:
        file.write((json.dumps(document, ensure_ascii=False, indent=1) + "\n").encode())
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def read(path: Path) -> Vocabulary:
    """Read a tokenizer.json, and the tokenizer_config.json beside it if there is one.

    Raises TokenizerError naming the file and the field.
    """
    file = path / TOKENIZER_FILE if path.is_dir() else path
    document = _read_json(file)
    config_file = file.with_name(CONFIG_FILE)
    config = _read_json(config_file) if config_file.is_file() else {}
    try:
        return _vocabulary(document, _end_of_text(config))
    except TokenizerError as error:
        raise TokenizerError(f"{file}: {error}") from error


def _read_json(path: Path) -> Json:
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise TokenizerError(f"cannot read {path}: {error.strerror}.") from error
    except (ValueError, RecursionError) as error:
        raise TokenizerError(f"{path} is not JSON text, or is cut short: {error}.") from error
    if not isinstance(document, dict):
        raise TokenizerError(f"{path} holds a {type(document).__name__}, expected a JSON object.")
    return document


def _end_of_text(config: Json) -> str:
    token = config.get("eos_token")
    content = token.get("content") if isinstance(token, dict) else token
    return content if isinstance(content, str) else END_OF_TEXT


def _vocabulary(document: Json, end_of_text: str) -> Vocabulary:
    _refuse_other_kinds(document)
    specials = dict(_specials(document))
    spellings = _field(document, "model.vocab", dict)
    ids: dict[bytes, int] = {}
    for spelling, number in spellings.items():
        if type(number) is not int:
            raise TokenizerError(f"field model.vocab: the id of {spelling!r} is {number!r}, expected a whole number.")
        token = None if spelling in specials else unspell(spelling)
        if token is not None:
            ids[token] = number
    return Vocabulary(
        split=_split(document),
        ids=ids,
        merges=tuple(_merges(document)),
        specials=specials,
        size=1 + max([*spellings.values(), *specials.values()], default=-1),
        end_of_text=end_of_text,
    )


def _refuse_other_kinds(document: Json) -> None:
    """Raise TokenizerError for settings that would change the ids and that this package does not know."""
    kind = _field(document, "model.type", str)
    if kind != "BPE":
        raise TokenizerError(f"field model.type is {kind!r}: only byte-level 'BPE' can be loaded.")
    model = document["model"]
    for name in ("dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "ignore_merges"):
        if model.get(name):
            raise TokenizerError(
                f"field model.{name} is {model[name]!r}: only byte-level BPE without it can be loaded."
            )
    for name in ("truncation", "padding", "normalizer"):
        if document.get(name) is not None:
            raise TokenizerError(f"field {name} is {document[name]!r}: only a tokenizer without it can be loaded.")
    decoder = _field(document, "decoder.type", str)
    if decoder != "ByteLevel":
        raise TokenizerError(f"field decoder.type is {decoder!r}: only 'ByteLevel' can be loaded.")
    # A ByteLevel post-processor only trims offsets, which are not kept here.
    if document.get("post_processor") and _field(document, "post_processor.type", str) != "ByteLevel":
        raise TokenizerError(
            f"field post_processor.type is {document['post_processor']['type']!r}: it would add tokens "
            "of its own, and only null or 'ByteLevel' can be loaded."
        )


def _split(document: Json) -> str:
    """Return the name of the split that the pre-tokenizer does."""
    found = _field(document, "pre_tokenizer", dict)
    for name, split in SPLITS.items():
        if _deciding(found) == _deciding(split.pre_tokenizer):
            return name
    raise TokenizerError(
        f"field pre_tokenizer is {json.dumps(found)}: only these can be loaded: "
        f"{json.dumps([split.pre_tokenizer for split in SPLITS.values()])}."
    )


def _deciding(pre_tokenizer: Json) -> Json:
    """Return a pre-tokenizer without what does not change the words, and with the default of what does."""
    known = {key: value for key, value in pre_tokenizer.items() if key != "trim_offsets"}
    if known.get("type") == "ByteLevel":
        known.setdefault("use_regex", True)
    if isinstance(known.get("pretokenizers"), list):
        known["pretokenizers"] = [_deciding(part) for part in known["pretokenizers"] if isinstance(part, dict)]
    return known


def _specials(document: Json) -> Iterator[tuple[str, int]]:
    vocab = _field(document, "model.vocab", dict)
    for i, token in enumerate(_field(document, "added_tokens", list)):
        name = f"added_tokens[{i}]"
        if not isinstance(token, dict):
            raise TokenizerError(f"field {name} is {token!r}, expected an object.")
        content = _field(token, "content", str, within=name)
        number = _field(token, "id", int, within=name)
        for flag in ("single_word", "lstrip", "rstrip"):
            if token.get(flag):
                raise TokenizerError(f"field {name}.{flag} is true: only tokens without it can be loaded.")
        if not token.get("special"):
            raise TokenizerError(
                f"field {name}.special is not true: {content!r} would be cut out of every text, and only "
                "special tokens can be loaded."
            )
        if vocab.get(content, number) != number:
            raise TokenizerError(f"field {name}.id is {number}, but model.vocab gives {content!r} {vocab[content]!r}.")
        yield content, number


def _merges(document: Json) -> Iterator[tuple[bytes, bytes]]:
    for i, merge in enumerate(_field(document, "model.merges", list)):
        # Older files write "Ġ t", newer ones ["Ġ", "t"].
        parts = merge.split(" ") if isinstance(merge, str) else merge
        spelled = isinstance(parts, list) and len(parts) == 2 and all(isinstance(part, str) for part in parts)
        left, right = map(unspell, parts) if spelled else (None, None)
        if not left or not right:
            raise TokenizerError(f"field model.merges[{i}] is {merge!r}, expected two tokens of the byte alphabet.")
        yield left, right


def _field(document: Json, name: str, kind: type[Value], *, within: str = "") -> Value:
    """Return the value at a dotted name; raises TokenizerError if it is missing or of another type."""
    value: Any = document
    for key in name.split("."):
        value = value.get(key) if isinstance(value, dict) else None
    if type(value) is not kind:
        full = f"{within}.{name}" if within else name
        found = "missing" if value is None else f"{value!r:.60}"
        raise TokenizerError(f"field {full} is {found}, expected {kind.__name__}.")
    return value
