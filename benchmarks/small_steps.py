"""Steps per second of a small model: minigrad and PyTorch in turns, on one thread and on all.

The setting is the one that nanoGPT (https://github.com/karpathy/nanoGPT) names for a CPU: 4 layers, 4 heads, width 128,
sequences of 64 characters in batches of 12, no dropout, AdamW with betas 0.9 and 0.99, gradients clipped to 1. A step
draws its batch from a text in memory. Both train a plain GPT-2: the peer is written below with PyTorch's own attention,
cross-entropy and fused AdamW, and also runs compiled. Both also multiply in bfloat16, which `train.py` does by default
where the processor has fast instructions for it. `--case nano` and `--case mini` compare one thread with all on larger
models. Run with nothing else on the machine:

    python benchmarks/small_steps.py --peer-python ~/peers/bin/python
    python benchmarks/small_steps.py --case nano
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from typing import Any

from machine import describe_machine
from turns import Contestant, has, serve

LAYERS, HEADS, WIDTH, VOCAB = 4, 4, 128, 65
SMALL = {"num_layers": LAYERS, "num_heads": HEADS, "width": WIDTH, "feed_forward": 4 * WIDTH, "vocab_size": VOCAB}
CASES: dict[str, tuple[str, str, dict[str, int], int, int]] = {
    # family, size, what differs from the size, batch size, context
    "nanogpt": ("gpt2", "nano", SMALL | {"context_length": 64}, 12, 64),
    "nano": ("vidya-v2", "nano", {}, 8, 256),
    "mini": ("vidya-v2", "mini", {}, 8, 256),
}
STEPS, ROUNDS = 20, 9
LEARNING_RATE, BETAS, WEIGHT_DECAY = 1e-3, (0.9, 0.99), 0.1
CONTESTANTS: dict[str, dict[str, Any]] = {
    "minigrad": {"precision": "float32"},
    "minigrad bfloat16": {"precision": "bfloat16"},
    "torch": {"precision": "float32", "compiled": False},
    "torch compiled": {"precision": "float32", "compiled": True},
    "torch bfloat16": {"precision": "bfloat16", "compiled": False},
    "torch compiled bfloat16": {"precision": "bfloat16", "compiled": True},
}
PEER = "torch"  # with which all others are compared


def serve_minigrad(case: str, threads: int, precision: str) -> None:
    """Take some steps for each line on standard input; answer with their seconds."""
    from minigrad.system import hardware

    hardware.prepare(threads)
    import models
    from minigrad import optim
    from minigrad.data.tokens.source import Windows
    from minigrad.kernels.gemm import backend
    from minigrad.random import generator
    from minigrad.training.workers import fastest
    from train import forward_backward

    backend.use("auto", precision)
    family, size, changes, batch_size, context = CASES[case]
    model = models.build(family, size=size, dropout=0.0, **changes)
    optimizer = optim.AdamW(model.parameters(), betas=BETAS, weight_decay=WEIGHT_DECAY)
    text = generator(0, "benchmark").integers(0, model.config.vocab_size, 1_000_000).astype("uint16")
    windows = Windows(text, context)
    replicas, taken = fastest(model, batch_size, context), 0

    def step() -> None:
        nonlocal taken
        replicas.run(forward_backward, windows.batch(seed=0, step=taken, batch_size=batch_size), step=taken)
        optimizer.step(LEARNING_RATE, max_norm=1.0)
        optimizer.zero_grad()
        taken += 1

    serve({"steps": lambda: [step() for _ in range(STEPS)]})


def torch_model(vocab_size: int, context: int) -> Any:
    """Return a plain GPT-2 in PyTorch, whose call gives the mean cross-entropy of ids and targets (B, T).

    It begins as nanoGPT's does: normal weights of deviation 0.02, smaller where they add to the residual stream.
    """
    from torch import nn
    from torch.nn import functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.LayerNorm(WIDTH) for _ in range(2)])
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, HEADS, WIDTH // HEADS))  # (B, T, 3, H, D)
            q, k, v = heads.permute(2, 0, 3, 1, 4)  # (B, H, T, D) each
            attended = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(attended.transpose(1, 2).flatten(2))
            return x + self.down(functional.gelu(self.up(self.norms[1](x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(vocab_size, WIDTH), nn.Embedding(context, WIDTH)
            self.blocks, self.norm = nn.ModuleList([Block() for _ in range(LAYERS)]), nn.LayerNorm(WIDTH)

        def forward(self, ids: Any, targets: Any) -> Any:
            x = self.tokens(ids) + self.positions.weight
            for block in self.blocks:
                x = block(x)
            logits = functional.linear(self.norm(x), self.tokens.weight)
            return functional.cross_entropy(logits.flatten(0, 1), targets.flatten())

    model = Model()
    for name, parameter in model.named_parameters():
        if parameter.ndim == 2:
            nn.init.normal_(parameter, std=0.02 / (2 * LAYERS) ** 0.5 if ".out." in name or ".down." in name else 0.02)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return model


def torch_step(
    model: Any, text: Any, batch_size: int, context: int, precision: str = "float32"
) -> Callable[[float], None]:
    """Return a function that draws a batch from a row of ids and trains on it, at a learning rate."""
    import torch
    from torch import nn

    optimizer = torch.optim.AdamW(
        model.parameters(), lr=LEARNING_RATE, betas=BETAS, weight_decay=WEIGHT_DECAY, fused=True
    )

    def step(learning_rate: float) -> None:
        for group in optimizer.param_groups:
            group["lr"] = learning_rate
        starts = torch.randint(len(text) - context - 1, (batch_size,)).tolist()
        rows = torch.stack([text[start : start + context + 1] for start in starts])
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bfloat16"):
            loss = model(rows[:, :-1], rows[:, 1:])
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


def serve_torch(threads: int, precision: str, *, compiled: bool) -> None:
    """Do the same with PyTorch, in the setting of nanoGPT."""
    import torch

    torch.set_num_threads(threads)
    _, _, _, batch_size, context = CASES["nanogpt"]
    model = torch_model(VOCAB, context)
    if compiled:
        model = torch.compile(model)
    step = torch_step(model, torch.randint(VOCAB, (1_000_000,)), batch_size, context, precision)
    serve({"steps": lambda: [step(LEARNING_RATE) for _ in range(STEPS)]})


def main() -> None:
    """Print a table, then the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--case", default="nanogpt", choices=CASES)
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has torch")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        options = json.loads(arguments.serve)
        (serve_minigrad if "case" in options else serve_torch)(**options)
        return
    from minigrad.system import hardware

    print(describe_machine())
    has_peer = arguments.case == "nanogpt" and has(arguments.peer_python, "torch")
    running: dict[tuple[str, int], Contestant] = {}
    for name, options in CONTESTANTS.items():
        is_peer = name.startswith(PEER)
        if is_peer and not has_peer:
            continue
        for threads in dict.fromkeys((hardware.threads(), 1)):
            own = options | {"threads": threads} | ({} if is_peer else {"case": arguments.case})
            python = arguments.peer_python if is_peer else sys.executable
            running[name, threads] = Contestant(__file__, python, own)
            running[name, threads].turn("steps", times=0)  # alone, because starting uses all processors
    for _ in range(ROUNDS):
        for contestant in running.values():
            contestant.turn("steps", times=1)
    results = []
    print(f"{'contestant':<24} {'threads':>7} {'ms a step':>10} {'steps/s':>8} {'of one thread':>14} {'of torch':>9}")
    for (name, threads), contestant in running.items():
        contestant.close()
        seconds = contestant.median("steps") / STEPS
        alone = running[name, 1].median("steps") / STEPS / seconds
        torch = running[PEER, threads].median("steps") / STEPS / seconds if has_peer else None
        results.append({"name": name, "threads": threads, "seconds": seconds, "of_one": alone, "of_torch": torch})
        ratio = f"{torch:8.2f}x" if torch else ""
        print(f"{name:<24} {threads:>7} {1e3 * seconds:10.1f} {1 / seconds:8.1f} {alone:13.2f}x {ratio}")
    print(json.dumps({"machine": describe_machine(), "case": arguments.case, "results": results}))


if __name__ == "__main__":
    main()
