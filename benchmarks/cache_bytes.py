"""The memory of the key-value cache, counted from the arrays, beside the figures of the source documents.

python benchmarks/cache_bytes.py [--length 2048]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import models

SAID = {
    ("wiola", "360m"): "67.1 MB in 16 bits (that is the figure in 32)",
    ("gpt2", "300m"): "256 MB in 16 bits",
    ("vidya-v2", "2.0"): "3 times smaller than without grouping",
}


def main() -> None:
    """Print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--length", type=int, default=2_048)
    length = parser.parse_args().length
    print(f"one text of {length:,} tokens (or the context, where that is shorter)\n")
    print("| model | keys and values, float32 | in 16 bits | everything | the document says |")
    print("| --- | --: | --: | --: | --- |")
    results = []
    for family, (_, _, sizes) in models.FAMILIES.items():
        for size in sizes:
            model = models.skeleton(family, size)
            cache = model.new_cache(1, min(length, model.config.context_length))
            pair = cache.keys.nbytes + cache.values.nbytes
            print(
                f"| {family} {size} | {pair / 1e6:.1f} MB | {pair / 2e6:.1f} MB | {cache.num_bytes / 1e6:.1f} MB | "
                f"{SAID.get((family, size), '')} |"
            )
            results.append({"family": family, "size": size, "bytes": pair, "everything": cache.num_bytes})
    print(json.dumps(results))


if __name__ == "__main__":
    main()
