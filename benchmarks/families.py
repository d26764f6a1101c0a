"""Every family at equal parameters: the validation loss after equal seconds, and after equally many tokens.

Trains each family at nano size with the project's own command, on the same text with the same vocabulary, and compares
the bits per byte of the validation text with those of an n-gram model of the same text. Each run has its own
process. With the defaults it takes 40 minutes; run it with nothing else on the machine.

    python benchmarks/families.py [--minutes 5] [--tokens 2000000] [--families gpt2 wiola]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from machine import describe_machine

from minigrad.system import environment

ROOT = Path(__file__).parent.parent


def run(model: str, size: str, limit: list[str], data: str) -> dict[str, Any]:
    """Train in a process of its own; return its result with its seconds, and the largest memory at a line of its log.

    That counts copies of the process, too.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, str(ROOT / "train.py"), "--model", model, "--size", size, "--data", data]
        started = time.perf_counter()
        whole = [*command, *limit, "--out", str(out)]
        if subprocess.run(whole, stdout=subprocess.DEVNULL, env=environment.as_found(), check=False).returncode:
            raise SystemExit(f"{' '.join(command)} failed")
        record = json.loads((out / "minigrad.json").read_text(encoding="utf-8"))
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    speeds = sorted(line["tokens_per_second"] for line in lines)
    return {
        "family": model,
        "parameters": record["parameters"],
        "tokens": record["result"]["tokens"],
        "seconds": time.perf_counter() - started,
        "tokens_per_second": speeds[len(speeds) // 2],
        "bits_per_byte": record["result"]["bits_per_byte"],
        "peak_mb": max(line["memory_bytes"] for line in lines) / 1e6,
        "machine": record["hardware"],
        "merge_ratio": lines[-1].get("merge_ratio"),
    }


def show(title: str, results: list[dict[str, Any]]) -> None:
    """Print results as a table."""
    print(f"\n{title}\n\n| family | parameters | tokens | seconds | tokens/s | bits per byte | peak MB |")
    print("| --- | --: | --: | --: | --: | --: | --: |")
    for each in results:
        print(
            f"| {each['family']} | {each['parameters']:,} | {each['tokens']:,} | {each['seconds']:.0f} | "
            f"{each['tokens_per_second']:,.0f} | {each['bits_per_byte']:.3f} | {each['peak_mb']:.0f} |",
            flush=True,
        )


def main() -> None:
    """Run everything and print two tables and JSON."""
    import models
    from minigrad.data import corpus
    from minigrad.evaluate.rivals import ngram_bits_per_byte

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--families", nargs="+", default=list(models.FAMILIES))
    parser.add_argument("--size", default="nano")
    parser.add_argument("--data", default="python-docs")
    parser.add_argument("--minutes", type=float, default=5.0, help="for the first table; 0 leaves it out")
    parser.add_argument("--tokens", type=int, default=2_000_000, help="for the second table; 0 leaves it out")
    arguments = parser.parse_args()
    print(describe_machine())
    parts = corpus.load(arguments.data).split()
    counted = ngram_bits_per_byte(parts.train, parts.validation, 4)
    print(f"an order-4 byte n-gram model: {counted:.3f} bits per byte")
    settings = {f"{arguments.minutes:g} minutes each": ["--minutes", str(arguments.minutes)]}
    settings[f"{arguments.tokens:,} tokens each"] = ["--tokens", str(arguments.tokens)]
    results = {}
    for title, limit in settings.items():
        if float(limit[1]):
            runs = [run(family, arguments.size, limit, arguments.data) for family in arguments.families]
            show(title, runs)
            results[title] = runs
    print(json.dumps({"machine": describe_machine(), "ngram_bits_per_byte": counted, **results}))


if __name__ == "__main__":
    main()
