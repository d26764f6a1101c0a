"""The savings of merging and the cost of cross-layer attention: one layer of the 360m shape, in FLOPs and in seconds.

Merging: the attention block (norm to output projection, forward and backward) on sequences in which a given share
of the tokens repeats the previous one, so that exactly these merge. The paper counts only the quadratic term,
mu (2 - mu); here the whole block is counted and measured, in turns; medians.

    python benchmarks/wiola_costs.py [--length 2048] [--rounds 7]
"""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

import numpy as np
from machine import describe_machine

import models
from minigrad import Tensor, nn
from minigrad.system import hardware
from models.wiola import WiolaConfig
from models.wiola.attention import Pass
from models.wiola.layers import SpiralAngles
from models.wiola.merged_attention import merged_attention
from models.wiola.model import WiolaBackbone

VARIANTS = ("first", "avg_causal", "kv_only")
RATIOS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.5)


def products(config: WiolaConfig, length: int, ratio: float, context: bool, variant: str = "first") -> float:
    """Count the multiply-adds of one attention block for a whole sequence, forward.

    With "kv_only" every row attends, to fewer keys; with "avg_causal" fewer rows attend. Both average the keys and
    values of all rows; with "first" the merged rows have none.
    """
    merged = length * (1 - ratio)
    rows = length if variant == "kv_only" else merged
    key_rows = merged if variant == "first" else length
    queries, keys = config.width, config.num_kv_heads * config.head_dim
    projections = config.width * (3 * queries * rows + 2 * keys * key_rows)
    scores = 2 * rows * merged / 2 * queries
    below = config.gcla_lookback * rows * (2 * config.width * keys + 2 * queries) if context else 0
    return projections + scores + below


def rows_with_repeats(length: int, width: int, ratio: float) -> Any:
    """Draw rows of which the share `ratio` are copies of the row before, no two in a row."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(length, width)).astype(np.float32)
    pairs = rng.permutation(length // 2)[: int(ratio * length)]
    x[2 * pairs + 1] = x[2 * pairs]
    return x


def main() -> None:
    """Measure every case and print two tables and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--length", type=int, default=2_048)
    parser.add_argument("--rounds", type=int, default=7)
    arguments = parser.parse_args()
    hardware.prepare()
    config = models.configure("wiola", "360m", num_layers=3, vocab_size=8)
    decoder, length = WiolaBackbone(config), arguments.length
    block = decoder.layers[1]
    angles = SpiralAngles(config.head_dim, config.srpe_theta, divisor=8.0, amplitude=0.1, frequency=0.01)
    run = Pass(nn.Layout.rectangular(1, length), angles)
    below = [rows_with_repeats(length, config.width, 0) for _ in range(config.gcla_lookback)]

    def once(variant: str, ratio: float, context: bool) -> float:
        x = Tensor(rows_with_repeats(length, config.width, ratio), requires_grad=True)
        summaries = [Tensor(each) for each in below] if context else []
        start = time.perf_counter()
        normed = block.input_norm(x)
        if variant == "off":
            out = block.attn(normed, summaries, run)
        else:
            out, found = merged_attention(block.attn, normed, summaries, run, variant, 0.92)
            assert abs(found - ratio) < 0.01, (found, ratio)
        out.backward(np.ones(out.shape, np.float32))
        return time.perf_counter() - start

    cases = [("off", 0.0, True), ("off", 0.0, False)]
    cases += [(variant, ratio, True) for variant in VARIANTS for ratio in RATIOS]
    times: dict[tuple[str, float, bool], list[float]] = {case: [] for case in cases}
    for number in range(arguments.rounds + 1):
        for case in cases:
            seconds = once(*case)
            if number:
                times[case].append(seconds)
    medians = {case: float(np.median(found)) for case, found in times.items()}
    whole, plain = medians["off", 0.0, True], medians["off", 0.0, False]
    print(describe_machine())
    print(f"attention block of wiola-360m, {length} tokens, forward and backward: {whole * 1e3:.0f} ms\n")
    columns = " | ".join(f"{variant}: counted | measured" for variant in VARIANTS)
    print(f"| merge ratio | paper's saving | {columns} |\n{'| --: ' * 8}|")
    full = products(config, length, 0, True)
    for ratio in RATIOS:
        counted = [1 - products(config, length, ratio, True, variant) / full for variant in VARIANTS]
        measured = [1 - medians[variant, ratio, True] / whole for variant in VARIANTS]
        saved = " | ".join(f"{a:.1%} | {b:+.1%}" for a, b in zip(counted, measured, strict=True))
        print(f"| {ratio:.2f} | {ratio * (2 - ratio):.1%} | {saved} |")
    counted = full / products(config, length, 0, False) - 1
    print(f"\ncontext attention: {counted:.1%} more operations, {whole / plain - 1:.1%} more seconds (the paper: 0.1%)")
    print(json.dumps({"length": length, "seconds": {str(case): value for case, value in medians.items()}}))


if __name__ == "__main__":
    main()
