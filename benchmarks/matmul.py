"""The ladder of matrix products, rung by rung, and the last one at the models' shapes, against NumPy's BLAS.

All measurements are interleaved, and medians are printed. Run with nothing else on the machine:

    python benchmarks/matmul.py
    python benchmarks/matmul.py --training      # three minutes: what `--matmul auto` should choose

With `--training` the products are those of a training step of vidya-v2 nano, mini and 2.0, on one thread and on all,
each as many times as the step has it. Where replicas train, each thread computes a product of its own at the same time.
The last table adds them up: the time of all products of a step, relative to BLAS, if our loops compute those above some
number of multiply-adds. The smallest is the right entry for the core of OpenBLAS in `OWN_LOOPS_FROM`
(minigrad/kernels/gemm/backend.py); 1.00 in every column means none.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from machine import describe_machine
from turns import medians

from minigrad.kernels import threads
from minigrad.kernels.cpu import BFLOAT16, FLOAT32, SPLIT
from minigrad.kernels.gemm import backend
from minigrad.kernels.gemm.backend import product_into, use
from minigrad.kernels.gemm.ladder import blocked, loop_order, naive, packed
from minigrad.kernels.gemm.narrow import NARROW
from minigrad.kernels.gemm.panels import multiply
from minigrad.system import hardware

BLOCKS = {"float32": FLOAT32, "three parts": SPLIT, "bfloat16": BFLOAT16}
SHAPES = [
    # rows, sum, columns, and whether the left factor is transposed (the gradient of a weight)
    (1_024, 576, 1_536, False),
    (1_024, 1_536, 576, False),
    (1_536, 1_024, 576, True),
    (1_024, 576, 576, False),
    (512, 576, 32_000, False),
    (32_000, 512, 576, True),
    (2_048, 96, 256, False),
    (256, 2_048, 96, True),
    (2_048, 288, 768, False),
    (256, 768, 2_304, False),
]


def rates(contestants: dict[str, Callable[[], Any]], operations: float, rounds: int) -> dict[str, float]:
    """Let all take turns; return the median GFLOP/s of each."""
    return {name: operations / seconds / 1e9 for name, seconds in medians(contestants, rounds).items()}


def factors(m: int, k: int, n: int, transposed: bool) -> tuple[Any, Any, Any]:
    """Draw a left and a right factor as training has them, and an array for the product."""
    rng = np.random.default_rng(0)
    left = rng.standard_normal((k, m) if transposed else (m, k), dtype=np.float32)
    right = rng.standard_normal((k, n) if transposed else (n, k), dtype=np.float32)
    return left.T if transposed else left, right if transposed else right.T, np.empty((m, n), np.float32)


def ladder(size: int = 768) -> dict[str, float]:
    """Time every rung on square matrices, the plain ones on one thread."""
    a, b, c = factors(size, size, size, transposed=False)
    b = np.ascontiguousarray(b)
    rungs: dict[str, Callable[[], Any]] = {
        rung.__name__: lambda rung=rung: rung(a, b, c) for rung in (naive, loop_order, blocked, packed)
    }
    if FLOAT32 is not None:
        rungs["blocks in registers"] = lambda: multiply(a, b, c, FLOAT32)
    count = hardware.threads()
    hardware.prepare(1)
    found = rates(rungs | {"BLAS": lambda: product_into(a, b, c, False)}, 2 * size**3, rounds=5)
    hardware.prepare(count)
    both: dict[str, Callable[[], Any]] = {f"BLAS, {count} threads": lambda: product_into(a, b, c, False)}
    for name, block in BLOCKS.items():
        if block is not None:
            both[f"{name}, {count} threads"] = lambda block=block: multiply(a, b, c, block)
    return found | rates(both, 2 * size**3, rounds=9)


def print_ladder() -> None:
    """Print two tables and JSON."""
    found = ladder()
    for name, rate in found.items():
        print(f"{name:<22} {rate:8.1f} GFLOP/s")
    titles = "".join(f" {name:>13} {'of BLAS':>8}" for name in BLOCKS)
    print(f"\n{'shape':<24} {'BLAS':>7}{titles}")
    results = []
    for m, k, n, transposed in SHAPES:
        a, b, c = factors(m, k, n, transposed)
        contestants: dict[str, Callable[[], Any]] = {"BLAS": lambda a=a, b=b, c=c: product_into(a, b, c, False)}
        for name, block in BLOCKS.items():
            if block is not None:
                contestants[name] = lambda a=a, b=b, c=c, block=block: multiply(a, b, c, block)
        rate = rates(contestants, 2.0 * m * k * n, rounds=15)
        results.append({"shape": [m, k, n], "transposed": transposed, **rate})
        shape = f"{m}, {k}, {n}{' w' if transposed else ''}"
        ours = [rate.get(name, np.nan) for name in BLOCKS]
        print(
            f"{shape:<24} {rate['BLAS']:7.0f}" + "".join(f" {each:13.0f} {each / rate['BLAS']:8.2f}" for each in ours)
        )
    print(json.dumps({"machine": describe_machine(), "ladder": found, "shapes": results}))


CASES = {"nano": (8, 256), "mini": (8, 256), "2.0": (2, 512)}
"""Sizes of vidya-v2, with the sequences of a step and their tokens."""
FROM = (0, 1_000_000, 2_000_000, 5_000_000, 10_000_000, 30_000_000, 100_000_000, math.inf)
"""Numbers of multiply-adds from which our loops may compute a product."""


class Product(NamedTuple):
    """The shape of a product, and which of its factors lie transposed in memory."""

    rows: int
    depth: int
    columns: int
    left_transposed: bool
    right_transposed: bool

    @property
    def size(self) -> int:
        """The multiply-adds."""
        return self.rows * self.depth * self.columns

    @property
    def name(self) -> str:
        """The shape; w: the left factor is transposed, as in a gradient of weights, t: the right one is."""
        marks = f"{' w' if self.left_transposed else ''}{' t' if self.right_transposed else ''}"
        return f"{self.rows}, {self.depth}, {self.columns}{marks}"

    def arrays(self) -> tuple[Any, Any, Any]:
        """Draw both factors, and make an array for the product."""
        rng, sides = np.random.default_rng(0), ((self.rows, self.depth), (self.depth, self.columns))
        left, right = (
            rng.standard_normal(side[::-1] if transposed else side, dtype=np.float32)
            for side, transposed in zip(sides, self[3:], strict=True)
        )
        out = np.empty((self.rows, self.columns), np.float32)
        return left.T if self.left_transposed else left, right.T if self.right_transposed else right, out


def products_of_step(size: str) -> tuple[Counter[Product], int]:
    """Take a training step; return its products with their numbers, and the number of replicas that share them."""
    import models
    from minigrad.data.tokens.batches import Batch
    from minigrad.training.parallel import Replicas, num_replicas
    from train import forward_backward

    batch, length = CASES[size]
    model = models.build("vidya-v2", size=size, dropout=0.0)
    tokens = np.random.default_rng(0).integers(0, model.config.vocab_size, (batch, length + 1))
    count, found, compute = num_replicas(model, batch, length), Counter[Product](), backend._set_part

    def noted(a: Any, b: Any, out: Any, arithmetic: Any) -> None:
        if min(out.shape) > NARROW:
            found[Product(len(a), a.shape[1], b.shape[1], not a.flags.c_contiguous, not b.flags.c_contiguous)] += 1
        compute(a, b, out, arithmetic)

    backend._set_part = noted
    try:
        Replicas(model, count).run(forward_backward, Batch.rectangular(tokens[:, :-1], tokens[:, 1:]))
    finally:
        backend._set_part = compute
    return found, count


def compare(product: Product, replicas: int, rounds: int) -> dict[str, float]:
    """Let BLAS and our loops take turns at a product, one for each replica; return their median seconds of all."""
    arrays = [product.arrays() for _ in range(replicas)]

    def by_blas(number: int) -> None:
        product_into(*arrays[number], False)

    def by_our_loops(number: int) -> None:
        multiply(*arrays[number], FLOAT32)

    def all_of(task: Callable[[int], None]) -> Callable[[], None]:
        return (lambda: task(0)) if replicas == 1 else (lambda: threads.run_tasks(task, replicas))

    return medians({"BLAS": all_of(by_blas), "ours": all_of(by_our_loops)}, rounds)


def print_training(sizes: list[str], rounds: int) -> None:
    """Print the products of a step of each size, and the time of all of them, for each number of threads; and JSON."""
    counts, totals, results = dict.fromkeys((1, hardware.threads())), {}, []
    print(f"\n{'case':<16} {'shape':<24} {'a step':>6} {'million':>8} {'BLAS':>7} {'ours':>7} {'of BLAS':>8}")
    for count, size in itertools.product(counts, sizes):
        hardware.prepare(count)
        case = f"{size}, {count} thread{'s' if count > 1 else ''}"
        found, replicas = products_of_step(size)
        measured = []
        for product, number in sorted(found.items(), key=lambda item: item[0].size):
            seconds = compare(product, replicas, rounds)
            measured.append((product.size, number / replicas, seconds["BLAS"], seconds["ours"]))
            rate = [replicas * 2e-9 * product.size / seconds[name] for name in ("BLAS", "ours")]
            print(
                f"{case:<16} {product.name:<24} {number:6} {product.size / 1e6:8.1f} {rate[0]:7.0f} {rate[1]:7.0f} "
                f"{rate[1] / rate[0]:8.2f}"
            )
            results.append({"case": case, "product": product._asdict(), "number": number, **seconds})
        by_blas = sum(number * blas for _, number, blas, _ in measured)
        taken = [
            sum(number * (ours if size >= least else blas) for size, number, blas, ours in measured) for least in FROM
        ]
        totals[case] = [each / by_blas for each in taken]
    print(f"\n{'our loops from, million':<24}" + "".join(f"{least / 1e6:>8.0f}" for least in FROM))
    for case, shares in totals.items():
        print(f"{case:<24}" + "".join(f"{share:8.3f}" for share in shares))
    print(json.dumps({"machine": describe_machine(), "products": results, "from": totals}))


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--training", nargs="*", choices=CASES, help="the products of these sizes; none named: of all")
    parser.add_argument("--rounds", type=int, default=25, help="of --training")
    asked = parser.parse_args()
    use("blas")
    print(describe_machine())
    if asked.training is None:
        print_ladder()
    elif FLOAT32 is None:
        raise SystemExit("our loops have no block for this processor")
    else:
        print_training(asked.training or list(CASES), asked.rounds)


if __name__ == "__main__":
    main()
