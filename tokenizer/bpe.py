"""The tokenizer: text to token ids and back."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import NDArray

from tokenizer.disk import located
from tokenizer.encode.characters import CharacterEncoder, decode_with_fallback
from tokenizer.encode.encoder import Encoder, encoder_of
from tokenizer.encode.stream import StreamDecoder, StreamEncoder
from tokenizer.errors import TokenizerError, did_you_mean
from tokenizer.formats import gpt2_files, rank_files, tokenizer_json
from tokenizer.learn.count import DEFAULT_MEMORY, count_words
from tokenizer.learn.trainer import learn_merges
from tokenizer.text.added_tokens import END_OF_TEXT, SPECIAL_TOKENS, AddedTokens, Allowed, find_roles
from tokenizer.text.chunks import checked, num_threads
from tokenizer.text.spelling import mark_spaces
from tokenizer.text.unicode import compose, composed, decode_utf8
from tokenizer.vocabulary import LARGEST_SIZE, Vocabulary

FORMATS: dict[str, Callable[[Vocabulary, Path], None]] = {
    "huggingface": tokenizer_json.write,  # tokenizer.json and tokenizer_config.json: they store everything
    "gpt2": gpt2_files.write,  # vocab.json and merges.txt
    "tiktoken": rank_files.write,  # a rank file
}
"""The formats of files, and the functions that write them."""
_CHECKS: dict[str, Callable[[Vocabulary], None]] = {"gpt2": gpt2_files.check, "tiktoken": rank_files.check}


class Tokenizer:
    """Byte-level byte-pair encoding; `tokenizer.train` and `tokenizer.load` make one.

    Every text has an encoding and is decoded unchanged, because each byte is a token. Some tokenizers of other authors
    change a text first: one with NFC composes characters, and one with byte fallback reads U+2581 as a space.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self._encoder = CharacterEncoder(vocabulary) if vocabulary.byte_ids else encoder_of(vocabulary)
        normalise = mark_spaces if vocabulary.byte_ids else compose if vocabulary.nfc else None
        self._added = AddedTokens(vocabulary.specials, vocabulary.added, vocabulary.normalized, normalise)

    @property
    def vocab_size(self) -> int:
        """The number of ids, 0 to vocab_size - 1: the rows of a model's embedding."""
        return self.vocabulary.size

    @property
    def used(self) -> int:
        """The number of ids that have a token; less than vocab_size if training ran out of pairs."""
        return len(self.vocabulary.token_bytes)

    @property
    def ids(self) -> list[int]:
        """The ids that have a token, in ascending order; files of other libraries may leave gaps between them."""
        return sorted(self.vocabulary.token_bytes)

    @property
    def specials(self) -> dict[str, int]:
        """The special tokens and their ids."""
        return dict(self.vocabulary.specials)

    @property
    def end_of_text_id(self) -> int:
        """The id of the token between documents; raises TokenizerError if there is no such token."""
        name = self.vocabulary.end_of_text
        if name not in self.vocabulary.specials:
            raise TokenizerError(
                f"this tokenizer has no token {name!r} to put between documents; its special tokens are "
                f"{', '.join(self.specials) or 'none'}. Name one of them as eos_token in its tokenizer_config.json, or "
                f"train a tokenizer with special_tokens=({END_OF_TEXT!r}, ...)."
            )
        return self.vocabulary.specials[name]

    @property
    def padding_id(self) -> int | None:
        """The id of the token that fills the shorter rows of a padded batch; None without it."""
        return self.vocabulary.specials.get(self.vocabulary.padding)

    @property
    def borders(self) -> tuple[list[int], list[int]]:
        """The ids that this tokenizer puts before and after every document."""
        around = (self.vocabulary.before, self.vocabulary.after)
        before, after = ([self.vocabulary.specials[name] for name in names] for names in around)
        return before, after

    def encode(self, text: str, *, allow_special: Allowed = False) -> list[int]:
        """Return the token ids of a text.

        The name of a special token in the text is ordinary characters, so no user's text can end a document or imitate
        another speaker. `allow_special=True` is for text that the program itself has composed; a list of names allows
        only those.
        Raises TokenizerError if the text is not a str or has a lone surrogate, or if `allow_special` names a token that
        is not special.

        >>> tokenizer = train(["to be or not to be"] * 2, vocab_size=270)
        >>> tokenizer.encode("to be"), tokenizer.encode("<|end|>", allow_special=True)
        ([262, 263], [4])
        """
        if not isinstance(text, str):
            raise TokenizerError(f"the text is a {type(text).__name__}, expected a str.")
        allowed = self._added.allowed(allow_special)
        if not allowed and self._added.keep_text_whole:
            return self._encoder.encode(text)
        ids: list[int] = []
        for part in self._added.split(text, allowed):
            ids += [part] if isinstance(part, int) else self._encoder.encode(part)
        return ids

    def encode_document(self, text: str, *, allow_special: Allowed = False) -> list[int]:
        """Return the ids of a text between the special tokens that this tokenizer puts around every document.

        Tokenizers of `tokenizer.train` put none there; Llama 3's file asks for `<|begin_of_text|>`. This is what
        Hugging Face's `encode` returns with add_special_tokens=True.
        """
        before, after = self.borders
        return [*before, *self.encode(text, allow_special=allow_special), *after]

    def encode_bytes(self, data: bytes, *, allow_special: Allowed = False) -> list[int]:
        r"""Return ids of any bytes: `decode_bytes` returns exactly these bytes, even where they are not UTF-8.

        UTF-8 gets the ids of its text; a byte that belongs to no character gets its own id. A tokenizer that composes
        characters (NFC) returns the composed ones. One with byte fallback (Llama 2's) is for text only: it raises
        TokenizerError for a byte that belongs to no character.

        >>> tokenizer = train([], vocab_size=261)
        >>> tokenizer.decode_bytes(tokenizer.encode_bytes(b"\xff\x00ok"))
        b'\xff\x00ok'
        """
        allowed = self._added.allowed(allow_special)
        if self.vocabulary.byte_ids:  # which would put a space before the text after each such byte
            text = decode_utf8(data, way_out="this tokenizer begins with characters and takes text only")
            return self.encode(text, allow_special=allowed)
        byte_ids, ids = self.vocabulary.ids, list[int]()
        # Python decodes each invalid byte as the lone surrogate U+DC00 + byte, which no valid UTF-8 gives.
        parts = re.split("([\udc80-\udcff])", data.decode("utf-8", "surrogateescape"))
        for i, part in enumerate(parts):
            if i % 2 == 1:
                ids.append(byte_ids[bytes([ord(part) - 0xDC00])])
            elif part:
                ids += self.encode(part, allow_special=allowed)
        return ids

    def encode_batch(self, texts: Iterable[str], *, threads: int | None = None) -> list[NDArray[np.int32]]:
        """Return the ids of each text as an int32 array; no token is special.

        Tokenizers of `tokenizer.train` without NFC use all processors, or `threads`. Tokenizers that change a text
        first, split tokens off it or look up words encode one text after the other.
        Raises TokenizerError as `encode` does, for one string in place of many, and for fewer than one thread.
        """
        count = num_threads(threads)
        if self._added.keep_text_whole and isinstance(self._encoder, Encoder):
            return self._encoder.encode_batch(texts, count)
        return [np.array(self.encode(text), np.int32) for text in checked(texts)]

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the bytes of the ids; those of a special token are its name, and an unused id has none.

        With byte fallback they begin with the space that encoding puts before a text. Raises TokenizerError for an id
        that is not in 0 to vocab_size - 1.
        """
        return b"".join([self.vocabulary.token_bytes.get(number, b"") for number in self._checked(ids)])

    def _checked(self, ids: Iterable[int]) -> list[int]:
        numbers = list(map(operator.index, ids))
        for number in numbers:
            if not 0 <= number < self.vocab_size:
                raise TokenizerError(f"token id {number} is out of range: ids go from 0 to {self.vocab_size - 1}.")
        return numbers

    def decode(self, ids: Iterable[int], *, errors: str = "replace") -> str:
        r"""Return the text of the ids; bytes that are not UTF-8 become U+FFFD, the replacement character.

        With errors="strict" they raise TokenizerError instead.

        >>> train([], vocab_size=261).decode([200 + 5, 40 + 5])
        '\ufffd('
        """
        if errors not in ("replace", "strict"):
            raise TokenizerError(f"errors={errors!r}: expected 'replace' or 'strict'.")
        if self.vocabulary.byte_ids:
            return decode_with_fallback(self.vocabulary, self._checked(ids), errors).removeprefix(" ")
        way_out = "keep bytes as they are with decode_bytes, or choose errors='replace'"
        return decode_utf8(self.decode_bytes(ids), errors, way_out=way_out)

    def stream_decoder(self) -> StreamDecoder:
        """Return a decoder that takes one id at a time, and continues the text of the ids before them."""
        return StreamDecoder(self.decode_bytes)

    def stream_encoder(self, *, allow_special: Allowed = False) -> StreamEncoder:
        """Return an encoder that takes a text in parts; `allow_special` is that of `encode`."""
        allowed = self._added.allowed(allow_special)
        may_cut = self._added.keep_text_whole and isinstance(self._encoder, Encoder) and self._encoder.may_cut
        return StreamEncoder(partial(self.encode, allow_special=allowed), allowed, may_cut=may_cut)

    def fingerprint(self) -> str:
        """Return a hash of everything that decides encoding."""
        return self.vocabulary.fingerprint()

    def save(self, path: str | Path, *, format: str | None = None) -> None:
        """Write the tokenizer in one of FORMATS.

        Without `format`, the path decides: a rank file if it ends in .tiktoken, tokenizer.json alone if it ends in
        .json, otherwise a folder with tokenizer.json and tokenizer_config.json.
        Raises TokenizerError as `format_of` does.
        """
        FORMATS[self.format_of(path, format)](self.vocabulary, Path(path))

    def format_of(self, path: str | Path, format: str | None = None) -> str:
        """Return the format that `save` writes.

        Raises TokenizerError if it is unknown, if it cannot store something that decides the ids, or if `load` would
        take a file of that name for one of another format.
        """
        suffix = Path(path).suffix
        name = format or ("tiktoken" if suffix == rank_files.SUFFIX else "huggingface")
        if name not in FORMATS:
            expected = f"expected one of {', '.join(FORMATS)}{did_you_mean(name, FORMATS)}"
            raise TokenizerError(f"unknown format {name!r}: {expected}")
        if (name == "tiktoken") != (suffix == rank_files.SUFFIX):
            raise TokenizerError(
                f"{path} cannot be written in the format {name}: names of rank files, and no others, end in "
                f"{rank_files.SUFFIX}."
            )
        if Path(path).name in gpt2_files.FILES:
            raise TokenizerError(
                f"{path} cannot be written: files of this name belong to the format gpt2. Choose another name, or name "
                "a folder in that format."
            )
        if name == "gpt2" and suffix == ".json":
            raise TokenizerError(f"{path} cannot be written in the format gpt2, which is a folder of two files.")
        if name in _CHECKS:
            _CHECKS[name](self.vocabulary)
        return name


class Resources(TypedDict, total=False):
    """What training may use, as further arguments of `train`."""

    threads: int | None  # all processors if None; the result is the same with any number
    max_memory: int  # bytes for the tables, 1 GiB if not given
    progress: bool  # whether a terminal shows progress bars, False if not given


def train(
    texts: Iterable[str],
    vocab_size: int = 4096,
    *,
    split: str = "gpt2",
    special_tokens: Iterable[str] = SPECIAL_TOKENS,
    min_frequency: int = 2,
    nfc: bool = False,
    **resources: Unpack[Resources],
) -> Tokenizer:
    """Learn a tokenizer: vocab_size = special tokens + 256 bytes + merges, with ids in this order.

    The most frequent pair of adjacent tokens becomes the next token (ties: see `learn_merges`); the order of the texts
    does not matter, unless words are removed for lack of memory. When no pair occurs `min_frequency` times, the
    remaining ids stay unused. With `nfc`, every text is composed first: `e` and an accent become `é`, here and in
    encoding.

    `texts` is any iterable and need not fit into memory. `split` is a name in split.SPLITS or a pattern. `threads`,
    `max_memory` and `progress` are described in Resources. If the different words need more memory, the rarest are
    removed, and a warning says so.
    Raises TokenizerError if vocab_size is not a whole number or is too small for the bytes, if a text, special token or
    option cannot be used, or if max_memory is too little.

    >>> tokenizer = train(["low lower lowest"] * 9, vocab_size=264)
    >>> tokenizer.decode_bytes([261]), tokenizer.decode_bytes([262]), tokenizer.decode_bytes([263])
    (b'lo', b'low', b' low')
    """
    if isinstance(special_tokens, str):
        raise TokenizerError(f"special_tokens is one string, {special_tokens!r}; pass a list of them.")
    names = list(special_tokens)
    vocab_size = checked_size(vocab_size, len(names))
    if min_frequency < 1:
        raise TokenizerError(f"min_frequency={min_frequency}: expected 1 or more.")
    if len(set(names)) < len(names):
        raise TokenizerError(f"a special token is named twice in {names}.")
    words = count_words(composed(texts) if nfc else texts, split, names, **resources)
    memory, progress = resources.get("max_memory", DEFAULT_MEMORY), resources.get("progress", False)
    num_merges = vocab_size - len(names) - 256
    pairs = learn_merges(words, num_merges, min_frequency, max_memory=memory, progress=progress)
    tokens = [bytes([byte]) for byte in range(256)]
    for left, right in pairs:
        tokens.append(tokens[left] + tokens[right])
    return Tokenizer(
        Vocabulary(
            split=split,
            ids={token: len(names) + number for number, token in enumerate(tokens)},
            merges=tuple((tokens[left], tokens[right]) for left, right in pairs),
            specials={name: number for number, name in enumerate(names)},
            size=vocab_size,
            nfc=nfc,
            **find_roles(names, {}),
        )
    )


def checked_size(vocab_size: int, num_specials: int) -> int:
    """Return the size of a vocabulary as an int, also where it is a whole number of NumPy's.

    Raises TokenizerError if it is not whole, too small for the bytes and the special tokens, or too large.
    """
    try:
        size = operator.index(vocab_size)
    except TypeError:
        raise TokenizerError(f"vocab_size={vocab_size!r}: expected a whole number.") from None
    if size > LARGEST_SIZE:
        raise TokenizerError(f"the vocabulary has {size:,} ids, and at most {LARGEST_SIZE:,} can be used.")
    if size < (smallest := num_specials + 256):
        raise TokenizerError(
            f"vocab_size={size} is too small: 256 bytes and {num_specials} special tokens need {smallest}."
        )
    return size


def load(path: str | Path, *, split: str | None = None, special_tokens: Mapping[str, int] | None = None) -> Tokenizer:
    """Read a tokenizer: one of `tokenizer.train`, another byte-level BPE, or a BPE with byte fallback, as Llama 2's.

    The path is a tokenizer.json or its folder, or GPT-2's vocab.json or merges.txt or their folder (in a folder
    tokenizer.json comes first), or a rank file, which ends in .tiktoken. A rank file contains neither the split nor the
    special tokens: `split` and `special_tokens` give them, and may be left out only for the files that OpenAI
    publishes, under their names. The name of a model in `models.pretrained` stands for its folder.
    Raises TokenizerError naming the file and the field if something is missing, damaged or of another kind.
    """
    path = located(path)
    if path.suffix == rank_files.SUFFIX:
        return Tokenizer(rank_files.read(path, split, special_tokens))
    if split is not None or special_tokens is not None:
        raise TokenizerError(
            f"{path} contains its split and its special tokens: a split and special tokens are given for rank files "
            f"alone, whose names end in {rank_files.SUFFIX}."
        )
    if path.name in gpt2_files.FILES:
        return Tokenizer(gpt2_files.read(path.parent))
    if all((path / name).is_file() for name in gpt2_files.FILES) and not (path / tokenizer_json.FILE).is_file():
        return Tokenizer(gpt2_files.read(path))
    return Tokenizer(tokenizer_json.read(path))
