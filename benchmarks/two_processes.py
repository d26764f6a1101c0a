"""How far do two processes deviate from one, and how far apart are two seeds?

Nano on python-docs, as a plain Llama (without shifted keys and added values) and without dropout: the losses of one
process, of two that share each step, and of another seed. The two processes are threads of this one, which add as true
processes do. Losses are averaged over 20 steps, to remove the noise of single batches, and compared from the hundredth
step on.

    python benchmarks/two_processes.py bfloat16 [--optimizer muon] [--steps 300]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from machine import describe_machine

import models
import tokenizer
from minigrad.data import mixture
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.distributed.world import ALONE, World
from minigrad.kernels.gemm import backend
from minigrad.system import hardware
from minigrad.training.budget import Budget
from minigrad.training.folder.record import Record
from minigrad.training.folder.run_folder import RunFolder
from minigrad.training.optimizers import optimizer_of
from minigrad.training.planning import costs
from minigrad.training.planning.plan import Plan
from minigrad.training.run import Run
from minigrad.training.settings import RunSettings
from minigrad.typing import Array
from tests.distributed.rooms import together
from train import take_step

WINDOW, SKIPPED = 20, 100  # steps


def losses(text: TokenizedCorpus, optimizer: str, steps: int, seed: int = 0, world: World = ALONE) -> Array:
    """Return the loss of each step, (steps,), averaged over WINDOW steps."""
    never = dict.fromkeys(("log_every", "eval_every", "save_every", "sample_every"), 10**6)
    shape = {"batch": 4, "context": 128, "lr": 0.006, "warmup": 30, "weight_decay": 0.1, "beta2": 0.95, "dropout": 0.0}
    settings = RunSettings(size="nano", threads=1, steps=steps, optimizer=optimizer, seed=seed, **shape, **never)
    model = models.build("vidya-v2", size="nano", seed=seed)
    with tempfile.TemporaryDirectory() as folder:
        plan = Plan(settings, model, text, rates=costs.Rates(1e11, 1e9), world=world)
        place, update = RunFolder(Path(folder), Record(), world=world), optimizer_of(model, settings, world)
        run, sums = Run(plan, place, update, Budget(steps, None), clock=lambda: 0.0), [0.0]
        for _ in range(steps):
            take_step(run)
            sums.append(run.totals.loss)
    return np.convolve(np.diff(sums), np.full(WINDOW, 1 / WINDOW), "valid")


def main() -> None:
    """Train three times, and print the distances."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("precision", choices=("float32", "bfloat16"))
    parser.add_argument("--optimizer", choices=("adamw", "muon"), default="muon")
    parser.add_argument("--steps", type=int, default=300)
    asked = parser.parse_args()
    hardware.prepare(1)
    corpus = mixture.load("python-docs", progress=print)
    text = TokenizedCorpus.of(corpus, tokenizer.train(corpus.sample(), 4_096))
    backend.use(precision=asked.precision)
    how = text, asked.optimizer, asked.steps
    one, seed = losses(*how), losses(*how, seed=1)
    two = together(2, lambda world: losses(*how, world=world))[0]
    apart, seeds = (np.abs(other - one)[SKIPPED:].mean() for other in (two, seed))
    print(describe_machine())
    print(f"{asked.precision}, {asked.optimizer}: processes {apart:.4f}, seeds {seeds:.4f}, {apart / seeds:.3f} of it")


if __name__ == "__main__":
    main()
