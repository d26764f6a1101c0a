"""Replicas on threads, and in copies of the process: milliseconds of a step's forward and backward pass, in turns.

Each size is a process of its own, with both kinds of replicas of one model, on steps of 8 x 256 random tokens. Run with
nothing else on the machine:

    python benchmarks/replicas.py [nano micro mini] [--rounds 15] [--precision bfloat16]
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time

from machine import describe_machine

BATCH, CONTEXT = 8, 256


def measure(size: str, precision: str, rounds: int) -> dict[str, float]:
    """Return the median milliseconds of each kind of replicas, and how many there are."""
    import models
    from minigrad.data.tokens.batches import Batch
    from minigrad.kernels.gemm import backend
    from minigrad.random import generator
    from minigrad.training.copies import Copies
    from minigrad.training.parallel import Replicas, num_replicas
    from train import forward_backward

    backend.use("auto", precision)
    model = models.for_training("vidya-v2", size, dropout=0.1)
    model.initialise(0)
    count = num_replicas(model, BATCH, CONTEXT)
    tokens = generator(0, "benchmark").integers(0, model.config.vocab_size, (BATCH, CONTEXT + 1))
    batch = Batch.rectangular(tokens[:, :-1], tokens[:, 1:])
    kinds = {"threads": Replicas(model, count), "copies": Copies(model, count)}
    seconds: dict[str, list[float]] = {name: [] for name in kinds}
    for turn in range(rounds + 1):
        for name, replicas in list(kinds.items())[:: 1 if turn % 2 else -1]:
            for number in range(3):  # the first pass of a turn finds its data in no cache
                start = time.perf_counter()
                replicas.run(forward_backward, batch, step=turn)
                seconds[name] += [time.perf_counter() - start] if turn and number else []
                model.zero_grad()
    return {"replicas": count} | {name: 1e3 * statistics.median(found) for name, found in seconds.items()}


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sizes", nargs="*", default=["nano", "micro", "mini"])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.sizes[0], options.precision[0], options.rounds)))
        return
    print(describe_machine())
    print("| size | replicas | on threads, ms | in copies, ms | ratio |")
    print("| --- | --: | --: | --: | --: |")
    for size in options.sizes:
        for precision in options.precision:
            command = [sys.executable, __file__, "--one", size, "--precision", precision, "--rounds"]
            done = subprocess.run([*command, str(options.rounds)], capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            ratio = found["threads"] / found["copies"]
            row = f"{size}, {precision} | {found['replicas']} | {found['threads']:.1f} | {found['copies']:.1f}"
            print(f"| {row} | {ratio:.2f}x |", flush=True)


if __name__ == "__main__":
    main()
