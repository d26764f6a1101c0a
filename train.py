"""Train a language model: ``python train.py --model vidya-v2`` is enough.

Real text, ten minutes, and at the end a checkpoint, a sample and a report. `train_loop` and `take_step` train,
`Preparation` chooses model and data, and `minigrad.training` holds everything around them.
"""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # during the imports Ctrl-C ends the program without a traceback

import math
import sys
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from minigrad.cli.exits import exit_code
from minigrad.cli.parser import Parser
from minigrad.constants import IGNORE
from minigrad.distributed.launch import connect, run_together
from minigrad.distributed.world import mpiexec, total
from minigrad.errors import DivergenceError
from minigrad.options import assignments
from minigrad.system import hardware
from minigrad.system.cache import tell_if_nothing_is_kept
from minigrad.system.limits import check_limits
from minigrad.system.locks import FolderLock
from minigrad.system.signals import Stopped, raise_on_interrupt, stop_requests
from minigrad.system.terminal import phase, prepare_output, say
from minigrad.training.folder.places import check_places, unused_folder
from minigrad.training.reporting.result import TrainResult
from minigrad.training.settings import ALIASES, RunSettings, TrainConfig
from models.names import check_model, ladder

if TYPE_CHECKING:
    from minigrad.data.corpus import Corpus
    from minigrad.data.mixture import Mixture
    from minigrad.data.tokens.batches import Batch
    from minigrad.data.tokens.tokenized import TokenizedCorpus
    from minigrad.nn.language_model import LanguageModel
    from minigrad.training.folder.run_folder import Opening, RunFolder
    from minigrad.training.planning.plan import Plan
    from minigrad.training.run import Run
    from minigrad.training.teaching import Lessons
    from minigrad.typing import Array, Tokenizer
    from models.initial_weights import InitialWeights

__all__ = ["Stopped", "TrainConfig", "TrainResult", "main", "train"]

_STARTED = time.perf_counter()  # a budget of minutes counts the whole process; the imports so far are a small part
_DESCRIPTION = "Train a small language model. --model alone is enough: real text, ten minutes, a checkpoint, a report."
MAX_GRADIENT_NORM = 1.0


def train(
    config: TrainConfig, *, clock: Callable[[], float] | None = None, explicit: Collection[str] | None = None
) -> TrainResult | None:
    """Run a whole training as ``python train.py`` does; returns None if only the plan was wanted.

    Started by mpiexec, all processes train together: the first one writes, and the others return None. `clock` returns
    the seconds since the run began; tests bring their own. `explicit` names the settings that were given, by default
    the settings that differ from their defaults: a continued run refuses the ones it does not have. Threads and backend
    stay as chosen. Raises InputError for settings that cannot be used, RunError if it fails, Stopped on Ctrl-C or
    SIGTERM.
    """
    started, world = time.perf_counter(), connect()
    config.check()
    begins = not config.init and config.resume is None
    check_model(config.model, config.size, assignments(config.set), begins=begins)
    check_places(config)
    hardware.prepare(config.threads, world.sharing)
    check_limits(hardware.threads())
    if world.rank == 0:
        tell_if_nothing_is_kept()
    with phase("starting NumPy and Numba"):
        from minigrad.training.folder.run_folder import open_run
        from minigrad.training.reporting.finish import finish
    raise_on_interrupt()
    with FolderLock() as lock:
        preparation = Preparation(open_run(config, explicit, lock, world), lock)
        prepared = preparation.plan_run()
        if config.plan:
            return None
        run = preparation.build(prepared, clock or (lambda: time.perf_counter() - started))
        train_loop(run)
        return finish(run)


def train_loop(run: Run) -> None:
    """Take steps until the budget is used up; log, evaluate, generate samples and save on the way."""
    from minigrad.training.reporting.step_log import StepLog

    settings = run.settings
    with stop_requests() as request, StepLog(run, request) as log, run.writer:
        while not run.is_finished:
            log.decide_steps()
            with log.timed(), run.profiled():
                run.adapt_context()
                try:
                    learning_rate, norm = take_step(run)
                except DivergenceError as error:  # of an update
                    raise run.divergence(str(error)) from None
            score = run.evaluate(everything=run.is_finished) if run.is_due(settings.eval_every) else None
            if score or run.step == 1 or run.is_due(settings.log_every):
                log.write(learning_rate, norm, score)
            if run.is_due(settings.sample_every):
                log.show_sample(run.write_sample())
            stop = log.stop_code()
            run.write_what_is_due(stops=bool(stop))  # a checkpoint, while training goes on
            if stop and not run.is_finished:
                raise Stopped(stop, run.step, run.folder.path, mpiexec(run.world))


def take_step(run: Run) -> tuple[float, float]:
    """Take one training step; return the learning rate and the norm of the gradient.

    Raises RunError, naming the operation, if the loss or the gradient is not finite; the weights are then unchanged.
    Raises DivergenceError if the update made weights that are not finite.
    """
    learning_rate = run.learning_rate()
    batch = run.batch()  # tokens, and for each the one after it
    nats = total(run.world, accumulate_gradients(run, batch))  # forward and backward, of all processes
    predicted = batch.targets[batch.targets != IGNORE]
    loss, norm = nats / predicted.size, math.nan
    if math.isfinite(loss):  # clip and update; a batch that teaches nothing moves nothing
        norm = run.optimizer.step(learning_rate, max_norm=MAX_GRADIENT_NORM) if batch.counts else 0.0
    if not math.isfinite(norm):
        raise run.divergence(run.first_anomaly(lambda: accumulate_gradients(run, batch)))
    run.optimizer.zero_grad()
    run.totals.add_step(nats, float(run.text.byte_lengths[predicted].sum()), loss)
    run.end_step(norm)
    return learning_rate, norm


def accumulate_gradients(run: Run, batch: Batch) -> float:
    """Compute the gradient of the mean loss over the targets, part by part; return the sum of the losses in nats."""
    parts, targets = run.own_parts(batch), batch.num_targets
    if run.pipeline:  # this process has some of the layers
        return run.pipeline.run(parts, step=run.step, num_targets=targets)
    return sum(run.replicas.run(forward_backward, part, step=run.step, num_targets=targets) for part in parts)


def forward_backward(model: LanguageModel, batch: Batch, weight: Array) -> float:
    """Add the gradient of the mean loss, times `weight`, for every parameter; return it without `added_loss`."""
    from minigrad.ops.distillation import objective_of

    objective = objective_of(batch.teaching)
    loss = model.loss(batch.tokens, batch.targets, layout=batch.layout, weights=batch.weights, objective=objective)
    loss.backward(weight)
    return float(loss.item()) - model.added_loss


class Prepared(NamedTuple):
    """Everything a run needs to begin: its plan, its folder, and the weights it starts from (None: new ones)."""

    plan: Plan
    folder: RunFolder
    initial: InitialWeights | None


@dataclass(frozen=True)
class Preparation:
    """Prepare a run."""

    opening: Opening
    lock: FolderLock  # on the run folder, from when it is first read or written

    def plan_run(self) -> Prepared:
        """Read the text, choose the open settings, print the plan; nothing is written. The model is a skeleton."""
        from minigrad.training.folder.fingerprints import fingerprints
        from minigrad.training.folder.record import Record
        from minigrad.training.folder.run_folder import RunFolder
        from minigrad.training.planning.choices import choose_settings, choose_shape
        from minigrad.training.planning.dial import Dial
        from minigrad.training.planning.plan import Plan
        from models import claims, smallest_published, variant

        folder, world = self.opening.folder, self.opening.world
        family, skeletons = self.candidates()
        asked = replace(self.opening.asked, model=family)
        rates, corpus = self.opening.measure_machine(), self.opening.read_corpus()
        dial = Dial(skeletons, rates, corpus.bytes_to_train, smallest_published(family))
        size = dial.choose(asked)
        path = folder.path if folder else Path(asked.out or unused_folder(f"{family}-{size}"))
        text = self.encode(corpus, skeletons[size])
        settings = choose_settings(replace(asked, size=size), skeletons[size], rates, len(text.train), world.size)
        model = variant(skeletons[size], **choose_shape(settings, skeletons[size], text.tokenizer))
        done = folder.step if folder else 0
        lessons = self.read_lessons(settings, text) if settings.objective else None
        initial = self.initial_weights(model, text.tokenizer)
        plan = Plan(
            settings, model, text, rates, claims.compare(family, size, skeletons[size]), done, lessons, world, dial
        )
        plan.check_vocabulary()
        plan.check_text()
        plan.check_stages()
        found = fingerprints(text, lessons, initial.base if initial else "")
        plan.check_agreement(found)
        if folder is None:
            facts = {"parameters": model.num_parameters(), "matmul_rate": rates.products} | found
            record = Record.new(asked, settings, **facts, processes=world.size, architecture=model.config.published())
            folder = RunFolder(path, record, is_new=True, world=world)
        else:
            folder.check_text(found)
        say(plan.describe(path))
        return Prepared(plan, folder, initial)

    def candidates(self) -> tuple[str, dict[str, LanguageModel]]:
        """Return the family, and the models to choose from by size: as given, or as the run starts from."""
        import models
        from minigrad.formats.json_files import read_json
        from minigrad.training.folder.record import FILE

        asked, folder = self.opening.asked, self.opening.folder
        changes = assignments(asked.set)
        if not asked.init:
            sizes = ladder(asked.model, asked.size)
            return asked.model, {size: models.for_training(asked.model, size, **changes) for size in sizes}
        # A run that is continued has noted the shape of its initial model, which may be gone by now.
        source = folder.path / FILE if folder else models.base_of(asked.init) / "config.json"
        described = (folder.record.architecture if folder else None) or read_json(source)
        wanted = asked.model if folder or "model" in self.opening.explicit else None
        family, size, skeleton = models.start_from(described, source, wanted, asked.size, **changes)
        return family, {size: skeleton}

    def encode(self, corpus: Corpus | Mixture, skeleton: LanguageModel) -> TokenizedCorpus:
        """Load or train the tokenizer of a model, and encode the corpus."""
        import tokenizer
        from minigrad.data.tokens.tokenized import TokenizedCorpus

        asked, folder = self.opening.asked, self.opening.folder
        with phase("preparing the tokens"):
            wanted, kind = asked.vocab or skeleton.config.vocab_size, asked.tokenizer or "byte-level"
            known = folder.path if folder else None if kind in tokenizer.KINDS else kind
            tok = tokenizer.load(known) if known else tokenizer.KINDS[kind](corpus.sample(), wanted)
            return TokenizedCorpus.of(corpus, tok)

    def read_lessons(self, settings: RunSettings, text: TokenizedCorpus) -> Lessons:
        """Read the data to teach in place of a text, in the form that the model will chat in, or load a teacher."""
        import models
        import tokenizer
        from minigrad.finetuning.by_objective import lessons_for

        known = self.opening.folder.path if self.opening.folder else settings.tokenizer or ""
        form = tokenizer.load_chat(known, tokenizer.load(known), is_untaught=True)
        return lessons_for(settings, form, text, models.load, tokenizer.load)

    def initial_weights(self, model: LanguageModel, tokenizer: Tokenizer) -> InitialWeights | None:
        """Return the weights that a run starts from, if some were named; to train adapters, freeze the model."""
        from models import initial_weights_for

        asked, folder = self.opening.asked, self.opening.folder
        if not asked.init or (folder and folder.has_checkpoint and not asked.adapter_rank):
            return None  # a checkpoint has all weights, except those under adapters
        initial = initial_weights_for(model, asked.init)
        if asked.adapter_rank:
            return initial.adapted(model, asked.adapter_rank, sorted(tokenizer.specials.values()))
        if initial.grown:
            say(f"{asked.init} grows, and computes the same function as before: {initial.grown}")
        return initial

    def build(self, prepared: Prepared, clock: Callable[[], float]) -> Run:
        """Give the model its weights, new ones or those of a checkpoint, and write the run folder."""
        from minigrad.training.budget import Budget
        from minigrad.training.folder import checkpoint
        from minigrad.training.folder.saving import load_moments
        from minigrad.training.optimizers import optimizer_of
        from minigrad.training.run import Run

        plan, folder, initial = prepared
        settings, model = plan.settings, plan.model
        plan.check_memory()
        saved = checkpoint.load(folder.path) if folder.has_checkpoint else None
        model.initialise(settings.seed, settings.dtype)
        model.recompute_layers(settings.checkpointing)
        if initial is not None:
            initial.fill(model)
        optimizer = optimizer_of(model, settings, plan.world)
        run = Run(plan, folder, optimizer, Budget.of(settings.steps, settings.minutes, settings.decay), clock)
        if initial is not None and initial.moments:
            # Adam's first updates of new weights are mis-scaled; warm-up hides it (growth.widen_moments).
            load_moments(run, initial.moments_for(model), initial.updates)
        if saved is not None:
            run.restore(saved)
            say(f"continuing after step {run.step:,}")
        folder.begin_or_continue(plan.text.tokenizer, settings, self.lock)
        run.begin()
        return run


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, 1 (a fault), 2 (bad input), 130 or 143 (stopped)."""
    prepare_output()
    parser = Parser(TrainConfig, prog="train.py", description=_DESCRIPTION, aliases=ALIASES)

    def work() -> None:
        config, explicit = parser.read(arguments)
        train(config, clock=lambda: time.perf_counter() - _STARTED, explicit=explicit)

    said, less = "\ninterrupted; a run that had begun continues with --resume", "take a smaller --size or --batch"
    return run_together(lambda tell: exit_code("train.py", work, interrupted=said, less_memory=less, tell=tell))


if __name__ == "__main__":
    sys.exit(main())
