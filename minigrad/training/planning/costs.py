"""The cost of training: FLOPs per token, memory, and how fast this machine computes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from minigrad.distributed.pipeline import largest_stage
from minigrad.distributed.world import World
from minigrad.evaluate.rivals import MOST_BYTES
from minigrad.kernels.gemm import backend as products
from minigrad.kernels.rowwise.gating import swiglu_forward
from minigrad.nn.language_model import LanguageModel
from minigrad.ops.cross_entropy import logit_chunks
from minigrad.system import hardware
from minigrad.training import optimizers
from minigrad.training.parallel import divides_layers, has_copies, replicas_of
from minigrad.training.settings import RunSettings

# Time outside matrix products (norms, activation functions, additions, attention's exponentials, dispatch) for a token,
# per layer and channel, in elements of SwiGLU; fitted to benchmarks/train_step.py on AMX.
_OVERHEAD = 90
_EACH_LAYER = 45  # channels: a layer takes as long as if it were wider by this much
_SHARED = 1.5  # times as long where threads share every product, and wait for each other
_SPARSE = 1.6  # times as long where a token skips experts, whose products have fewer rows; fitted to 8 experts on nano
_UPDATE = 1.5  # Muon's small products take this many times as long as large products of equal FLOPs


class Rates(NamedTuple):
    """How fast a machine computes."""

    products: float  # FLOP/s in matrix products of a model's shape, with the matmul backend in use
    elements: float  # elements/s of SwiGLU, which stands for all loops over elements


_SECONDS = 0.25  # for which each of the two is measured


def measure_rates() -> Rates:
    """Measure this machine."""
    rng = np.random.default_rng(0)
    a, b, out = (rng.random(shape, np.float32) for shape in ((2_048, 512), (512, 512), (2_048, 512)))
    products_time = _median_time(lambda: products.product_into(a, b, out, False))
    return Rates(2 * a.size * 512 / products_time, a.size / _median_time(lambda: swiglu_forward(a, out)))


def _median_time(work: Callable[[], object]) -> float:
    times: list[float] = []
    end = time.perf_counter() + _SECONDS
    while time.perf_counter() < end or len(times) < 3:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def flops_per_token(model: LanguageModel, context: float) -> float:
    """Return the FLOPs of one training step per token, forward and backward.

    A multiply-add of the forward pass is two FLOPs, and the backward pass takes twice as many: each product has two
    factors, and each of them gets a gradient, except a frozen matrix.
    """
    frozen = sum(each.size for each in model.multiplied() if not each.requires_grad)
    return 6 * model.macs_per_token(context) - 2 * frozen


def in_each_token(model: LanguageModel) -> str:
    """Return in words how many parameters a token uses; "" if it uses all."""
    active = model.num_active()
    return f"; a token uses {active:,} of the parameters" if active < model.num_parameters() else ""


def tokens_per_second(
    model: LanguageModel, context: float, rates: Rates, update: float = 0.0, replicas: int | None = None
) -> float:
    """Estimate the training speed on a machine.

    `update` is what the optimizer multiplies, in FLOPs per token. `replicas` is the number of replicas of the model, by
    default one for each thread; with fewer, threads share every product and wait for each other.
    """
    config = model.config
    elements = float(_OVERHEAD * config.num_layers * (config.width + _EACH_LAYER))
    if replicas is not None and replicas < hardware.threads():
        elements *= _SHARED
    if model.num_active() < model.num_parameters():
        elements *= _SPARSE
    flops = flops_per_token(model, context) + _UPDATE * update
    return float(1 / (flops / rates.products + elements / rates.elements))


COMPILING = 250_000_000
"""Additional bytes that compiling the kernels takes, in the first run on a machine (measured: 250 MB)."""

_COPY = 75_000_000
"""Bytes of Python's objects and of buffers that a copy of the process has for itself (measured with nano and micro)."""


@dataclass(frozen=True)
class Memory:
    """The memory of a training run in bytes."""

    state: int  # weights, gradients and AdamW's two moments, or what the optimizer keeps instead
    activations: int
    program: int = 215_000_000  # Python, NumPy, Numba, the compiled kernels, and what `of_text` adds
    snapshot: int = 0  # the copy from which checkpoints are written while training goes on
    xz: int = 0  # what xz takes at the end, when the activations are gone

    @property
    def total(self) -> int:
        """The most at any time."""
        return self.state + max(self.activations, self.xz) + self.program + self.snapshot

    def with_optimizer(self, more: int, snapshot: int) -> Memory:
        """Return the memory if the optimizer keeps `more` bytes beyond AdamW's, and with a copy for checkpoints."""
        return dataclasses.replace(self, state=self.state + more, snapshot=snapshot)

    def with_copies(self, count: int) -> Memory:
        """Return the memory with copies of the process, whose pages become their own once one of them writes."""
        return dataclasses.replace(self, program=self.program + count * _COPY)

    def for_stage(self, elsewhere: int) -> Memory:
        """Return the memory of a stage of a pipeline: other stages keep gradients and moments of `elsewhere` bytes."""
        return dataclasses.replace(self, state=self.state - 3 * elsewhere)

    def with_teacher(self, teacher: LanguageModel, tokens: int, is_shared: bool) -> Memory:
        """Return the memory with a frozen float32 model, which may share the arrays of the one that learns."""
        vocab, own = teacher.config.vocab_size, 0 if is_shared else teacher.num_parameters()
        logits = tokens * vocab // logit_chunks(tokens, 2 * vocab)
        return dataclasses.replace(self, state=self.state + 4 * own, activations=self.activations + 4 * logits)


def of_text(num_bytes: int) -> int:
    """Estimate the memory for a text: some copies of up to 64 MiB of it."""
    return 3 * min(num_bytes, 64 << 20)


def of_xz(num_bytes: int, evaluated: int) -> int:
    """Estimate the memory in which xz compresses an excerpt of a text and `evaluated` bytes of validation text.

    It takes 11 to 13 times as many bytes (measured from 4 to 9 MB).
    """
    return 12 * (min(num_bytes, MOST_BYTES) + evaluated)


def memory(
    model: LanguageModel,
    batch_size: int,
    context: int,
    *,
    itemsize: int = 4,
    recomputed: bool = False,
    replicas: int = 1,
    processes: int = 1,
) -> Memory:
    """Estimate the memory of training with `batch_size` sequences of `context` tokens.

    State is a weight, two moments and a gradient per parameter, and one gradient more for every replica after the
    first; of a frozen one it is the weight alone. Of several processes each has its share of the moments, and once more
    that of the gradients. Of the activations, those are kept that backward passes need; each family counts its own
    (`activations_per_token`), or, if layers are `recomputed`, the input of each layer and the activations of one. The
    loss adds one chunk of logits and the gradient of the head's matrix, twice if computed in chunks, or, if rows of
    tokens are trained beside it, a copy of it.
    """
    config, tokens = model.config, batch_size * context
    per_token = config.activations_per_token()
    if recomputed:
        per_token = config.num_layers * config.width + per_token // config.num_layers
    chunks = logit_chunks(tokens // replicas, config.vocab_size)
    head = tokens * config.vocab_size // chunks
    if model.head().requires_grad:
        head += replicas * min(chunks, 2) * config.vocab_size * config.width
    head += replicas * model.tables()[-1].copied()
    trained = model.num_trained()
    state = model.num_parameters() + int((replicas + (2 if processes == 1 else 3 / processes)) * trained)
    return Memory(state * itemsize, (tokens * per_token + head) * itemsize)


def memory_of_run(settings: RunSettings, model: LanguageModel, world: World, teacher: LanguageModel | None) -> Memory:
    """Estimate the memory of a run in each of its processes, without its text."""
    in_stages, replicas = divides_layers(settings, world), replicas_of(settings, model, world)
    needed = memory(
        model,
        -(-settings.batch // world.size) * (settings.accumulate if in_stages else 1),
        settings.context,
        itemsize=settings.itemsize,
        recomputed=settings.checkpointing,
        replicas=replicas,
        processes=1 if in_stages else world.size,
    )
    if has_copies(settings, model, world):
        needed = needed.with_copies(replicas - 1)
    if in_stages:
        needed = needed.for_stage(settings.itemsize * (model.num_parameters() - largest_stage(model, world.size)))
    needed = needed.with_optimizer(*optimizers.bytes_kept(model, settings, world))
    # Both models then keep the frozen weights once.
    is_shared = settings.adapter_rank is not None and bool(settings.replay)
    return needed.with_teacher(teacher, settings.batch * settings.context, is_shared) if teacher else needed
