"""The baseline of n-grams (`minigrad.evaluate.rivals`) on the validation part of a text.

python benchmarks/ngram.py [--data python-docs] [--orders 1 2 3 4 5 6 7 8]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from minigrad.data import corpus
from minigrad.evaluate.rivals import ngram_bits_per_byte


def main() -> None:
    """Print the bits per byte of several orders on a text's validation part."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="python-docs")
    parser.add_argument("--orders", type=int, nargs="+", default=[1, 2, 3, 4, 5, 6, 7, 8])
    arguments = parser.parse_args()
    parts = corpus.load(arguments.data, progress=print).split()
    scores = {}
    for order in arguments.orders:
        scores[order] = ngram_bits_per_byte(parts.train, parts.validation, order)
        print(f"order {order}: {scores[order]:.3f} bits per byte")
    print(json.dumps({"data": arguments.data, "bits_per_byte": scores}))


if __name__ == "__main__":
    main()
