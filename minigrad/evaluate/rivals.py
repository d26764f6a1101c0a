"""Two rivals for language models, in bits per byte: counts of the byte after each few bytes, and the compressor xz.

An interpolated n-gram model over bytes with Witten-Bell smoothing (Witten and Bell 1991; Chen and Goodman 1999,
section 2.6): the estimate after a context h mixes the counts with the estimate after the shorter context h'; the fewer
different bytes T(h) have followed h, the larger is the weight of the counts:

    p(w | h) = (c(h, w) + T(h) p(w | h')) / (c(h) + T(h))

A model of order 4 has contexts of three bytes. Contexts do not cross the beginning of a document. xz is a rival because
a model that predicts text can compress it (Shannon 1948).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from minigrad.data.tokens.token_files import in_portions
from minigrad.errors import InputError
from minigrad.typing import Array

ORDER = 6
"""The best order on python-docs (benchmarks/ngram.py)."""

MOST_BYTES = 1 << 23
"""The bytes of training text that xz compresses, at most; a run gives it an excerpt. That takes about ten seconds."""

_LONGEST = 8  # bytes of a packed context and the byte after it
_PORTION = 1 << 18  # bytes that are counted at a time: memory is taken for different contexts, not for all text


class NGram:
    """Byte counts of orders 1 to `order`, and the probability of any byte in any context.

    Raises InputError for an order outside 1 to 8: a context and its byte are packed into 64 bits.
    """

    def __init__(self, documents: Iterable[bytes], order: int) -> None:
        if not 1 <= order <= _LONGEST:
            raise InputError(f"the order of an n-gram model of bytes is 1 to {_LONGEST}, not {order}")
        self.order = order
        empty = np.empty(0, np.uint64), np.empty(0, np.int64)
        self.pairs: list[tuple[Array, Array]] = [empty] * order  # for each length: context and byte, sorted; counts
        for portion in in_portions(documents, _PORTION):
            for length in range(order):
                keys, following = _contexts(portion, length)
                found = np.unique(keys << np.uint64(8) | following, return_counts=True)
                self.pairs[length] = _merged(self.pairs[length], found)
        self.totals: list[tuple[Array, Array, Array]] = []  # contexts, sorted; counts; number of different bytes
        for pairs, counts in self.pairs:
            contexts, first, different = np.unique(pairs >> np.uint64(8), return_index=True, return_counts=True)
            self.totals.append((contexts, np.add.reduceat(counts, first) if len(first) else counts, different))

    def probabilities(self, contexts: Array, following: Array, length: int) -> Array:
        """Return p(byte | context) for packed contexts of `length` bytes."""
        if length < 0:
            return np.full(len(following), 1 / 256)
        contexts = contexts & np.uint64((1 << 8 * length) - 1)
        shorter = self.probabilities(contexts, following, length - 1)
        counted = _look_up(*self.pairs[length], contexts << np.uint64(8) | following)
        known, totals, different = self.totals[length]
        total, variety = _look_up(known, totals, contexts), _look_up(known, different, contexts)
        seen = total > 0
        mixed: Array = np.where(seen, (counted + variety * shorter) / np.where(seen, total + variety, 1), shorter)
        return mixed

    def bits_per_byte(self, documents: Iterable[bytes]) -> float:
        """Return the loss on documents in bits per byte."""
        bits, count = 0.0, 0
        for portion in in_portions(documents, _PORTION):
            for length in range(self.order):  # the first bytes of a document have shorter contexts
                is_last = length == self.order - 1
                texts = portion if is_last else [document[: length + 1] for document in portion]
                chances = self.probabilities(*_contexts(texts, length), length)
                bits -= float(np.log2(chances).sum())
                count += len(chances)
        return bits / max(count, 1)


def ngram_bits_per_byte(train: Iterable[str], evaluated: Iterable[str], order: int) -> float:
    """Count in one set of documents, and evaluate on another."""
    first, second = ((text.encode() for text in texts) for texts in (train, evaluated))
    return NGram(first, order).bits_per_byte(second)


def _contexts(documents: Sequence[bytes], length: int) -> tuple[Array, Array]:
    """Return (contexts, bytes): every byte with `length` bytes before it, and these bytes packed into an integer."""
    keys, following = [], []
    for document in documents:
        values = np.frombuffer(document, np.uint8).astype(np.uint64)
        count = max(len(values) - length, 0)
        key = np.zeros(count, np.uint64)
        for place in range(length):
            key = key << np.uint64(8) | values[place : place + count]
        keys.append(key)
        following.append(values[length : length + count])
    return np.concatenate(keys), np.concatenate(following)


def _merged(first: tuple[Array, Array], second: tuple[Array, Array]) -> tuple[Array, Array]:
    """Return the counts of two sorted sets of keys as one."""
    keys, counts = (np.concatenate(each) for each in zip(first, second, strict=True))
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    begins = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    return keys[begins], np.add.reduceat(counts, begins) if len(begins) else counts


def _look_up(keys: Array, values: Array, wanted: Array) -> Array:
    """Return values[keys == wanted], 0 where there is none; keys are sorted."""
    if not len(keys):
        return np.zeros(len(wanted))
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    found: Array = np.where(keys[place] == wanted, values[place], 0).astype(np.float64)
    return found


def xz_bits_per_byte(train: Iterable[str], evaluated: Iterable[str]) -> float | None:
    """Return the bits that xz needs per byte of the evaluated text after it has compressed the training text.

    8 (size(xz(train + evaluated)) - size(xz(train))) / size(evaluated), sizes in bytes; of a long training text, the
    last `MOST_BYTES`. Takes 11 to 13 times the memory of the bytes that it compresses. Returns None if Python was built
    without xz.
    """
    try:
        import lzma
    except ImportError:
        return None
    known, new = _end_of(train), "\n".join(evaluated).encode()
    dictionary = xz_dictionary(len(known) + len(new))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 9 | lzma.PRESET_EXTREME, "dict_size": dictionary}]
    before, after = (len(lzma.compress(data, filters=filters)) for data in (known, known + b"\n" + new))
    return 8 * (after - before) / len(new)


def xz_dictionary(num_bytes: int) -> int:
    """Return the bytes within which xz finds repetitions, here all of a text: a larger one would only take more memory.

    >>> xz_dictionary(5_000), xz_dictionary(1 << 23)
    (8192, 16777216)
    """
    return 1 << max(num_bytes, 4096).bit_length()


def _end_of(texts: Iterable[str]) -> bytes:
    """Return the last bytes of texts that are joined by line ends; the texts may be larger than memory."""
    kept = bytearray()
    for text in texts:
        kept += b"\n" + text.encode()
        del kept[: -MOST_BYTES - 1]
    return bytes(kept[1:])


def xz_seconds(train_bytes: int, evaluated_bytes: int) -> float:
    """Estimate the seconds of xz, which compresses the training text and then both; measured on Python source."""
    return 0.7e-6 * (2 * min(train_bytes, MOST_BYTES) + evaluated_bytes)


def ngram_seconds(train_bytes: int, evaluated_bytes: int) -> float:
    """Estimate the seconds of counting with order 6; measured on python-docs."""
    return 0.4e-6 * (train_bytes + evaluated_bytes)
