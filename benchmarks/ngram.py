"""A baseline for language models: counts of the byte after each context of a few bytes.

An interpolated n-gram model over bytes with Witten-Bell smoothing (Witten and Bell 1991; Chen and Goodman 1999,
section 2.6): the estimate after a context h mixes the counts with the estimate after the shorter context h'; the fewer
different bytes T(h) have followed h, the larger is the weight of the counts:

    p(w | h) = (c(h, w) + T(h) p(w | h')) / (c(h) + T(h))

A model of order 4 has contexts of three bytes. Contexts do not cross the beginning of a document.

    python benchmarks/ngram.py [--data python-docs] [--orders 1 2 3 4 5 6]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent.parent))

from minigrad.data import corpus

Array = NDArray[Any]


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


class NGram:
    """Byte counts of orders 1 to `order`, and the probability of any byte in any context."""

    def __init__(self, documents: Sequence[bytes], order: int = 4) -> None:
        self.order = order
        self.pairs: list[tuple[Array, Array]] = []  # for each length: context and byte, sorted, and counts
        self.totals: list[tuple[Array, Array, Array]] = []  # contexts, sorted; counts; number of different bytes
        for length in range(order):
            keys, following = _contexts(documents, length)
            pairs, counts = np.unique(keys << np.uint64(8) | following, return_counts=True)
            contexts, first, different = np.unique(pairs >> np.uint64(8), return_index=True, return_counts=True)
            totals = np.add.reduceat(counts, first) if len(first) else counts
            self.pairs.append((pairs, counts))
            self.totals.append((contexts, totals, different))

    def probabilities(self, contexts: Array, following: Array, length: int) -> Array:
        """Return p(byte | context) for packed contexts of `length` bytes."""
        if length < 0:
            return np.full(len(following), 1 / 256)
        mask = np.uint64((1 << 8 * length) - 1)
        contexts = contexts & mask
        shorter = self.probabilities(contexts, following, length - 1)
        counted = _look_up(*self.pairs[length], contexts << np.uint64(8) | following)
        known, totals, different = self.totals[length]
        total, variety = _look_up(known, totals, contexts), _look_up(known, different, contexts)
        seen = total > 0
        mixed: Array = np.where(seen, (counted + variety * shorter) / np.where(seen, total + variety, 1), shorter)
        return mixed

    def bits_per_byte(self, documents: Sequence[bytes]) -> float:
        """Return the loss on documents in bits per byte."""
        bits, count = 0.0, 0
        for length in range(self.order):  # the first bytes of a document have shorter contexts
            texts = documents if length == self.order - 1 else [document[: length + 1] for document in documents]
            chances = self.probabilities(*_contexts(texts, length), length)
            bits -= float(np.log2(chances).sum())
            count += len(chances)
        return bits / max(count, 1)


def _look_up(keys: Array, values: Array, wanted: Array) -> Array:
    """Return values[keys == wanted], 0 where there is none; keys are sorted."""
    if not len(keys):
        return np.zeros(len(wanted))
    place = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    found: Array = np.where(keys[place] == wanted, values[place], 0).astype(np.float64)
    return found


def bits_per_byte(train: Sequence[str], held_out: Sequence[str], order: int = 4) -> float:
    """Count in one set of documents, and evaluate on another."""
    first, second = ([text.encode() for text in texts] for texts in (train, held_out))
    return NGram(first, order).bits_per_byte(second)


def main() -> None:
    """Print the bits per byte of several orders on a text's held-out part."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="python-docs")
    parser.add_argument("--orders", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6])
    arguments = parser.parse_args()
    train, held_out = corpus.load(arguments.data, progress=print).split()
    scores = {}
    for order in arguments.orders:
        scores[order] = bits_per_byte(train, held_out, order)
        print(f"order {order}: {scores[order]:.3f} bits per byte")
    print(json.dumps({"data": arguments.data, "bits_per_byte": scores}))


if __name__ == "__main__":
    main()
