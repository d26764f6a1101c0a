"""Training steps of minigrad and of PyTorch, in turns on the same machine: tokens per second and peak memory.

Medians; a turn is a few steps in a row after one warm-up step. PyTorch trains the same
architecture from transformers (Llama, GPT-2) with its own fused AdamW and clipping. "First" are the seconds from the
start of the process to the end of its first step. Run with nothing else on the machine.

    python benchmarks/against_pytorch.py --peer-python ~/peers/bin/python
    python benchmarks/against_pytorch.py --cases nano mini --contestants minigrad torch
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from turns import Contestant, has, serve

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

CASES: dict[str, tuple[str, str, int, int, int]] = {
    # family, size, batch size, context, steps in a row
    "nano": ("vidya-v2", "nano", 8, 256, 5),
    "mini": ("vidya-v2", "mini", 8, 256, 2),
    "2.0": ("vidya-v2", "2.0", 2, 512, 1),
    "gpt2-nano": ("gpt2", "nano", 8, 256, 5),
    "gpt2-mini": ("gpt2", "mini", 8, 256, 2),
    "gpt2-124m": ("gpt2", "124m", 4, 64, 2),
}
ROUNDS = 5
CONTESTANTS: dict[str, tuple[str, dict[str, str]]] = {
    "minigrad": ("minigrad", {}),
    "minigrad blas": ("minigrad", {"backend": "blas"}),
    "minigrad bfloat16": ("minigrad", {"precision": "bfloat16"}),
    "torch": ("torch", {}),
    "torch compile": ("torch", {"compile": "yes"}),
    "torch bfloat16": ("torch", {"precision": "bfloat16"}),
}


def serve_minigrad(family: str, size: str, batch: int, length: int, backend: str, precision: str, **_: str) -> None:
    """Take a step for each line on standard input; answer with its seconds."""
    import models
    from minigrad import optim
    from minigrad.data.batches import Batch
    from minigrad.kernels.gemm import backend as products
    from minigrad.random import generator
    from minigrad.training.parallel import Replicas, num_replicas
    from train import forward_backward

    products.use(backend, precision)
    model = models.build(family, size=size, dropout=0.0)
    optimizer = optim.AdamW(model.parameters(), weight_decay=0.1)
    tokens = generator(0, "benchmark").integers(0, model.config.vocab_size, (batch, length + 1))
    texts = Batch.rectangular(tokens[:, :-1], tokens[:, 1:])
    replicas = Replicas(model, num_replicas(model, batch, length))

    def step() -> None:
        replicas.run(forward_backward, texts)
        optimizer.step(1e-3, max_norm=1.0)
        optimizer.zero_grad()

    serve({"step": step})


def serve_torch(published: str, batch: int, length: int, precision: str, compile: str, threads: str, **_: str) -> None:
    """Do the same with PyTorch, on the model that transformers builds from the published config."""
    import numpy as np
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.set_num_threads(int(threads))
    values = json.loads(published)
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    model = AutoModelForCausalLM.from_config(config)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    drawn = np.random.default_rng(0).integers(0, config.vocab_size, (batch, length + 1))
    tokens = torch.from_numpy(drawn)

    def loss_of(inputs: Any, targets: Any) -> Any:
        logits = model(inputs, use_cache=False).logits
        return torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), targets.flatten())

    forward = torch.compile(loss_of) if compile == "yes" else loss_of

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = forward(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()

    serve({"step": step})


def run(case: str, contestants: list[str], peer_python: str, threads: int) -> list[dict[str, Any]]:
    """Let all contestants take their steps in turn."""
    import models

    family, size, batch, length, steps = CASES[case]
    published = models.configure(family, size, dropout=0.0).published()
    running = {}
    for name in contestants:
        kind, options = CONTESTANTS[name]
        given = {"kind": kind, "family": family, "size": size, "batch": batch, "length": length, "threads": threads}
        given |= {
            "backend": "auto",
            "precision": "float32",
            "compile": "",
            "published": json.dumps(published),
        } | options
        running[name] = Contestant(__file__, sys.executable if kind == "minigrad" else peer_python, given)
        running[name].turn(times=0)  # alone, because starting uses all processors
    for _ in range(ROUNDS):
        for contestant in running.values():
            contestant.turn(times=steps)
    results = []
    for name, contestant in running.items():
        contestant.close()
        seconds = contestant.median()
        results.append(
            {
                "case": case,
                "contestant": name,
                "seconds": seconds,
                "tokens_per_second": batch * length / seconds,
                "first_seconds": contestant.first_answer,
                "peak_bytes": contestant.peak,
            }
        )
    return results


def main() -> None:
    """Run every case and print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=CASES)
    parser.add_argument("--contestants", nargs="+", default=list(CONTESTANTS), choices=CONTESTANTS)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has torch and transformers")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        options = json.loads(arguments.serve)
        (serve_minigrad if options.pop("kind") == "minigrad" else serve_torch)(**options)
        return
    from minigrad.system import hardware

    print(hardware.describe())
    contestants = arguments.contestants
    if not has(arguments.peer_python, "torch", "transformers"):
        print(f"{arguments.peer_python} has no torch and transformers: only minigrad runs (see --peer-python)")
        contestants = [name for name in contestants if CONTESTANTS[name][0] == "minigrad"]
    titles = f"{'tokens/s':>9} {'ms a step':>10} {'of torch':>9} {'peak MB':>8} {'first s':>8}"
    print(f"{'case':<10} {'contestant':<18} {titles}")
    results = []
    for case in arguments.cases:
        found_here = run(case, contestants, arguments.peer_python, hardware.threads())
        base = next((each["seconds"] for each in found_here if each["contestant"] == "torch"), None)
        for each in found_here:
            ratio = f"{base / each['seconds']:8.2f}x" if base else f"{'':9}"
            print(
                f"{case:<10} {each['contestant']:<18} {each['tokens_per_second']:9,.0f} {1e3 * each['seconds']:10,.1f} "
                f"{ratio} {each['peak_bytes'] / 1e6:8,.0f} {each['first_seconds']:8.1f}",
                flush=True,
            )
        results += found_here
    print(json.dumps({"machine": hardware.describe(), "results": results}))


if __name__ == "__main__":
    main()
