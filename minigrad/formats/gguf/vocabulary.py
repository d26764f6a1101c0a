"""The vocabulary of a GGUF file: that of a tokenizer, in llama.cpp's terms.

Both spell the bytes of a token in GPT-2's alphabet and list the same merges. llama.cpp reads no regular expression: one
of its own programs splits a text into words, chosen by its name (`tokenizer.ggml.pre`).
"""

from __future__ import annotations

from minigrad.errors import InputError
from minigrad.formats.gguf.container import Value
from minigrad.options import shown
from tokenizer.formats.tokenizer_json import spellings
from tokenizer.vocabulary import Vocabulary

# llama.cpp's kinds of tokens: ordinary, special, found in every text, and without a text.
NORMAL, CONTROL, USER_DEFINED, UNUSED = 1, 3, 4, 5

# From the name of a split to that of llama.cpp's program that splits in the same way.
_SPLITS = {"gpt2": "gpt-2", "digits": "smollm", "gpt4": "dbrx", "qwen2": "qwen2"}
_WHOLE_WORDS = {"dbrx": "llama-bpe"}  # the same split, and a word that is a token becomes that token


def describe_vocabulary(vocabulary: Vocabulary, vocab_size: int) -> dict[str, Value]:
    """Return the metadata of a vocabulary, for a network whose embedding has `vocab_size` rows.

    Raises InputError if it does what llama.cpp cannot do.
    """
    return {**_tokens(vocabulary, vocab_size), **_borders(vocabulary)}


def _tokens(vocabulary: Vocabulary, vocab_size: int) -> dict[str, Value]:
    """Return the split, the merges, and the spelling and kind of each token, one for each row of the embedding."""
    # llama.cpp has a tokenizer for byte fallback, but it chooses a pair by the token that the pair becomes, leftmost
    # first, and tokenizer.json chooses by the pair. Where two pairs overlap and become the same token, as in a run of
    # spaces, llama.cpp may take the other one, and so write other tokens.
    if vocabulary.byte_ids:
        raise InputError("it has byte fallback, and only byte-level BPE can be written")
    if vocabulary.nfc:
        raise InputError("it composes characters (NFC), and llama.cpp takes every text as it is")
    if vocabulary.size > vocab_size:
        raise InputError(f"it has {vocabulary.size:,} ids and the model {vocab_size:,}: they do not belong together")
    names, kinds = [f"<unused {row}>" for row in range(vocab_size)], [UNUSED] * vocab_size
    for name, number in spellings(vocabulary).items():
        names[number] = name
    for kind, numbers in (
        (NORMAL, vocabulary.ids.values()),
        (CONTROL, vocabulary.specials.values()),
        (USER_DEFINED, vocabulary.added.values()),
    ):
        for number in numbers:
            kinds[number] = kind
    return {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": split_name(vocabulary.split, whole_words=vocabulary.whole_words),
        "tokenizer.ggml.tokens": names,
        "tokenizer.ggml.token_type": kinds,
        "tokenizer.ggml.merges": [" ".join(map(vocabulary.spelling, merge)) for merge in vocabulary.merges],
    }


def split_name(split: str, *, whole_words: bool = False) -> str:
    """Return llama.cpp's name of a split; raises InputError if it has none.

    With `whole_words`, a word that is a token becomes that token, whatever the merges would give.

    >>> split_name("gpt2")
    'gpt-2'
    """
    name = _SPLITS.get(split)
    if whole_words:
        name = _WHOLE_WORDS.get(name or "")
    if name is None:
        raise InputError(
            f"llama.cpp has no split like {shown(split)}{' with ignore_merges' * whole_words}; it has those called "
            "gpt2, digits, gpt4 and qwen2 here"
        )
    return name


def _borders(vocabulary: Vocabulary) -> dict[str, Value]:
    """Return the special tokens at the borders of documents and of a chat's turns.

    Every text begins with a token, as in generate.py: with the one that the tokenizer puts before documents, or else
    with the one between documents. In generate.py a conversation does not begin with such a token, but llama.cpp has
    one setting for both.
    """
    specials, (before, after), end = vocabulary.specials, (vocabulary.before, vocabulary.after), vocabulary.end_of_text
    if end not in specials:
        raise InputError(f"it has no special token {shown(end)} to end a document")
    if len(before) > 1 or after not in ((), (end,)):
        raise InputError(f"it puts {[*before]} before and {[*after]} after a text, which llama.cpp cannot do")
    borders: dict[str, Value] = {
        "tokenizer.ggml.bos_token_id": specials[before[0] if before else end],
        "tokenizer.ggml.eos_token_id": specials[end],
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": bool(after),
    }
    if "<|end|>" in specials:  # of a message
        borders["tokenizer.ggml.eot_token_id"] = specials["<|end|>"]
    return borders
