"""Train a language model: ``python train.py --model vidya-v2`` is enough.

Real text, ten minutes, and at the end a checkpoint, a sample and a report. `train_loop` and `take_step` train, and
`minigrad.training` holds everything around them.
"""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # during the imports Ctrl-C ends the program without a traceback

import math
import sys
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from minigrad.cli.exits import exit_code
from minigrad.cli.parser import Parser
from minigrad.constants import IGNORE
from minigrad.distributed.launch import connect, run_together
from minigrad.distributed.world import mpiexec, total
from minigrad.errors import DivergenceError, RunError
from minigrad.options import assignments
from minigrad.system import hardware
from minigrad.system.cache import tell_if_nothing_is_kept
from minigrad.system.limits import check_limits
from minigrad.system.locks import FolderLock
from minigrad.system.signals import Stopped, raise_on_interrupt, stop_requests
from minigrad.system.terminal import phase, prepare_output
from minigrad.training.folder.places import check_places, naming_run
from minigrad.training.folder.record import TrainResult
from minigrad.training.settings import TrainConfig
from models.names import SIZES, check_model
from models.pretrained import find_runs, names

if TYPE_CHECKING:
    from minigrad.data.tokens.batches import Batch
    from minigrad.nn.language_model import LanguageModel
    from minigrad.training.run import Guest, Run
    from minigrad.typing import Array

__all__ = ["Stopped", "TrainConfig", "TrainResult", "main", "train"]

_STARTED = time.perf_counter()  # a budget of minutes counts the whole process; the imports so far are a small part
_DESCRIPTION = "Train a small language model. No flag is needed: real text, ten minutes, a checkpoint, a report."
MAX_GRADIENT_NORM = 1.0


def train(
    config: TrainConfig,
    *,
    clock: Callable[[], float] | None = None,
    explicit: Collection[str] | None = None,
    guests: Sequence[Guest] = (),
) -> TrainResult | None:
    """Run a whole training as ``python train.py`` does; returns None for a plan alone, or a run that had ended.

    Started by mpiexec, all processes train together: the first one writes, and the others return None. `clock` returns
    the seconds since the run began. `explicit` names the settings that were given, by default the ones that differ from
    their defaults: a continued run refuses the ones it does not have. `guests` follow the run. Raises InputError for
    settings that cannot be used, RunError if it fails, Stopped on Ctrl-C, SIGTERM, SIGHUP, or if the
    output is closed. Afterwards, matrix products are computed as before.
    """
    started, world = time.perf_counter(), connect()
    config.check()
    begins = not config.init and config.resume is None
    check_model(config.model, config.size, assignments(config.set), begins=begins)
    config = find_runs(config)
    check_places(config, tokenizers=names())
    hardware.prepare(config.threads, world.sharing)
    check_limits(hardware.threads())
    if world.rank == 0:
        tell_if_nothing_is_kept()
    with phase("starting NumPy and Numba"):
        from minigrad.kernels.gemm import backend
        from minigrad.training.preparation import prepare
        from minigrad.training.reporting.finish import finish
    raise_on_interrupt()
    with FolderLock() as lock, naming_run(lock, mpiexec(world)), backend.own_choice():
        run = prepare(config, explicit, lock, world, clock or (lambda: time.perf_counter() - started), guests)
        if run is None:
            return None
        train_loop(run)
        return finish(run)


def train_loop(run: Run) -> None:
    """Take steps until the budget is used up; log, evaluate, generate samples and save on the way."""
    from minigrad.training.keeping import write_what_is_due
    from minigrad.training.reporting.step_log import StepLog
    from minigrad.training.validation import evaluate, write_sample

    settings = run.settings
    with stop_requests() as request, StepLog(run, request) as log, run.writer:
        while not run.is_finished:
            log.decide_steps()
            with log.timed(), run.profiled():
                learning_rate, norm = take_step(run)
            score = evaluate(run, everything=run.is_finished) if run.is_due(settings.eval_every) else None
            if score or run.step == 1 or run.is_due(settings.log_every):
                log.write(learning_rate, norm, score)
            if run.model.can_generate and run.is_due(settings.sample_every):
                log.show_sample(write_sample(run))
            stop = log.stop_code()
            write_what_is_due(run, stops=bool(stop))  # a checkpoint, while training goes on
            if stop and not run.is_finished:
                raise Stopped(stop, run.step, run.folder.path, mpiexec(run.world))


def take_step(run: Run) -> tuple[float, float]:
    """Take one training step; return the learning rate and the norm of the gradient.

    Raises RunError, naming the operation, if the loss or the gradient is not finite, with the weights unchanged, or if
    the update made weights that are not finite.
    """
    run.before_step()
    learning_rate = run.learning_rate()
    batch = run.batch()  # tokens, and for each the one after it
    nats = total(run.world, accumulate_gradients(run, batch))  # forward and backward, of all processes
    predicted = batch.targets[batch.targets != IGNORE]
    loss, norm = nats / max(predicted.size, 1), math.nan
    if math.isfinite(loss):
        norm = update(run, learning_rate) if batch.teaches else 0.0  # a batch that teaches nothing moves nothing
    if not math.isfinite(norm):
        raise divergence(run, batch)
    run.optimizer.zero_grad()
    run.totals.add_step(nats, float(run.text.byte_lengths[predicted].sum()), loss)
    run.end_step(norm)
    return learning_rate, norm


def update(run: Run, learning_rate: float) -> float:
    """Clip the gradient and update the weights; return the norm before clipping, and update nothing if not finite."""
    try:
        return run.optimizer.step(learning_rate, max_norm=MAX_GRADIENT_NORM)
    except DivergenceError as error:
        raise run.divergence(str(error)) from None


def divergence(run: Run, batch: Batch) -> RunError:
    """Return the error of a step whose loss or gradient is not finite: it names the first such operation."""
    from minigrad.training.validation import first_anomaly

    return run.divergence(first_anomaly(run, lambda: accumulate_gradients(run, batch)))


def accumulate_gradients(run: Run, batch: Batch) -> float:
    """Compute the gradient of the mean loss over the targets, part by part; return the sum of the losses in nats."""
    return run.workers.accumulate(forward_backward, batch, run.step)


def forward_backward(model: LanguageModel, batch: Batch, weight: Array) -> float:
    """Add the gradient of the mean loss, times `weight`, for every parameter; return it without `added_loss`."""
    tokens, targets, layout, weights = batch.tokens, batch.targets, batch.layout, batch.weights
    loss = model.loss(tokens, targets, layout=layout, weights=weights, objective=batch.objective)
    loss.backward(weight)
    return float(loss.item()) - model.added_loss


_ALIASES = {
    "learning_rate": "lr",
    "batch_size": "batch",
    "context_length": "context",
    "block_size": "context",
    "iters": "steps",
    "max_steps": "steps",
    "epochs": "minutes",
    "dataset": "data",
    "text": "data",
    "file": "data",
    "corpus": "data",
    "output": "out",
    "weights": "init",
    "checkpoint": "resume",
    "model_size": "size",
    "vocab_size": "vocab",
    "gradient_accumulation": "accumulate",
    "num_threads": "threads",
    "dtype": "precision",
    "wd": "weight_decay",
}
"""Other names that people type; an error message suggests the field."""


def _meant_for(word: str) -> str:
    """Return the setting that a word without a flag was most likely meant for."""
    return "model" if word in SIZES else "size" if any(word in sizes for sizes in SIZES.values()) else "data"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, 1 (a fault), 2 (bad input), 129, 130, 141 or 143 (stopped)."""
    prepare_output()
    parser = Parser(TrainConfig, prog="train.py", description=_DESCRIPTION, aliases=_ALIASES, stray=_meant_for)

    def work() -> None:
        config, explicit = parser.read(arguments)
        train(config, clock=lambda: time.perf_counter() - _STARTED, explicit=explicit)

    said, less = "\ninterrupted; a run that had begun continues with --resume DIR", "take a smaller --size or --batch"
    return run_together(lambda tell: exit_code("train.py", work, interrupted=said, less_memory=less, tell=tell))


if __name__ == "__main__":
    sys.exit(main())
