"""Tokens per second and peak memory of a training step, size by size, beside the estimates of the plan.

It builds each model as train.py does, and runs every size in a process of its own, so that its peak memory can be
measured. Run with nothing else on the machine:

    python benchmarks/train_step.py            # nano, micro, mini, small
    python benchmarks/train_step.py 2.0        # the published size, batch 2 x 512
    python benchmarks/train_step.py nano mini --precision float32 bfloat16 --optimizer adamw muon
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import subprocess
import sys
import time

from machine import describe_machine

SHAPES = {"nano": (8, 256), "micro": (8, 256), "mini": (8, 256), "small": (8, 256), "2.0": (2, 512)}


def measure(size: str, precision: str, optimizer: str, steps: int = 7) -> dict[str, float | str]:
    """Take a few training steps on random tokens and return the medians."""
    import models
    from minigrad import optim
    from minigrad.data.tokens.batches import Batch
    from minigrad.distributed.world import ALONE
    from minigrad.kernels.gemm import backend
    from minigrad.random import generator
    from minigrad.system import forks, hardware
    from minigrad.training.optimizers import bytes_kept, matrices_of, update_flops_per_token
    from minigrad.training.parallel import copies_pay, num_replicas
    from minigrad.training.planning import costs
    from minigrad.training.settings import RunSettings
    from minigrad.training.workers import fastest
    from train import forward_backward

    batch_size, context = SHAPES[size]
    backend.use("auto", precision)
    rates = costs.measure_rates()
    model = models.for_training("vidya-v2", size)
    model.initialise()
    matrices = matrices_of(model) if optimizer == "muon" else []  # without any, Muon is AdamW
    update = optim.Muon(model.parameters(), matrices=matrices)
    tokens = generator(0, "benchmark").integers(0, model.config.vocab_size, (batch_size, context + 1))
    batch = Batch.rectangular(tokens[:, :-1], tokens[:, 1:])
    replicas = num_replicas(model, batch_size, context)
    learners, seconds = fastest(model, batch_size, context), []
    for _ in range(steps + 1):
        started = time.perf_counter()
        learners.run(forward_backward, batch)
        update.step(1e-3, max_norm=1.0)
        update.zero_grad()
        seconds.append(time.perf_counter() - started)
    speed = batch_size * context / statistics.median(seconds[1:])  # the first step may compile
    planned = costs.memory(model, batch_size, context, replicas=replicas)
    planned = planned.with_copies(replicas - 1) if copies_pay(model) else planned
    planned = planned.with_optimizer(*bytes_kept(model, RunSettings(optimizer=optimizer), ALONE))
    return {
        "size": size,
        "precision": precision,
        "optimizer": optimizer,
        "tokens_per_second": speed,
        "expected": costs.tokens_per_second(
            model, context, rates, update_flops_per_token(optimizer, model, batch_size * context), replicas
        ),
        "matmul_share": speed * costs.flops_per_token(model, context) / rates.products,
        "gflops": rates.products / 1e9,
        "peak_bytes": hardware.peak_memory_bytes() + forks.memory_bytes_of_all(),
        "planned_bytes": planned.total - planned.snapshot,  # nothing is saved here
    }


def main() -> None:
    """Print one line per size, precision and optimizer, then everything as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sizes", nargs="*", default=["nano", "micro", "mini", "small"])
    parser.add_argument("--precision", nargs="+", choices=("float32", "bfloat16"), default=["float32"])
    parser.add_argument("--optimizer", nargs="+", choices=("adamw", "muon"), default=["adamw"])
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.sizes[0], options.precision[0], options.optimizer[0])))
        return

    print(describe_machine())
    print("| size | tokens/s | expected by the plan | of the rate of products | peak MB | planned MB |")
    print("| --- | --: | --: | --: | --: | --: |")
    results = []
    for size, precision, optimizer in itertools.product(options.sizes, options.precision, options.optimizer):
        command = [sys.executable, __file__, "--one", size, "--precision", precision, "--optimizer", optimizer]
        result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        results.append(result)
        print(
            f"| {size}, {precision}, {optimizer} | {result['tokens_per_second']:,.0f} | {result['expected']:,.0f} | "
            f"{result['matmul_share']:.0%} | {result['peak_bytes'] / 1e6:,.0f} | "
            f"{result['planned_bytes'] / 1e6:,.0f} |",
            flush=True,
        )
    print(json.dumps({"machine": describe_machine(), "results": results}))


if __name__ == "__main__":
    main()
