"""tokenizer.json: the tokenizer in the format of Hugging Face's tokenizers library.

A model's weights need exactly the tokenizer that they were trained with, and most programs read this format:

    {"model": {"type": "BPE", "vocab": {"!": 38, ...}, "merges": ["Ġ t", ...]}, "added_tokens": [...], ...}

Bytes are written in the alphabet of text/spelling.py. An id that training left unused is listed as `<unused 300>`. Its
space, which the spelling of an ordinary token never contains, makes it different from all of them; and other programs
then count the same number of ids as the model has rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from unicodedata import is_normalized

from tokenizer.disk import Json, field, read_json, write_json
from tokenizer.errors import TokenizerError
from tokenizer.formats.byte_fallback import (
    DECODER,
    NORMALIZER,
    UNKNOWN,
    byte_spelling,
    check_fields,
    is_byte_fallback,
    take_byte_ids,
)
from tokenizer.formats.post_processor import around_documents, post_processor_of
from tokenizer.formats.pre_tokenizer import BYTE_LEVEL, pre_tokenizer_of, split_of
from tokenizer.text.added_tokens import SPECIAL_TOKENS
from tokenizer.text.roles import END_OF_TEXT, ROLES, Roles, find
from tokenizer.text.spelling import unspell
from tokenizer.text.unicode import encode_utf8
from tokenizer.vocabulary import Vocabulary

FILE, CONFIG_FILE = "tokenizer.json", "tokenizer_config.json"

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{% if message['role'] == 'user' %}<|user|>"
    "{% elif message['role'] == 'assistant' %}<|assistant|>"
    "{% elif message['role'] == 'system' %}<|system|>"
    "{% else %}{{ raise_exception('expected the role user, assistant or system, not ' ~ message['role']) }}"
    "{% endif %}{{ message['content'] }}<|end|>"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
"""The form of a conversation in chat.py, in the Jinja language that the transformers library runs.

Each special token is written in full, so transformers can distinguish it from the same characters in a message.
"""


def write(vocabulary: Vocabulary, path: Path) -> None:
    """Write both files into a folder, or only the first if the path ends in .json."""
    file = path if path.suffix == ".json" else path / FILE
    write_json(file, _tokenizer_document(vocabulary))
    if file is not path:
        write_json(path / CONFIG_FILE, _config_document(vocabulary))


def spellings(vocabulary: Vocabulary) -> dict[str, int]:
    """Return each spelling and its id, in the order of ids: ordinary tokens, names of special tokens, unused ids."""
    names = {number: f"<unused {number}>" for number in range(vocabulary.size)}
    names |= {number: vocabulary.spelling(token) for token, number in vocabulary.ids.items()}
    names |= {number: byte_spelling(byte) for byte, number in enumerate(vocabulary.byte_ids)}
    names |= {number: name for name, number in (vocabulary.specials | vocabulary.added).items()}
    return {name: number for number, name in names.items()}


def _tokenizer_document(vocabulary: Vocabulary) -> Json:
    """Return the content of tokenizer.json; raises TokenizerError for a pattern that others would read differently."""
    added, fallback = vocabulary.specials | vocabulary.added, bool(vocabulary.byte_ids)
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": number,
                "content": name,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": name in vocabulary.normalized,
                "special": name in vocabulary.specials,
            }
            for name, number in sorted(added.items(), key=lambda item: item[1])
        ],
        "normalizer": NORMALIZER if fallback else {"type": "NFC"} if vocabulary.nfc else None,
        "pre_tokenizer": None if fallback else pre_tokenizer_of(vocabulary.split),
        "post_processor": post_processor_of(vocabulary),
        "decoder": DECODER if fallback else BYTE_LEVEL,
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": UNKNOWN if fallback and UNKNOWN in vocabulary.specials else None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": fallback,
            "byte_fallback": fallback,
            "ignore_merges": vocabulary.whole_words,
            "vocab": spellings(vocabulary),
            "merges": [
                f"{vocabulary.spelling(left)} {vocabulary.spelling(right)}" for left, right in vocabulary.merges
            ],
        },
    }


def _config_document(vocabulary: Vocabulary) -> Json:
    """Return the content of tokenizer_config.json."""
    document: Json = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    named = {role: getattr(vocabulary, field) for role, field in ROLES.items()}
    document |= {role: name for role, name in named.items() if name in vocabulary.specials}
    if set(SPECIAL_TOKENS) - {END_OF_TEXT} <= set(vocabulary.specials):
        document["chat_template"] = CHAT_TEMPLATE
    return document


def read(path: Path) -> Vocabulary:
    """Read a tokenizer.json, and the tokenizer_config.json beside it if there is one.

    Raises TokenizerError naming the file and the field.
    """
    file = path / FILE if path.is_dir() else path
    document, config_file = read_json(file), file.with_name(CONFIG_FILE)
    config = read_json(config_file) if config_file.is_file() else {}
    try:
        return _vocabulary(document, config)
    except TokenizerError as error:
        raise TokenizerError(f"{file}: {error}") from error
    except RecursionError:
        raise TokenizerError(f"{file} is nested deeper than any tokenizer.") from None


def read_roles(config: Json, specials: Collection[str]) -> Roles:
    """Return the tokens of the roles, by the content of a tokenizer_config.json."""
    contents = {}
    for role in ROLES:
        token = config.get(role)
        content = token.get("content") if isinstance(token, dict) else token
        if isinstance(content, str):
            contents[role] = content
    return find(specials, contents)


def _vocabulary(document: Json, config: Json) -> Vocabulary:
    """Return the vocabulary that a tokenizer.json and the tokenizer_config.json beside it describe."""
    _refuse_other_kinds(document)
    fallback = is_byte_fallback(document)
    if fallback:
        check_fields(document)
    nfc = not fallback and _is_nfc(document.get("normalizer"))
    added, specials, normalized = _added_tokens(document, nfc)
    spelled = field(document, "model.vocab", dict)
    for spelling, number in spelled.items():
        if type(number) is not int:
            raise TokenizerError(f"field model.vocab: the id of {spelling!r} is {number!r}, expected a whole number.")
    size = 1 + max([*spelled.values(), *specials.values(), *added.values()], default=-1)
    names = specials | added
    named = {spelling: number for spelling, number in spelled.items() if spelling not in names}
    byte_ids = take_byte_ids(named) if fallback else ()
    read = encode_utf8 if fallback else unspell
    ids = {token: number for spelling, number in named.items() if (token := read(spelling)) is not None}
    before, after = around_documents(document.get("post_processor"), specials)
    return Vocabulary(
        split="none" if fallback else split_of(field(document, "pre_tokenizer", dict)),
        ids=ids,
        merges=tuple(_merges(document, read)),
        specials=specials,
        size=size,
        **read_roles(config, specials),
        added=added,
        normalized=normalized,
        nfc=nfc,
        whole_words=_is_set(document["model"], "ignore_merges", "model"),
        before=before,
        after=after,
        byte_ids=byte_ids,
    )


def _refuse_other_kinds(document: Json) -> None:
    """Raise TokenizerError for settings that would change the ids and that this package does not support."""
    model = field(document, "model", dict)
    # Early files, GPT-2's among them, leave the type out.
    kind = "BPE" if "type" not in model and {"vocab", "merges"} <= set(model) else field(document, "model.type", str)
    if kind != "BPE":
        raise TokenizerError(f"field model.type is {kind!r}: only byte-level 'BPE' can be loaded.")
    # A token for unknown text is never needed, because every byte has a token.
    for name in ("dropout", "continuing_subword_prefix", "end_of_word_suffix"):
        if model.get(name) not in (None, "", 0):
            raise TokenizerError(
                f"field model.{name} is {model[name]!r}: only byte-level BPE without it can be loaded."
            )
    for name in ("truncation", "padding"):
        if document.get(name) is not None:
            raise TokenizerError(f"field {name} is {document[name]!r}: only a tokenizer without it can be loaded.")
    decoder = field(document, "decoder.type", str)
    if decoder != "ByteLevel" and not is_byte_fallback(document):
        raise TokenizerError(f"field decoder.type is {decoder!r}: only 'ByteLevel' can be loaded.")


def _is_nfc(normalizer: Any) -> bool:
    """Return whether text is normalised to NFC; raises TokenizerError for any other change of the text."""
    steps = normalizer.get("normalizers") if isinstance(normalizer, dict) and "normalizers" in normalizer else None
    if steps is None:
        steps = [] if normalizer is None else [normalizer]
    if not isinstance(steps, list) or any(step != {"type": "NFC"} for step in steps):
        raise TokenizerError(f"field normalizer is {normalizer!r}: only null and NFC can be loaded.")
    return bool(steps)


def _added_tokens(document: Json, nfc: bool) -> tuple[dict[str, int], dict[str, int], frozenset[str]]:
    """Return the added tokens, the special tokens, and the names of the tokens marked `normalized`."""
    vocab = field(document, "model.vocab", dict)
    added: dict[str, int] = {}
    specials: dict[str, int] = {}
    normalized = set()
    for i, token in enumerate(field(document, "added_tokens", list)):
        name = f"added_tokens[{i}]"
        if not isinstance(token, dict):
            raise TokenizerError(f"field {name} is {token!r}, expected an object.")
        content = field(token, "content", str, within=name)
        number = field(token, "id", int, within=name)
        for flag in ("single_word", "lstrip", "rstrip"):
            if _is_set(token, flag, name):
                raise TokenizerError(f"field {name}.{flag} is true: only tokens without it can be loaded.")
        if vocab.get(content, number) != number:
            raise TokenizerError(f"field {name}.id is {number}, but model.vocab gives {content!r} {vocab[content]!r}.")
        if content in specials or content in added:
            raise TokenizerError(f"field {name}.content is {content!r}, which an added token before it has already.")
        if _is_set(token, "normalized", name):
            normalized.add(content)
            if nfc and not is_normalized("NFC", content):
                raise TokenizerError(f"field {name}.content is {content!r}, which text in NFC cannot contain.")
        (specials if _is_set(token, "special", name) else added)[content] = number
    return added, specials, frozenset(normalized)


def _is_set(document: Json, flag: str, within: str) -> bool:
    """Return the value of a flag, which is false where it is missing; raises TokenizerError if it is not a bool."""
    return flag in document and field(document, flag, bool, within=within)


def _merges(document: Json, read: Callable[[str], bytes | None]) -> Iterator[tuple[bytes, bytes]]:
    """Yield the two tokens of each merge, which `read` reads; raises TokenizerError naming the field."""
    for i, merge in enumerate(field(document, "model.merges", list)):
        # Older files write "Ġ t", newer ones ["Ġ", "t"].
        parts = merge.split(" ") if isinstance(merge, str) else merge
        spelled = isinstance(parts, list) and len(parts) == 2 and all(isinstance(part, str) for part in parts)
        left, right = map(read, parts) if spelled else (None, None)
        if not left or not right:
            raise TokenizerError(f"field model.merges[{i}] is {merge!r}, expected two tokens of the byte alphabet.")
        yield left, right
