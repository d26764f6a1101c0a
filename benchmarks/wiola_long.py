"""Wiola on long sequences: one training step of more and more tokens, and how alike the rows of its layers become.

The paper expects its spiral positions to interfere beyond 8,192 tokens, and says that the offset of its norm prevents
representations from collapsing. The step is that of a new model: its loss, whether the loss and all gradients are
finite, its seconds, and the peak memory of a process of its own. The collapse is measured as Dong et al. 2021 (arXiv
2103.03404) do: of the rows of a layer, the part that is left without their mean, as a share of their length; 0 is a
collapse to one row. With --run also for a trained model, on a text of its own.

    python benchmarks/wiola_long.py                         # 2,048 to 16,384 tokens, nano
    python benchmarks/wiola_long.py --lengths 8192 --run runs/wiola-nano
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

LENGTHS = (2_048, 8_192, 16_384)


def step(size: str, length: int) -> dict[str, Any]:
    """Take one training step on random tokens, after a short one that compiles."""
    import models
    from minigrad.random import generator
    from minigrad.system import hardware

    model: Any = models.build("wiola", size, context_length=length)
    model.recompute_layers()
    ids = generator(0, "benchmark").integers(0, model.config.vocab_size, (1, length + 1))
    for tokens in (64, length):
        started = time.perf_counter()
        model.zero_grad()
        loss = model.loss(ids[:, :tokens], ids[:, 1 : tokens + 1])
        loss.backward()
    gradients = [np.asarray(parameter.grad) for parameter in model.parameters()]
    return {
        "tokens": length,
        "loss": float(loss.item()),
        "finite": bool(np.isfinite(loss.item()) and all(np.isfinite(each).all() for each in gradients)),
        "seconds": time.perf_counter() - started,
        "peak_bytes": hardware.peak_memory_bytes(),
    }


def left_of(rows: Any) -> float:
    """Return the part of rows (T, C) that is left without their mean, as a share of their length.

    >>> left_of(np.array([[1.0, 1.0], [1.0, 1.0]])), left_of(np.array([[1.0, 0.0], [-1.0, 0.0]]))
    (0.0, 1.0)
    """
    return float(np.linalg.norm(rows - rows.mean(axis=0)) / max(np.linalg.norm(rows), 1e-30))


def collapse(model: Any, ids: Any) -> list[float]:
    """Return what is left of the rows of each layer, on one sequence."""
    from minigrad.autograd.graph import no_grad
    from models.wiola.model import Block

    found, forward = [], Block.forward

    def recorded(self: Any, *arguments: Any) -> Any:
        rows = forward(self, *arguments)
        found.append(left_of(rows.data))
        return rows

    Block.forward = recorded  # type: ignore[method-assign]
    try:
        with no_grad():
            model(ids[None])
    finally:
        Block.forward = forward  # type: ignore[method-assign]
    return found


def layers(size: str, length: int, run: str) -> dict[str, Any]:
    """Return the collapse of a new model, of one whose norms have large offsets, and of a trained one."""
    import models
    import tokenizer
    from minigrad.data import corpus
    from minigrad.random import generator

    model: Any = models.build("wiola", size, context_length=length).eval()
    ids = generator(0, "benchmark").integers(0, model.config.vocab_size, length)
    found = {"new": collapse(model, ids)}
    if run:
        tok, trained = tokenizer.load(run), models.load(run, context_length=length).eval()
        text = np.concatenate([tok.encode(each) for each in corpus.load("python-docs").split().validation])[:length]
        found["trained"] = collapse(trained, text)
        for layer in trained.model.layers:  # type: ignore[attr-defined]
            for norm in (layer.input_norm, layer.post_attn_norm):
                norm.offset.data = np.zeros_like(norm.offset.data)
        found["trained, offsets set to 0"] = collapse(trained, text)
    return found


def main() -> None:
    """Take every step in a process of its own; print a line for each, the collapse, and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="nano")
    parser.add_argument("--lengths", type=int, nargs="+", default=list(LENGTHS))
    parser.add_argument("--run", default="", help="the folder of a trained Wiola")
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(step(arguments.size, arguments.one)))
        return
    print(describe_machine())
    steps = []
    for length in arguments.lengths:
        command = [sys.executable, __file__, "--size", arguments.size, "--one", str(length)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
        steps.append(json.loads(done.stdout.splitlines()[-1]))
        print("  ".join(f"{name} {value:,}" for name, value in steps[-1].items()), flush=True)
    found = layers(arguments.size, max(arguments.lengths), arguments.run)
    for name, shares in found.items():
        print(f"{name}: left of the rows of each layer {', '.join(f'{share:.3f}' for share in shares)}")
    print(json.dumps({"machine": describe_machine(), "steps": steps, "left": found}))


if __name__ == "__main__":
    main()
