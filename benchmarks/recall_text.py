"""A text that only recall predicts: random pairs of words, and then the same pairs again in another order.

In each document, keys stand before values: ` baba kidi lafa badi ...`. Each pair is told once and asked once. The
pairs of a document are drawn anew, so the value of a key that is asked can only be recalled from this document. That is
multi-query associative recall (Arora et al. 2023, "Zoology: Measuring and Improving Recall in Efficient Language
Models", arXiv 2312.04927). Of the repeated pairs of `minigrad.evaluate.losses`, about nine in ten are these; in the
others, a value and the key after it have met by chance.

A model that only knows which values the document has told, and to no key, needs about ln n nats for a value that is
asked, where n is the number of pairs. Compare a loss with that before you call it recall; ln 64, a guess among all
values, is much more. With documents of up to 16 pairs, a Wiola of a million parameters was hardly below ln n after
2,000 steps of 2,048 tokens; with up to 4 pairs, it recalled after a few hundred (docs/results_designs.md, "Merging and
recall" and the section after it).

    python benchmarks/recall_text.py runs/recall.jsonl

`wiola_merging_recall.toml` and `wiola_merging_recall_few.toml` in `benchmarks/evaluation/studies` train on such texts.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

KEYS, VALUES = (
    ["".join(parts) + ending for parts in itertools.product("bdfgklmn", "aiou", "dk")] for ending in ("a", "i")
)


def documents(count: int, pairs: int, seed: int = 0) -> Iterator[str]:
    """Yield documents of 1 to `pairs` pairs: each is told, then each is asked. The same seed gives the same ones.

    >>> len(next(documents(1, pairs=1)).split())
    4
    """
    from minigrad.random import generator

    draw = generator(seed, "recall")
    for _ in range(count):
        told = int(draw.integers(1, pairs + 1))
        keys, values = draw.choice(KEYS, size=told, replace=False), draw.choice(VALUES, size=told)
        order = [*range(told), *draw.permutation(told)]
        yield "".join(f" {keys[place]} {values[place]}" for place in order)


def main() -> None:
    """Write the documents as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path, help="the file, which is replaced")
    parser.add_argument("--documents", type=int, default=40_000, help="how many (default: 40000, 1.4 million tokens)")
    parser.add_argument("--pairs", type=int, default=16, help="most pairs of a document (default: 16)")
    given = parser.parse_args()
    if not 1 <= given.pairs <= len(KEYS) or given.documents < 1:
        parser.error(f"there is at least 1 document, and none has more than {len(KEYS)} pairs")
    lines = (json.dumps({"text": text}) + "\n" for text in documents(given.documents, given.pairs))
    try:
        given.out.parent.mkdir(parents=True, exist_ok=True)
        with given.out.open("w", encoding="utf-8") as file:
            file.writelines(lines)
    except OSError as error:
        parser.error(f"cannot write {given.out}: {error.strerror}")
    print(f"{given.out}: {given.documents:,} documents, {given.out.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
