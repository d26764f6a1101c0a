"""Wiola on a long sequence: how alike the rows of its layers become.

The paper says that the offset of its norm prevents representations from collapsing. The collapse is measured as Dong et
al. 2021 (arXiv 2103.03404) do: of the rows of a layer, the part that is left without their mean, as a share of their
length; 0 is a collapse to one row. With --run, it is also measured for a trained model, on its own text.

    python benchmarks/wiola_long.py --length 8192 --run runs/wiola-nano
"""

from __future__ import annotations

import argparse
import json
from typing import Any

import numpy as np
from machine import describe_machine


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
    """Return the collapse of a new model and, with a run, of the trained one with its offsets and with offsets of 0."""
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
    """Print the collapse of each model as a line, and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="nano")
    parser.add_argument("--length", type=int, default=8_192)
    parser.add_argument("--run", default="", help="the folder of a trained Wiola")
    options = parser.parse_args()
    found = layers(options.size, options.length, options.run)
    print(describe_machine())
    for name, shares in found.items():
        print(f"{name}: left of the rows of each layer {', '.join(f'{share:.3f}' for share in shares)}")
    print(json.dumps({"machine": describe_machine(), "left": found}))


if __name__ == "__main__":
    main()
