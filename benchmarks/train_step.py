"""Tokens per second and peak memory of a training step, size by size, beside the estimates of the plan.

Every size runs in a process of its own, so that its peak memory can be measured. Run with nothing else on the machine:

    python benchmarks/train_step.py            # nano, micro, mini, small
    python benchmarks/train_step.py 2.0        # the published size, batch 2 x 512
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

from machine import describe_machine

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

SHAPES = {"nano": (8, 256), "micro": (8, 256), "mini": (8, 256), "small": (8, 256), "2.0": (2, 512)}


def measure(size: str, steps: int = 7) -> dict[str, float | str]:
    """Take a few training steps on random tokens and return the medians."""
    import models
    from minigrad import optim
    from minigrad.data.tokens.batches import Batch
    from minigrad.random import generator
    from minigrad.system import hardware
    from minigrad.training.parallel import Replicas, num_replicas
    from minigrad.training.planning import costs
    from train import forward_backward

    batch_size, context = SHAPES[size]
    rates = costs.measure_rates()
    model = models.build("vidya-v2", size=size)
    optimizer = optim.AdamW(model.parameters())
    tokens = generator(0, "benchmark").integers(0, model.config.vocab_size, (batch_size, context + 1))
    batch = Batch.rectangular(tokens[:, :-1], tokens[:, 1:])
    replicas = num_replicas(model, batch_size, context)
    learners, seconds = Replicas(model, replicas), []
    for _ in range(steps + 1):
        started = time.perf_counter()
        learners.run(forward_backward, batch)
        optimizer.step(1e-3, max_norm=1.0)
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - started)
    speed = batch_size * context / statistics.median(seconds[1:])  # the first step may compile
    planned = costs.memory(model, batch_size, context, replicas=replicas)
    return {
        "size": size,
        "tokens_per_second": speed,
        "expected": costs.tokens_per_second(model, context, rates),
        "matmul_share": speed * costs.flops_per_token(model, context) / rates.products,
        "gflops": rates.products / 1e9,
        "peak_bytes": hardware.peak_memory_bytes(),
        "planned_bytes": planned.total - planned.snapshot,  # nothing is saved here
    }


def main() -> None:
    """Print one line per size, then everything as JSON."""
    if sys.argv[1:2] == ["--one"]:
        print(json.dumps(measure(sys.argv[2])))
        return

    print(describe_machine())
    print(f"{'size':<6} {'tokens/s':>9} {'expected':>9} {'of matmul':>10} {'peak MB':>9} {'planned MB':>11}")
    results = []
    for size in sys.argv[1:] or ["nano", "micro", "mini", "small"]:
        command = [sys.executable, __file__, "--one", size]
        result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        results.append(result)
        print(
            f"{size:<6} {result['tokens_per_second']:9,.0f} {result['expected']:9,.0f} {result['matmul_share']:10.0%} "
            f"{result['peak_bytes'] / 1e6:9,.0f} {result['planned_bytes'] / 1e6:11,.0f}"
        )
    print(json.dumps({"machine": describe_machine(), "results": results}))


if __name__ == "__main__":
    main()
