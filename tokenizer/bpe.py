"""The tokenizer: text to token ids and back."""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tokenizer.encode.stream import StreamDecoder, StreamEncoder
from tokenizer.encode.whole_words import encoder_of
from tokenizer.errors import TokenizerError
from tokenizer.formats import registry
from tokenizer.learn.count import LARGEST_MEMORY, count_words
from tokenizer.learn.trainer import learn_merges
from tokenizer.text.added_tokens import Allowed, Cutter, composed
from tokenizer.text.alphabet import text_of
from tokenizer.vocabulary import SPECIAL_TOKENS, Vocabulary


class Tokenizer:
    """Byte-level byte-pair encoding; `tokenizer.train` and `tokenizer.load` make one.

    Every text has an encoding and comes back unchanged, because any byte is a token.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Make the vocabulary ready for use."""
        self.vocabulary = vocabulary
        self._encoder = encoder_of(vocabulary)
        self._cutter = Cutter(vocabulary)

    @property
    def vocab_size(self) -> int:
        """The number of ids, 0 to vocab_size - 1, as a model's embedding counts them."""
        return self.vocabulary.size

    @property
    def used(self) -> int:
        """The number of ids with bytes behind them; less than vocab_size if training ran out of pairs."""
        return len(self.vocabulary.pieces)

    @property
    def ids(self) -> list[int]:
        """The ids with bytes behind them, in rising order; in other people's files there may be gaps between them."""
        return sorted(self.vocabulary.pieces)

    @property
    def specials(self) -> dict[str, int]:
        """The special tokens and their ids."""
        return dict(self.vocabulary.specials)

    @property
    def end_of_text_id(self) -> int:
        """The id that stands between documents; raises TokenizerError if there is no such token."""
        name = self.vocabulary.end_of_text
        if name not in self.vocabulary.specials:
            raise TokenizerError(
                f"this tokenizer has no token {name!r} to put between documents; its special tokens are "
                f"{', '.join(self.specials) or 'none'}. Train it with special_tokens=({name!r}, ...)."
            )
        return self.vocabulary.specials[name]

    @property
    def borders(self) -> tuple[list[int], list[int]]:
        """The ids that this tokenizer puts before and behind every document."""
        around = (self.vocabulary.before, self.vocabulary.after)
        before, after = ([self.vocabulary.specials[name] for name in names] for names in around)
        return before, after

    def encode(self, text: str, *, allow_special: Allowed = False) -> list[int]:
        """Return the token ids of a text.

        A special token spelled out in the text is ordinary characters, so no user's text can end a document
        or speak as somebody else. `allow_special=True` is for text that the program itself composed; a list of
        names allows only those.
        Raises TokenizerError for a lone surrogate, or if `allow_special` names what is no special token.

        >>> tokenizer = train(["to be or not to be"] * 2, vocab_size=270)
        >>> tokenizer.encode("to be"), tokenizer.encode("<|end|>", allow_special=True)
        ([262, 263], [4])
        """
        if allow_special is False and self._cutter.is_idle:
            return self._encoder.encode(text)
        ids: list[int] = []
        for piece in self._cutter.cut(text, self._cutter.allowed(allow_special)):
            ids += [piece] if isinstance(piece, int) else self._encoder.encode(piece)
        return ids

    def encode_document(self, text: str, *, allow_special: Allowed = False) -> list[int]:
        """Return the ids of a text between the special tokens that this tokenizer puts around every document.

        Our own tokenizers put none there. Where a file asks for some, as Llama 3's does for `<|begin_of_text|>`,
        this is what Hugging Face's `encode` returns with add_special_tokens=True, and `encode` without.
        """
        before, after = self.borders
        return [*before, *self.encode(text, allow_special=allow_special), *after]

    def encode_bytes(self, data: bytes, *, allow_special: Allowed = False) -> list[int]:
        r"""Return the ids of any bytes: `decode_bytes` gives exactly these back, also where they are no UTF-8.

        UTF-8 has the ids of its text; a byte that is part of no letter stands alone.

        >>> tokenizer = train([], vocab_size=261)
        >>> tokenizer.decode_bytes(tokenizer.encode_bytes(b"\xff\x00ok"))
        b'\xff\x00ok'
        """
        allowed = self._cutter.allowed(allow_special)
        byte_ids, ids = self.vocabulary.ids, list[int]()
        # Decoding writes each stray byte as a lone surrogate, U+DC00 above it, and no text has one of those.
        pieces = re.split("([\udc80-\udcff])", data.decode("utf-8", "surrogateescape"))
        for i, piece in enumerate(pieces):
            stray = i % 2 == 1
            ids += [byte_ids[bytes([ord(piece) - 0xDC00])]] if stray else self.encode(piece, allow_special=allowed)
        return ids

    def encode_batch(self, texts: Iterable[str], *, threads: int | None = None) -> list[NDArray[np.int32]]:
        """Return the token ids of each text as an int32 array; special tokens are ordinary characters.

        Uses all processors, or so many `threads`; the result is the same.
        """
        if isinstance(texts, str):
            raise TokenizerError("encode_batch takes a list of texts, not one string: pass [text].")
        if not self._cutter.is_idle:
            return [np.array(self.encode(text), np.int32) for text in texts]
        return self._encoder.encode_batch(texts, threads)

    def decode_bytes(self, ids: Iterable[int]) -> bytes:
        """Return the bytes behind the ids; a special token gives its name, an unused id nothing.

        Raises TokenizerError for an id that is not in 0 to vocab_size - 1.
        """
        pieces = self.vocabulary.pieces
        found = []
        for number in map(operator.index, ids):
            if not 0 <= number < self.vocab_size:
                raise TokenizerError(f"token id {number} is out of range: ids go from 0 to {self.vocab_size - 1}.")
            found.append(pieces.get(number, b""))
        return b"".join(found)

    def decode(self, ids: Iterable[int], *, errors: str = "replace") -> str:
        r"""Return the text of the ids; bytes that are not UTF-8 become U+FFFD, the replacement character.

        With errors="strict" they raise TokenizerError instead.

        >>> train([], vocab_size=261).decode([200 + 5, 40 + 5])
        '\ufffd('
        """
        if errors not in ("replace", "strict"):
            raise TokenizerError(f"errors={errors!r}: expected 'replace' or 'strict'.")
        return text_of(self.decode_bytes(ids), errors)

    def stream_decoder(self) -> StreamDecoder:
        """Return a decoder that takes one id at a time."""
        return StreamDecoder(self.decode_bytes)

    def stream_encoder(self) -> StreamEncoder:
        """Return an encoder that takes a text in pieces; special tokens are ordinary characters."""
        return StreamEncoder(self.encode, may_cut=self._cutter.is_idle and self._encoder.may_cut)

    def fingerprint(self) -> str:
        """Return a hash of everything that decides encoding."""
        return self.vocabulary.fingerprint()

    def save(self, path: str | Path, *, format: str | None = None) -> None:
        """Write the tokenizer in a format of formats.FORMATS.

        Without `format`, the path decides: a rank file if it ends in .tiktoken, tokenizer.json alone if it ends in
        .json, else a folder with the Hugging Face files.
        Raises TokenizerError if the format has no words for something that decides this tokenizer's ids.
        """
        registry.write(self.vocabulary, Path(path), format)


def train(
    texts: Iterable[str],
    vocab_size: int = 4096,
    *,
    split: str = "gpt2",
    special_tokens: Iterable[str] = SPECIAL_TOKENS,
    min_frequency: int = 2,
    nfc: bool = False,
    threads: int | None = None,
    max_memory: int = LARGEST_MEMORY,
    progress: bool = False,
) -> Tokenizer:
    """Learn a tokenizer: vocab_size = special tokens + 256 bytes + merges, with ids in this order.

    The most frequent pair of neighbouring tokens becomes the next token (ties: see `trainer.learn_merges`);
    the order of the texts does not matter. When no pair is seen `min_frequency` times, the rest of the ids
    stays unused. With `nfc`, every text is composed first: `e` and an accent become `é`, here and in encoding.

    `texts` is any iterable and need not fit into memory (for files: `read_files`). `split` is a name in split.SPLITS or
    a pattern. The result is the same with any number of `threads` (all processors, if None). The tables stay below
    `max_memory` bytes: where the different words are too many, the rarest are forgotten, and a warning says so.
    Raises TokenizerError if vocab_size has no room for the bytes, a text, special token or option cannot be used, or
    max_memory is too little.

    >>> tokenizer = train(["low lower lowest"] * 9, vocab_size=264)
    >>> tokenizer.decode_bytes([261]), tokenizer.decode_bytes([262]), tokenizer.decode_bytes([263])
    (b'lo', b'low', b' low')
    """
    names = list(special_tokens)
    first = len(names)
    smallest = first + 256
    if vocab_size < smallest:
        raise TokenizerError(
            f"vocab_size={vocab_size} is too small: 256 bytes and {first} special tokens need {smallest}."
        )
    if min_frequency < 1:
        raise TokenizerError(f"min_frequency={min_frequency}: expected 1 or more.")
    if len(set(names)) < len(names):
        raise TokenizerError(f"a special token is named twice in {names}.")

    if nfc:
        texts = composed(texts)
    words = count_words(texts, split, names, threads=threads, max_memory=max_memory, progress=progress)
    tokens = [bytes([byte]) for byte in range(256)]
    merges = []
    pairs = learn_merges(words, vocab_size - smallest, min_frequency, max_memory=max_memory, progress=progress)
    for left, right in pairs:
        merges.append((tokens[left], tokens[right]))
        tokens.append(tokens[left] + tokens[right])
    return Tokenizer(
        Vocabulary(
            split=split,
            ids={token: first + number for number, token in enumerate(tokens)},
            merges=tuple(merges),
            specials={name: number for number, name in enumerate(names)},
            size=vocab_size,
            nfc=nfc,
        )
    )


def load(path: str | Path, *, split: str | None = None, special_tokens: Mapping[str, int] | None = None) -> Tokenizer:
    """Read a tokenizer: ours, or another byte-level BPE.

    The path is a tokenizer.json or its folder, a folder with GPT-2's vocab.json and merges.txt, or a rank file
    ending in .tiktoken. A rank file says neither how text is cut into words nor what the special tokens are: `split`
    and `special_tokens` say it, and may be left out only for the files that OpenAI publishes, under their names.
    Raises TokenizerError naming the file and the field if something is missing, damaged or of another kind.
    """
    return Tokenizer(registry.read(Path(path), split, special_tokens))
