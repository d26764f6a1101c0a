"""A text that is larger than what is kept in memory: the seconds and the peak memory of everything before training.

    python benchmarks/streaming.py [--megabytes 400] [--vocab 4096] [--folder DIR]

Writes a text of JSON lines, gzipped, in a temporary folder: documents of random words whose frequencies fall as those
of a language do (Zipf). Each pass over it is measured: the split, the vocabulary, the tokens, and the first batch.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from machine import describe_machine

import tokenizer
from minigrad.data import mixture
from minigrad.data.split import num_bytes
from minigrad.data.tokens.reading import training_source
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.system import hardware
from minigrad.system.units import format_bytes

T = TypeVar("T")
WORDS = 50_000


def write_text(path: Path, megabytes: int) -> None:
    """Write about this many megabytes of text."""
    draw = np.random.default_rng(0)
    letters = np.array(list("abcdefghijklmnopqrstuvwxyz"))
    words = np.array(["".join(draw.choice(letters, size)) for size in draw.integers(2, 11, WORDS)])
    chances = 1 / np.arange(1, WORDS + 1)
    written = 0
    with gzip.open(path, "wt", compresslevel=1, encoding="utf-8") as file:
        while written < 1_000_000 * megabytes:
            drawn = draw.choice(words, 200_000, p=chances / chances.sum())
            for part in np.array_split(drawn, 400):
                document = " ".join(part.tolist())
                file.write(json.dumps({"text": document}) + "\n")
                written += len(document)


def measured(name: str, work: Callable[[], T]) -> tuple[T, dict[str, Any]]:
    """Return the result of `work`, and a row: the seconds it took, and the peak memory of the process until then."""
    start = time.perf_counter()
    result = work()
    row = {"part": name, "seconds": time.perf_counter() - start, "peak_bytes": hardware.peak_memory_bytes()}
    print(f"{name:<28} {row['seconds']:8.1f} s   at most {format_bytes(row['peak_bytes'])}", flush=True)
    return result, row


def main() -> None:
    """Print a line for each part, and all of them as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--megabytes", type=int, default=400)
    parser.add_argument("--vocab", type=int, default=4096)
    parser.add_argument("--folder", default=None)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        os.environ["MINIGRAD_CACHE"] = folder
        path = Path(folder) / "text.jsonl.gz"
        small = Path(folder) / "small.txt"
        small.write_text("to be or not to be " * 99, encoding="utf-8")

        def warm_up() -> None:
            tokenizer.train([small.read_text(encoding="utf-8")], vocab_size=262).encode("to be")

        rows = [
            measured("writing the text", lambda: write_text(path, arguments.megabytes))[1],
            measured("compiling", warm_up)[1],
        ]
        source, row = measured("reading", lambda: mixture.load(str(path)))
        rows.append(row)
        parts, row = measured("choosing what is held out", source.split)
        rows.append(row)
        tok, row = measured("learning a vocabulary", lambda: tokenizer.train(source.sample(), arguments.vocab))
        rows.append(row)
        text, row = measured("encoding", lambda: TokenizedCorpus.of(source, tok))
        rows.append(row)
        rows.append(measured("finding the tokens again", lambda: TokenizedCorpus.of(source, tok))[1])

        def first_batch() -> object:
            return training_source("packed", text.train, 256).batch(seed=0, step=0, batch_size=8)

        rows.append(measured("the first batch", first_batch)[1])
        facts = {
            "bytes": text.train.num_bytes + text.validation.num_bytes + num_bytes(parts.test),
            "documents": source.num_documents,
            "validation_bytes": text.validation.num_bytes,
            "validation_documents": len(parts.validation),
            "tokens": len(text.train),
            "machine": describe_machine(),
        }
    print(json.dumps({"parts": rows, **facts}))


if __name__ == "__main__":
    main()
