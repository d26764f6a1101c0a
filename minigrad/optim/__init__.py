"""Optimizers and learning-rate schedules."""

from minigrad.optim.adamw import AdamW
from minigrad.optim.average import WeightAverage
from minigrad.optim.clip import clip_gradients, global_norm
from minigrad.optim.muon import Muon
from minigrad.optim.optimizer import Optimizer
from minigrad.optim.schedules import decay_start, warmup_cosine, warmup_stable_decay
from minigrad.optim.sgd import SGD

__all__ = [
    "SGD", "AdamW", "Muon", "Optimizer", "WeightAverage", "clip_gradients", "decay_start", "global_norm",
    "warmup_cosine", "warmup_stable_decay",
]  # fmt: skip
