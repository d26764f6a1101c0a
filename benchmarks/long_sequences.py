"""Forward and backward pass of longer and longer sequences: seconds, tokens/s and peak memory, each in its own process.

The model is new and its layers are recomputed in the backward pass, as a machine with little memory would have it. One
sequence of random tokens is read, after a short one that compiles. There is no update, and so there are no moments of
an optimizer in the memory. Whether the loss and all gradients are finite is printed too: the paper of Wiola expects its
spiral positions to interfere beyond 8,192 tokens.

    python benchmarks/long_sequences.py                                               # wiola nano, 2,048 to 16,384
    python benchmarks/long_sequences.py vidya-v2 2.0 --lengths 512 2048 4096 8192 --precision float32 bfloat16
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from typing import Any

import numpy as np
from machine import describe_machine


def step(family: str, size: str, length: int, precision: str = "float32") -> dict[str, Any]:
    """Go forward and backward through random tokens, after a short sequence that compiles."""
    import models
    from minigrad.kernels.gemm import backend
    from minigrad.random import generator
    from minigrad.system import hardware

    backend.use("auto", precision)
    model: Any = models.build(family, size, context_length=length)
    model.recompute_layers()
    ids = generator(0, "benchmark").integers(0, model.config.vocab_size, (1, length + 1))
    for tokens in (64, length):
        started = time.perf_counter()
        model.zero_grad()
        loss = model.loss(ids[:, :tokens], ids[:, 1 : tokens + 1])
        loss.backward()
    seconds = time.perf_counter() - started
    gradients = [np.asarray(parameter.grad) for parameter in model.parameters()]
    return {
        "tokens": length,
        "precision": precision,
        "loss": float(loss.item()),
        "finite": bool(np.isfinite(loss.item()) and all(np.isfinite(each).all() for each in gradients)),
        "seconds": seconds,
        "tokens_per_second": length / seconds,
        "peak_bytes": hardware.peak_memory_bytes(),
    }


def main() -> None:
    """Take every length in a process of its own; print a line for each, and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("family", nargs="?", default="wiola")
    parser.add_argument("size", nargs="?", default="nano")
    parser.add_argument("--lengths", type=int, nargs="+", default=[2_048, 8_192, 16_384])
    parser.add_argument("--precision", nargs="+", choices=("float32", "bfloat16"), default=["float32"])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(step(options.family, options.size, options.lengths[0], options.precision[0])))
        return
    print(describe_machine())
    steps = []
    for length in options.lengths:
        for precision in options.precision:
            one = ("--one", "--lengths", str(length), "--precision", precision)
            command = [sys.executable, __file__, options.family, options.size, *one]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            steps.append(json.loads(done.stdout.splitlines()[-1]))
            print("  ".join(f"{name} {value:,}" if name != "precision" else value for name, value in steps[-1].items()))
    print(json.dumps({"machine": describe_machine(), "model": f"{options.family} {options.size}", "steps": steps}))


if __name__ == "__main__":
    main()
