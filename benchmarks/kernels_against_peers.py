"""The kernels, forward and backward, against PyTorch; beside them NumPy's plain formulas, which run forward only.

Shapes as in training vidya-v2 2.0 with 2 x 512 tokens, float32. PyTorch's AdamW is its fused one. Measured in
turns; medians. Run with nothing else on the machine.

    python benchmarks/kernels_against_peers.py --peer-python ~/peers/bin/python
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from machine import describe_machine
from turns import Contestant, has, serve

ROWS, WIDTH, WIDE, VOCAB, HEADS, KV_HEADS, SIZE, TEXTS = 1_024, 576, 1_536, 32_000, 9, 3, 64, 2
PARAMETERS = 8_000_000
CASES = (
    "rms_norm",
    "layer_norm",
    "softmax",
    "gelu",
    "gelu_exact",
    "swiglu",
    "rotary",
    "dropout",
    "embedding",
    "attention",
    "linear_cross_entropy",
    "adamw",
)
TURNS = 15


def draw(*shape: int) -> Any:
    """Draw the same float32 values in every process."""
    return np.random.default_rng(len(shape)).standard_normal(shape, dtype=np.float32)


def inputs() -> dict[str, Any]:
    """Return the inputs of all contestants."""
    rng = np.random.default_rng(0)
    return {
        "x": draw(ROWS, WIDTH),
        "weight": draw(WIDTH),
        "wide": draw(ROWS, WIDE),
        "scores": draw(ROWS, ROWS),
        "table": draw(VOCAB, WIDTH) / 24,
        "ids": rng.integers(0, VOCAB, ROWS),
        "q": draw(ROWS, HEADS, SIZE),
        "k": draw(ROWS, KV_HEADS, SIZE),
        "angles": np.outer(np.arange(ROWS // TEXTS), 10_000.0 ** -(np.arange(SIZE // 2) / (SIZE / 2))),
        "parameters": draw(PARAMETERS),
    }


def serve_minigrad() -> None:
    """Run our operations and their gradients."""
    from minigrad import Tensor, nn, ops, optim

    given = inputs()
    ids = Tensor(given["ids"])
    positions = np.tile(np.arange(ROWS // TEXTS), TEXTS)
    cosine, sine = (np.ascontiguousarray(f(given["angles"]).astype(np.float32)) for f in (np.cos, np.sin))
    offsets = np.arange(TEXTS + 1) * (ROWS // TEXTS)

    def both(function: Callable[..., Tensor], *names: str) -> Callable[[], None]:
        tensors = [Tensor(given[name], requires_grad=True) for name in names]
        gradient = np.ones(function(*tensors).shape, np.float32)

        def run() -> None:
            function(*tensors).backward(gradient)
            for tensor in tensors:
                tensor.discard_grad()

        return run

    parameter = nn.Parameter(given["parameters"])
    optimizer = optim.AdamW([parameter])
    parameter.grad = np.full_like(given["parameters"], 1e-3)

    def adamw() -> None:
        optimizer.step(1e-3, max_norm=1.0)

    serve(
        {
            "rms_norm": both(ops.rms_norm, "x", "weight"),
            "layer_norm": both(lambda x, w: ops.layer_norm(x, w, w), "x", "weight"),
            "softmax": both(ops.softmax, "scores"),
            "gelu": both(lambda x: ops.gelu(x, approximate="tanh"), "wide"),
            "gelu_exact": both(lambda x: ops.gelu(x), "wide"),
            "swiglu": both(lambda x: ops.swiglu(x, x), "wide"),
            "rotary": both(lambda q: ops.rotary(q, cosine=cosine, sine=sine, positions=positions), "q"),
            "dropout": both(lambda x: ops.dropout(x, probability=0.1, seed=0, step=0, index=0), "wide"),
            "embedding": both(lambda table: ops.embedding(table, ids), "table"),
            "attention": both(lambda q, k: ops.attention(q, k, k, offsets=offsets), "q", "k"),
            "linear_cross_entropy": both(lambda x, table: ops.linear_cross_entropy(x, table, ids), "x", "table"),
            "adamw": adamw,
        }
    )


def serve_numpy() -> None:
    """Run the forward passes by their formulas."""
    given = inputs()
    x, weight, wide, scores, table, ids, q = (
        given[name] for name in ("x", "weight", "wide", "scores", "table", "ids", "q")
    )
    half, length = SIZE // 2, ROWS // TEXTS
    cosine, sine = (np.tile(f(given["angles"]).astype(np.float32), (TEXTS, 1))[:, None] for f in (np.cos, np.sin))
    rng = np.random.default_rng(0)
    parameters, gradient = given["parameters"].copy(), np.full_like(given["parameters"], 1e-3)
    m, v = np.zeros_like(parameters), np.zeros_like(parameters)

    hidden = np.triu(np.full((length, length), -np.inf, np.float32), 1)
    scale = np.float32(np.sqrt(2 / np.pi))  # of NumPy's own float64 the result would be float64

    def softmax(x: Any) -> Any:
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)

    def attention() -> Any:
        heads, keys = (
            given[name].reshape(TEXTS, length, -1, SIZE).swapaxes(1, 2).repeat(times, axis=1)
            for name, times in (("q", 1), ("k", HEADS // KV_HEADS))
        )
        return softmax(heads @ keys.swapaxes(2, 3) * np.float32(SIZE**-0.5) + hidden) @ keys

    def adamw() -> None:
        g = gradient * min(1.0, 1.0 / float(np.sqrt((gradient * gradient).sum())))
        m[...] = 0.9 * m + 0.1 * g
        v[...] = 0.95 * v + 0.05 * g * g
        parameters[...] = parameters * np.float32(0.9999) - 1e-3 * m / (np.sqrt(v) + 1e-8)

    def linear_cross_entropy() -> Any:
        found = x @ table.T
        top = found.max(axis=1, keepdims=True)
        return (np.log(np.exp(found - top).sum(axis=1)) + top[:, 0] - found[np.arange(ROWS), ids]).mean()

    serve(
        {
            "rms_norm": lambda: x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * weight,
            "layer_norm": lambda: (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * weight,
            "softmax": lambda: softmax(scores),
            # Products, because NumPy's power of 3 takes twenty times as long.
            "gelu": lambda: 0.5 * wide * (1 + np.tanh(scale * (wide + 0.044715 * wide * wide * wide))),
            "swiglu": lambda: wide / (1 + np.exp(-wide)) * wide,
            "rotary": lambda: np.concatenate(
                [
                    q[..., :half] * cosine - q[..., half:] * sine,
                    q[..., half:] * cosine + q[..., :half] * sine,
                ],
                axis=-1,
            ),
            "dropout": lambda: np.where(rng.random(wide.shape, np.float32) < 0.1, 0, wide / np.float32(0.9)),
            "embedding": lambda: table[ids],
            "attention": attention,
            "linear_cross_entropy": linear_cross_entropy,
            "adamw": adamw,
        }
    )


def serve_torch(threads: int) -> None:
    """Run PyTorch's own operations and their gradients."""
    import torch
    from torch.nn import functional

    torch.set_num_threads(threads)
    given = {name: torch.from_numpy(array) for name, array in inputs().items()}
    ids, length = given["ids"], ROWS // TEXTS
    cosine, sine = (torch.cat([f(given["angles"]).float()] * 2, 1) for f in (torch.cos, torch.sin))
    cosine, sine = (table.repeat(TEXTS, 1)[:, None] for table in (cosine, sine))

    def both(function: Callable[..., Any], *names: str) -> Callable[[], None]:
        tensors = [given[name].clone().requires_grad_() for name in names]
        gradient = torch.ones_like(function(*tensors))

        def run() -> None:
            function(*tensors).backward(gradient)
            for tensor in tensors:
                tensor.grad = None

        return run

    def rotary(q: Any) -> Any:
        first, second = q.chunk(2, dim=-1)
        return q * cosine + torch.cat([-second, first], -1) * sine

    def attention(q: Any, k: Any) -> Any:
        heads, keys = (each.view(TEXTS, length, -1, SIZE).transpose(1, 2) for each in (q, k))
        keys = keys.repeat_interleave(HEADS // KV_HEADS, 1)
        return functional.scaled_dot_product_attention(heads, keys, keys, is_causal=True)

    parameter = torch.nn.Parameter(given["parameters"].clone())
    parameter.grad = torch.full_like(parameter, 1e-3)
    optimizer = torch.optim.AdamW([parameter], lr=1e-3, fused=True)

    def adamw() -> None:
        torch.nn.utils.clip_grad_norm_([parameter], 1.0)
        optimizer.step()

    serve(
        {
            "rms_norm": both(lambda x, w: functional.rms_norm(x, (WIDTH,), w, 1e-5), "x", "weight"),
            "layer_norm": both(lambda x, w: functional.layer_norm(x, (WIDTH,), w, w), "x", "weight"),
            "softmax": both(lambda x: functional.softmax(x, -1), "scores"),
            "gelu": both(lambda x: functional.gelu(x, approximate="tanh"), "wide"),
            "gelu_exact": both(functional.gelu, "wide"),
            "swiglu": both(lambda x: functional.silu(x) * x, "wide"),
            "rotary": both(rotary, "q"),
            "dropout": both(lambda x: functional.dropout(x, 0.1), "wide"),
            "embedding": both(lambda table: functional.embedding(ids, table), "table"),
            "attention": both(attention, "q", "k"),
            "linear_cross_entropy": both(lambda x, table: functional.cross_entropy(x @ table.T, ids), "x", "table"),
            "adamw": adamw,
        }
    )


def main() -> None:
    """Measure all in turns, print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has torch")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        options = json.loads(arguments.serve)
        {"minigrad": serve_minigrad, "NumPy": serve_numpy, "torch": serve_torch}[options.pop("who")](**options)
        return
    from minigrad.system import hardware

    pythons = {"minigrad": sys.executable, "NumPy": sys.executable}
    if has(arguments.peer_python, "torch"):
        pythons["torch"] = arguments.peer_python
    else:
        print(f"{arguments.peer_python} has no torch: it does not take part (see --peer-python)")
    given = {who: {"who": who} | ({"threads": hardware.threads()} if who == "torch" else {}) for who in pythons}
    running = {who: Contestant(__file__, python, given[who]) for who, python in pythons.items()}
    print(describe_machine())
    titles = [f"{who}, forward, ms" if who == "NumPy" else f"{who}, ms" for who in running]
    print(f"{'kernel':<22}" + "".join(f"{title:>20}" for title in titles) + f"{'torch/ours':>12}")
    results = {}
    for case in CASES:
        taking_part = {who: each for who, each in running.items() if who != "NumPy" or case != "gelu_exact"}
        for _ in range(TURNS):
            for contestant in taking_part.values():
                contestant.turn(case)
        found = {who: each.median(case) for who, each in taking_part.items()}
        results[case] = found
        line = "".join(f"{1e3 * found[who]:20.2f}" if who in found else f"{'':20}" for who in running)
        print(f"{case:<22}{line}" + (f"{found['torch'] / found['minigrad']:11.1f}x" if "torch" in found else ""))
    for contestant in running.values():
        contestant.close()
    print(json.dumps({"machine": describe_machine(), "seconds": results}))


if __name__ == "__main__":
    main()
