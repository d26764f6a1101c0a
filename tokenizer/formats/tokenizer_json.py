"""tokenizer.json: the tokenizer in the format of Hugging Face's tokenizers library.

A model's weights need exactly the tokenizer that they were trained with, and most programs read this format:

    {"model": {"type": "BPE", "vocab": {"!": 38, ...}, "merges": ["Ġ t", ...]}, "added_tokens": [...], ...}

Bytes are written in the alphabet of text/spelling.py. An id that training left unused is listed as `<unused 300>`. Its
space, which the spelling of an ordinary token never contains, makes it different from all of them; and other programs
then count the same number of ids as the model has rows.

Tokenizers that come from SentencePiece (Llama 2's, TinyLlama's and Mistral's) have "byte fallback": tokens are spelled
as they are, with a mark in place of a space, and the bytes of a character without a token have tokens of their own:

    "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2, "<0x00>": 3, ..., "<0xFF>": 258, "▁▁": 259, "▁t": 260, ...}
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any
from unicodedata import is_normalized

from tokenizer.disk import Json, field, read_json, write_json
from tokenizer.errors import TokenizerError
from tokenizer.formats.post_processor import around_documents, post_processor_of
from tokenizer.formats.pre_tokenizer import BYTE_LEVEL, pre_tokenizer_of, split_of
from tokenizer.text.added_tokens import END_OF_TEXT, ROLES, SPECIAL_TOKENS, Roles, find_roles
from tokenizer.text.spelling import MARK, unspell
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

# How tokenizers with byte fallback mark spaces, and how the marks and bytes become text again.
FALLBACK: Json = {
    "normalizer": {
        "type": "Sequence",
        "normalizers": [
            {"type": "Prepend", "prepend": MARK},
            {"type": "Replace", "pattern": {"String": " "}, "content": MARK},
        ],
    },
    "pre_tokenizer": None,
    "decoder": {
        "type": "Sequence",
        "decoders": [
            {"type": "Replace", "pattern": {"String": MARK}, "content": " "},
            *({"type": "ByteFallback"}, {"type": "Fuse"}),
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ],
    },
}
UNKNOWN = "<unk>"  # the token of a character without one, in programs that know no byte fallback; unused here


def write(vocabulary: Vocabulary, path: Path) -> None:
    """Write both files into a folder, or only the first if the path ends in .json."""
    file = path if path.suffix == ".json" else path / FILE
    write_json(file, _tokenizer_document(vocabulary))
    if file is path:
        return
    config: Json = {"tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    config |= named_roles(vocabulary)
    if set(SPECIAL_TOKENS) - {END_OF_TEXT} <= set(vocabulary.specials):
        config["chat_template"] = CHAT_TEMPLATE
    write_json(path / CONFIG_FILE, config)


def named_roles(vocabulary: Vocabulary) -> dict[str, str]:
    """Return the names of the tokens that have a role, as a tokenizer_config.json has them."""
    named = {role: getattr(vocabulary, field) for role, field in ROLES.items()}
    return {role: name for role, name in named.items() if name in vocabulary.specials}


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
            {"id": number, "content": name, "single_word": False, "lstrip": False, "rstrip": False}
            | {"normalized": name in vocabulary.normalized, "special": name in vocabulary.specials}
            for name, number in sorted(added.items(), key=lambda item: item[1])
        ],
        "normalizer": FALLBACK["normalizer"] if fallback else {"type": "NFC"} if vocabulary.nfc else None,
        "pre_tokenizer": None if fallback else pre_tokenizer_of(vocabulary.split),
        "post_processor": post_processor_of(vocabulary),
        "decoder": FALLBACK["decoder"] if fallback else BYTE_LEVEL,
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
            "merges": [" ".join(map(vocabulary.spelling, merge)) for merge in vocabulary.merges],
        },
    }


def read(path: Path) -> Vocabulary:
    """Read a tokenizer.json, and the tokenizer_config.json beside it if there is one.

    Raises TokenizerError naming the file and the field.
    """
    file = path / FILE if path.is_dir() else path
    if not file.exists() and (inside := [str(each.parent) for each in sorted(path.glob(f"*/{FILE}"))[:5]]):
        raise TokenizerError(f"{path} holds no {FILE}; did you mean {' or '.join(inside)}?")
    document, config = read_json(file), read_config(file.parent)
    try:
        return _vocabulary(document, config)
    except TokenizerError as error:
        raise TokenizerError(f"{file}: {error}") from error
    except RecursionError:
        raise TokenizerError(f"{file} is nested deeper than any tokenizer.") from None


def read_config(folder: Path) -> Json:
    """Return the content of the tokenizer_config.json in a folder, if there is one."""
    file = folder / CONFIG_FILE
    return read_json(file) if file.is_file() else {}


def read_roles(config: Json, specials: Collection[str]) -> Roles:
    """Return the tokens of the roles, by the content of a tokenizer_config.json."""
    return find_roles(specials, {role: name for role, name in named_tokens(config).items() if role in ROLES})


def named_tokens(config: Json) -> dict[str, str]:
    """Return the special tokens of a tokenizer_config.json by the names that templates use, such as `bos_token`."""
    named = {key: each.get("content") if isinstance(each, dict) else each for key, each in config.items()}
    return {key: name for key, name in named.items() if key.endswith("_token") and isinstance(name, str)}


def _vocabulary(document: Json, config: Json) -> Vocabulary:
    """Return the vocabulary that a tokenizer.json and the tokenizer_config.json beside it describe."""
    fallback = field(document, "model", dict).get("byte_fallback") is True
    _refuse_other_kinds(document, fallback)
    nfc = not fallback and _is_nfc(document.get("normalizer"))
    added, specials, normalized = _added_tokens(document, nfc)
    spelled = field(document, "model.vocab", dict)
    for spelling, number in spelled.items():
        if type(number) is not int:
            raise TokenizerError(f"field model.vocab: the id of {spelling!r} is {number!r}, expected a whole number.")
    size = 1 + max([*spelled.values(), *specials.values(), *added.values()], default=-1)
    names = specials | added
    ordinary = ((spelling, number) for spelling, number in spelled.items() if spelling not in names)
    named = {spelling: number for spelling, number in ordinary if spelling != f"<unused {number}>"}
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


def _refuse_other_kinds(document: Json, fallback: bool) -> None:
    """Raise TokenizerError for settings that would change the ids and that this package does not support."""
    model = document["model"]
    # Early files, GPT-2's among them, leave the type out.
    kind = "BPE" if "type" not in model and {"vocab", "merges"} <= set(model) else field(document, "model.type", str)
    if kind != "BPE":
        raise TokenizerError(f"field model.type is {kind!r}: only byte-level 'BPE' can be loaded.")
    # A token for unknown text is never needed, because every byte has a token.
    names = ("dropout", "continuing_subword_prefix", "end_of_word_suffix")
    unsupported = {f"model.{name}": model[name] for name in names if model.get(name) not in (None, "", 0)}
    unsupported |= {name: document[name] for name in ("truncation", "padding") if document.get(name) is not None}
    for name, value in unsupported.items():
        raise TokenizerError(f"field {name} is {value!r}: only byte-level BPE without it can be loaded.")
    decoder = field(document, "decoder.type", str)
    if decoder != "ByteLevel" and not fallback:
        raise TokenizerError(f"field decoder.type is {decoder!r}: only 'ByteLevel' can be loaded.")
    for name, expected in FALLBACK.items() if fallback else ():
        if document.get(name) != expected:
            raise TokenizerError(
                f"field {name} is {document.get(name)!r:.200}: with byte_fallback, only {expected!r} can be loaded."
            )
    if fallback and model.get("ignore_merges"):
        raise TokenizerError("field model.ignore_merges is true: with byte_fallback, only false can be loaded.")


def _is_nfc(normalizer: Any) -> bool:
    """Return whether text is normalised to NFC; raises TokenizerError for any other change of the text."""
    steps = [] if normalizer is None else [normalizer]
    if isinstance(normalizer, dict):
        steps = normalizer.get("normalizers", steps)
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


def byte_spelling(byte: int) -> str:
    """Return the spelling of the token of a byte, such as <0x0A>."""
    return f"<0x{byte:02X}>"


def take_byte_ids(spelled: dict[str, Any]) -> tuple[int, ...]:
    """Remove the tokens of bytes from spellings with their ids and return the ids, in the order of bytes.

    Raises TokenizerError if a byte has none.
    """
    names = [byte_spelling(byte) for byte in range(256)]
    for name in names:
        if name not in spelled:
            raise TokenizerError(f"field model.vocab has no token {name}, so some texts could not be encoded.")
    return tuple(map(spelled.pop, names))
