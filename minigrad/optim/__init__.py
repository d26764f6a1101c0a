"""Optimizers and learning-rate schedules."""

from minigrad.optim.adamw import AdamW
from minigrad.optim.clip import clip_gradients, global_norm
from minigrad.optim.schedules import decay_start, warmup_cosine, warmup_stable_decay

__all__ = [
    "AdamW",
    "clip_gradients",
    "decay_start",
    "global_norm",
    "warmup_cosine",
    "warmup_stable_decay",
]
