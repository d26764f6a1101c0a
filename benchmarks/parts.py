"""The parts of a text: how large they are, and how much of what is held out is trained on nevertheless.

    python benchmarks/parts.py [--data python-docs] [--held-out TEXT]

A run of 13 words of validation or test text is counted as trained on if it occurs anywhere in the text to train on,
even where it crosses from one paragraph into the next.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from minigrad.data import mixture
from minigrad.data.selection import RUN
from minigrad.data.split import Parts, num_bytes

COLUMNS = ("documents", "bytes", "% of all bytes", "% of it in the largest document", "% of its runs trained on")


def rows(parts: Parts) -> dict[str, list[str]]:
    """Return the figures of each part under its name, as they are printed; the columns are `COLUMNS`."""
    texts = {"training": list(parts.train), "validation": parts.validation, "test": parts.test}
    total, known = sum(map(num_bytes, texts.values())), set(_runs(texts["training"]))
    return {name: [*_sizes(found, total), *_copied(name, set(_runs(found)), known)] for name, found in texts.items()}


def _sizes(texts: Iterable[str], total: int) -> list[str]:
    sizes = [len(text.encode()) for text in texts]
    size, largest = sum(sizes), max(sizes, default=0)
    return [f"{len(sizes):,}", f"{size:,}", f"{100 * size / total:.1f}", f"{100 * largest / max(size, 1):.1f}"]


def _copied(name: str, runs: set[int], known: set[int]) -> list[str]:
    return ["" if name == "training" else f"{100 * len(runs & known) / max(len(runs), 1):.3f}"]


def _runs(texts: Iterable[str]) -> Iterator[int]:
    """Yield a hash of each run of words."""
    for text in texts:
        words = re.findall(r"\w+", text.lower())
        yield from map(hash, zip(*(words[start:] for start in range(RUN)), strict=False))


def main() -> None:
    """Print the table of a text."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="python-docs")
    parser.add_argument("--held-out")
    arguments = parser.parse_args()
    text = mixture.load(arguments.data, held_out=arguments.held_out, progress=print)
    print(f"{text.description}; {text.split().left_out:,} paragraphs are left out of training")
    print(f"| part | {' | '.join(COLUMNS)} |\n|{' --- |' * (1 + len(COLUMNS))}")
    for name, figures in rows(text.split()).items():
        print(f"| {name} | {' | '.join(figures)} |")


if __name__ == "__main__":
    main()
