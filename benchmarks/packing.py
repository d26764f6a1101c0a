"""Packed sequences against padded ones, and against batches of sequences of similar lengths (buckets).

The same sequences go through the same model, forward and backward, in three ways: padded to the longest of their batch,
where targets in the padding do not count; sorted by length into buckets and padded to the longest of these; and packed
one after the other. Lengths are a mix of 512, 1,024, 2,048 and 4,096 tokens, equally often; a mix of 128 to 2,048; and
those of the documents of python-docs, cut at the context. The ways take turns; tokens are real ones, without padding.
Activation memory is what the largest batch allocates: its peak, and what the results and stored arrays of each
operation take. Finally, sequences of equal length are read, and go forward and backward: packed documents against
windows of that length.

    python benchmarks/packing.py [--size nano] [--rounds 5] [--case mix|short-mix|python-docs|equal] [--each 2]
    python benchmarks/packing.py --rounds 0    measures the memory instead of the speed
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import tracemalloc
from collections.abc import Callable
from typing import Any

from machine import describe_machine
from turns import medians

from minigrad.system import hardware  # isort: skip  (before NumPy: it tells BLAS how long its idle threads may spin)

import numpy as np

import models
import tokenizer
from minigrad.autograd.profile import Profile
from minigrad.constants import IGNORE
from minigrad.data import corpus
from minigrad.data.tokens.batches import Batch
from minigrad.data.tokens.documents import Documents, balanced
from minigrad.data.tokens.reading import Reader
from minigrad.data.tokens.source import Windows
from minigrad.data.tokens.token_files import prepare
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.layout import Layout
from minigrad.random import generator
from minigrad.training.parallel import Replicas, num_replicas
from train import forward_backward

MIX, SHORT_MIX = (512, 1_024, 2_048, 4_096), (128, 256, 512, 1_024, 2_048)
CONTEXT = 2_048  # of python-docs
EQUAL, EQUAL_BATCH = 256, 8


def padded(lengths: list[int], count: int) -> list[Batch]:
    """Return batches of `count` sequences in this order, each padded to its longest."""
    return [_padded(lengths[first : first + count]) for first in range(0, len(lengths), count)]


def bucketed(lengths: list[int], tokens: int) -> list[Batch]:
    """Return batches of sequences of similar lengths, padded to the longest; with padding they have at most `tokens`.

    The lengths of a batch lie between the same two powers of two.

    >>> [batch.layout.lengths.tolist() for batch in bucketed([2, 9, 3, 8, 3, 10, 9], 20)]
    [[2], [3, 3], [8], [9, 9], [10]]
    """
    groups: list[list[int]] = [[]]
    for length in sorted(lengths):
        last = groups[-1]
        if last and ((len(last) + 1) * length > tokens or (last[0] - 1).bit_length() != (length - 1).bit_length()):
            groups.append([])
        groups[-1].append(length)
    return [_padded(group) for group in groups]


def packed(lengths: list[int], tokens: int) -> list[Batch]:
    """Return batches of at most `tokens` tokens, of sequences in this order, balanced as those of training.

    >>> [batch.layout.lengths.tolist() for batch in packed([4, 9, 4, 8, 2], 18)]
    [[9, 4, 4], [8, 2]]
    """
    groups: list[list[int]] = [[]]
    for length in lengths:
        if sum(groups[-1]) + length > tokens:
            groups.append([])
        groups[-1].append(length)
    batches = []
    for group in groups:
        order = balanced(np.array(group))
        ids = generator(0, "benchmark").integers(0, 4_096, sum(group)).astype(np.int32)
        batches.append(Batch(ids, ids, Layout.packed(np.array(group)[order])))
    return batches


def _padded(lengths: list[int]) -> Batch:
    ids = generator(0, "benchmark").integers(0, 4_096, (len(lengths), max(lengths)))
    is_real = np.arange(max(lengths)) < np.array(lengths)[:, None]
    return Batch.rectangular(ids * is_real, np.where(is_real, ids, IGNORE))


def lengths_of_documents(tokens: int) -> list[int]:
    """Return the lengths of some documents of python-docs, and pieces of those longer than the context."""
    train_documents = corpus.load("python-docs", progress=print).split().train
    row = prepare(train_documents, tokenizer.train(train_documents, vocab_size=4_096))
    batch = Documents(row, CONTEXT).batch(seed=0, step=0, batch_size=tokens // CONTEXT)
    return [int(length) for length in generator(0, "benchmark").permutation(batch.layout.lengths)]


def learner(size: str, context: int, rows: int) -> tuple[LanguageModel, Replicas]:
    """Return a model in training, and its replicas."""
    model = models.build("vidya-v2", size, dropout=0.0, context_length=context)
    return model, Replicas(model, num_replicas(model, hardware.threads(), rows))


def compare(size: str, ways: dict[str, list[Batch]], rounds: int) -> dict[str, dict[str, float]]:
    """Return for each way of passing the same sequences through a model of this size its rows, speed and memory.

    Without rounds the memory is measured, and otherwise the speed: measuring the memory takes time.
    """
    longest = max(int(batch.layout.lengths.max()) for batches in ways.values() for batch in batches)
    model, replicas = learner(size, longest, longest)

    def passes(batches: list[Batch]) -> None:
        for batch in batches:
            replicas.run(forward_backward, batch)
            model.zero_grad()

    passes(packed([longest // 2] * 2, longest))  # to load the kernels
    found = {
        name: {
            "tokens": sum(batch.num_targets for batch in batches),
            "rows": sum(len(batch.tokens) for batch in batches),
        }
        for name, batches in ways.items()
    }
    if rounds:
        works = {name: functools.partial(passes, batches) for name, batches in ways.items()}
        for name, seconds in medians(works, rounds).items():
            found[name]["tokens_per_second"] = found[name]["tokens"] / seconds
    else:
        for name, batches in ways.items():
            largest = max(batches, key=lambda batch: len(batch.tokens))
            tracemalloc.start()
            passes([largest])
            found[name]["bytes"] = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            found[name] |= {f"bytes of {kind}": size for kind, size in stored(model, largest).items()}
    return found


def stored(model: LanguageModel, batch: Batch, most: int = 5) -> dict[str, float]:
    """Return the bytes of the new arrays of the forward pass by operation, the largest `most`."""
    with Profile() as profile:
        Replicas(model, 1).run(forward_backward, batch)
    model.zero_grad()
    sizes = {line.name: float(line.bytes_new) for line in profile.lines.values() if line.phase == "forward"}
    return dict(sorted(sizes.items(), key=lambda pair: -pair[1])[:most])


def equal_lengths(size: str, rounds: int) -> dict[str, float]:
    """Return the tokens per second of steps of documents that are as long as the context, and of windows."""
    row = generator(0, "benchmark").integers(1, 4_096, 400 * EQUAL + 1).astype(np.uint16)
    row[::EQUAL] = 0
    readers: dict[str, Reader] = {"packed": Documents(row, EQUAL), "windows": Windows(row, EQUAL)}
    model, replicas = learner(size, EQUAL, EQUAL * EQUAL_BATCH)

    def steps(reader: Reader) -> Callable[[], None]:
        numbers = itertools.count()

        def step() -> None:
            replicas.run(forward_backward, reader.batch(seed=0, step=next(numbers), batch_size=EQUAL_BATCH))
            model.zero_grad()

        return step

    works = {name: steps(reader) for name, reader in readers.items()}
    return {name: EQUAL * EQUAL_BATCH / seconds for name, seconds in medians(works, rounds).items()}


def main() -> None:
    """Print a table of each case, then the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="nano")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--each", type=int, default=2, help="sequences of each length of the mix")
    parser.add_argument("--case", choices=("mix", "short-mix", "python-docs", "equal"))
    asked = parser.parse_args()
    hardware.prepare(None)
    results: dict[str, Any] = {"machine": describe_machine(), "size": asked.size}
    print(f"{describe_machine()}, vidya-v2 {asked.size}")
    cases: dict[str, Callable[[], tuple[list[int], int, int]]] = {
        "mix": lambda: (list(MIX) * asked.each, len(MIX), sum(MIX)),
        "short-mix": lambda: (list(SHORT_MIX) * asked.each, len(SHORT_MIX), sum(SHORT_MIX)),
        "python-docs": lambda: (lengths_of_documents(8 * CONTEXT), 8, 4 * CONTEXT),
    }
    for case, prepared in cases.items():
        if asked.case in (None, case):
            lengths, count, tokens = prepared()
            buckets = bucketed(lengths, max(tokens, 2 * max(lengths)))
            ways = {"padded": padded(lengths, count), "buckets": buckets, "packed": packed(lengths, tokens)}
            results[case] = compare(asked.size, ways, asked.rounds)
            print(f"{case}: {len(lengths)} sequences of {min(lengths):,} to {max(lengths):,} tokens")
            for name, found in results[case].items():
                line = f"  {name:<8} {found['rows'] / found['tokens']:5.2f} rows a token"
                for measured in [each for each in found if each not in ("rows", "tokens")]:
                    times = found[measured] / results[case]["padded"].get(measured, math.nan)
                    line += f", {found[measured]:13,.0f} {measured}, {times:.2f}x"
                print(line, flush=True)
    if asked.case in (None, "equal") and asked.rounds:
        results["equal"] = equal_lengths(asked.size, 8 * asked.rounds)
        speeds = ", ".join(f"{name} {speed:,.0f}" for name, speed in results["equal"].items())
        print(f"equal lengths, {EQUAL_BATCH} x {EQUAL}, tokens/s: {speeds}")
    print(json.dumps(results))


if __name__ == "__main__":
    main()
