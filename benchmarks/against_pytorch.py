"""Training steps of minigrad and of PyTorch, in turns on the same machine: tokens per second and peak memory.

Medians; a turn is a few steps in a row after one warm-up step. PyTorch trains the same architecture from transformers
(Llama, GPT-2) with its own fused AdamW and clipping. Both train Vidya v2 as a plain Llama, without the shifted keys and
the added values of new runs. VSLA has no counterpart there: PyTorch trains a GPT-2 of the same sizes, whose attention
is full in every layer, as it is in VSLA with `patterns=full`. "First" is the time from the start of the process to the
end of its first step. Run with nothing else on the machine.

    python benchmarks/against_pytorch.py --peer-python ~/peers/bin/python
    python benchmarks/against_pytorch.py --cases nano mini --contestants minigrad torch

The large cases do not run by default. They recompute activations, in both programs, and need 16 bytes a parameter with
AdamW, 12 with SGD and its velocity; --alone lets a contestant end before the next one begins, where both do not fit
together:

    python benchmarks/against_pytorch.py --cases gpt2-300m --contestants "minigrad bfloat16" "torch bfloat16" \\
        --rounds 1 --alone
    python benchmarks/against_pytorch.py --cases vsla-1b --contestants "minigrad bfloat16" "torch bfloat16" \\
        --rounds 1 --alone --optimizer sgd
"""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any, NamedTuple

from machine import describe_machine
from turns import Contestant, has, serve


class Case(NamedTuple):
    """A model and the shape of its steps, of which a turn takes some in a row."""

    family: str
    size: str
    batch: int
    length: int
    steps: int
    patterns: str = ""  # of VSLA
    is_large: bool = False  # activations are recomputed


CASES = {
    "nano": Case("vidya-v2", "nano", 8, 256, 5),
    "mini": Case("vidya-v2", "mini", 8, 256, 2),
    "2.0": Case("vidya-v2", "2.0", 2, 512, 1),
    "gpt2-nano": Case("gpt2", "nano", 8, 256, 5),
    "gpt2-mini": Case("gpt2", "mini", 8, 256, 2),
    "gpt2-124m": Case("gpt2", "124m", 4, 64, 2),
    "vsla-nano": Case("vsla", "nano", 8, 256, 5),
    "vsla-mini": Case("vsla", "mini", 8, 256, 2),
    "vsla-mini-full": Case("vsla", "mini", 8, 256, 2, patterns="full"),
    "gpt2-300m": Case("gpt2", "300m", 1, 2_048, 1, is_large=True),
    "vsla-1b": Case("vsla", "1b", 1, 512, 1, is_large=True),
}
ROUNDS = 5
CONTESTANTS: dict[str, tuple[str, dict[str, str]]] = {
    "minigrad": ("minigrad", {}),
    "minigrad blas": ("minigrad", {"backend": "blas"}),
    "minigrad bfloat16": ("minigrad", {"precision": "bfloat16"}),
    "torch": ("torch", {}),
    "torch compile": ("torch", {"compile": "yes"}),
    "torch bfloat16": ("torch", {"precision": "bfloat16"}),
    "torch compile bfloat16": ("torch", {"compile": "yes", "precision": "bfloat16"}),
}


def model_of(case: Case) -> dict[str, str]:
    """Return the fields of a case's config that its size does not have."""
    return {"patterns": case.patterns} if case.patterns else {}


def published(case: Case) -> dict[str, Any]:
    """Return the config of the model that PyTorch trains: the same, or of VSLA the GPT-2 with the same sizes."""
    import models

    config: Any = models.configure(case.family, case.size, dropout=0.0)
    if case.family != "vsla":
        return dict(config.published())
    names = ("vocab_size", "num_layers", "width", "num_heads", "feed_forward", "context_length", "end_of_text_id")
    return dict(models.configure("gpt2", "nano", **{name: getattr(config, name) for name in names}).published())


def serve_minigrad(case: Any, backend: str, precision: str, optimizer: str, **_: str) -> None:
    """Take a step for each line on standard input; answer with its seconds."""
    import models
    from minigrad import optim
    from minigrad.data.tokens.batches import Batch
    from minigrad.kernels.gemm import backend as products
    from minigrad.random import generator
    from minigrad.system import forks
    from minigrad.training.workers import fastest
    from train import forward_backward

    case = Case(*case)
    products.use(backend, precision)
    model = models.build(case.family, size=case.size, dropout=0.0, **model_of(case))
    model.recompute_layers(case.is_large)
    if optimizer == "sgd":
        updates: optim.Optimizer = optim.SGD(model.parameters(), momentum=0.9, weight_decay=1e-4)
    else:
        updates = optim.AdamW(model.parameters(), weight_decay=0.1)
    tokens = generator(0, "benchmark").integers(0, model.config.vocab_size, (case.batch, case.length + 1))
    texts = Batch.rectangular(tokens[:, :-1], tokens[:, 1:])
    replicas = fastest(model, case.batch, case.length)

    def step() -> None:
        replicas.run(forward_backward, texts)
        updates.step(1e-3, max_norm=1.0)
        updates.zero_grad()

    serve({"step": step}, forks.memory_bytes_of_all)


def serve_torch(
    case: Any, published: str, precision: str, compile: str, optimizer: str, threads: int, **_: str
) -> None:
    """Do the same with PyTorch, on the model that transformers builds from the published config."""
    import numpy as np
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    case = Case(*case)
    torch.set_num_threads(threads)
    values = json.loads(published)
    config = AutoConfig.for_model(values.pop("model_type"), **values)
    model = AutoModelForCausalLM.from_config(config)
    model.train()
    if case.is_large:
        model.gradient_checkpointing_enable()
    if optimizer == "sgd":
        updates: Any = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4, fused=True)
    else:
        updates = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    drawn = np.random.default_rng(0).integers(0, config.vocab_size, (case.batch, case.length + 1))
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
        updates.step()
        updates.zero_grad()

    serve({"step": step})


class Setup(NamedTuple):
    """What all contestants share."""

    peer_python: str
    threads: int
    optimizer: str
    rounds: int


def run(name_of_case: str, contestants: list[str], setup: Setup) -> list[dict[str, Any]]:
    """Let all contestants take their steps in turn."""
    case, running = CASES[name_of_case], {}
    shared = {"case": case, "threads": setup.threads, "optimizer": setup.optimizer}
    shared |= {"published": json.dumps(published(case)), "backend": "auto", "precision": "float32", "compile": ""}
    for name in contestants:
        kind, options = CONTESTANTS[name]
        given, peer_python = {"kind": kind, **shared, **options}, setup.peer_python
        running[name] = Contestant(__file__, sys.executable if kind == "minigrad" else peer_python, given)
        running[name].turn(times=0)  # alone, because starting uses all processors
    for _ in range(setup.rounds):
        for contestant in running.values():
            contestant.turn(times=case.steps, warm_up=not case.is_large)  # starting was a step already
    results = []
    for name, contestant in running.items():
        contestant.close()
        seconds = contestant.median()
        results.append(
            {
                "case": name_of_case,
                "contestant": name,
                "seconds": seconds,
                "tokens_per_second": case.batch * case.length / seconds,
                "first_seconds": contestant.first_answer,
                "peak_bytes": contestant.peak,
            }
        )
    return results


def main() -> None:
    """Run every case and print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    usual = [name for name, case in CASES.items() if not case.is_large]
    parser.add_argument("--cases", nargs="+", default=usual, choices=CASES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--optimizer", default="adamw", choices=("adamw", "sgd"))
    parser.add_argument("--alone", action="store_true", help="end each contestant before the next one begins")
    parser.add_argument("--contestants", nargs="+", default=list(CONTESTANTS), choices=CONTESTANTS)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has torch and transformers")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        options = json.loads(arguments.serve)
        (serve_minigrad if options.pop("kind") == "minigrad" else serve_torch)(**options)
        return
    from minigrad.system import hardware

    print(describe_machine())
    contestants = arguments.contestants
    if not has(arguments.peer_python, "torch", "transformers"):
        print(f"{arguments.peer_python} has no torch and transformers: only minigrad runs (see --peer-python)")
        contestants = [name for name in contestants if CONTESTANTS[name][0] == "minigrad"]
    titles = f"{'tokens/s':>9} {'ms a step':>10} {'of torch':>9} {'peak MB':>8} {'first s':>8}"
    print(f"{'case':<10} {'contestant':<18} {titles}")
    results = []
    for case in arguments.cases:
        setup = Setup(arguments.peer_python, hardware.threads(), arguments.optimizer, arguments.rounds)
        together = [[name] for name in contestants] if arguments.alone else [contestants]
        found_here = [each for names in together for each in run(case, names, setup)]
        base = next((each["seconds"] for each in found_here if each["contestant"].startswith("torch")), None)
        for each in found_here:
            ratio = f"{base / each['seconds']:8.2f}x" if base else f"{'':9}"
            print(
                f"{case:<10} {each['contestant']:<18} {each['tokens_per_second']:9,.0f} {1e3 * each['seconds']:10,.1f} "
                f"{ratio} {each['peak_bytes'] / 1e6:8,.0f} {each['first_seconds']:8.1f}",
                flush=True,
            )
        results += found_here
    print(json.dumps({"machine": describe_machine(), "results": results}))


if __name__ == "__main__":
    main()
