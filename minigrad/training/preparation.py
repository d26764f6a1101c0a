"""Prepare a run: read its text, choose what was left open, plan it, and give its model weights.

A part of the program train.py: it brings models, tokenizers and lessons together.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import models
import tokenizer
from minigrad.data import corpus, mixture
from minigrad.data.tokens.reading import training_source
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.distributed.world import World, total
from minigrad.errors import InputError, RunError
from minigrad.finetuning.distillation import Distillation
from minigrad.finetuning.encoding import TaughtForm
from minigrad.finetuning.preferences import PreferenceLearning, read_preferences
from minigrad.finetuning.replay import Replay
from minigrad.finetuning.rewards import RewardLearning
from minigrad.finetuning.supervised import read_supervised
from minigrad.finetuning.tasks import PREFIX, TASKS, task_of
from minigrad.finetuning.teaching import Lessons, Teaching
from minigrad.formats.folders import CONFIG, RECORD
from minigrad.formats.json_files import read_json
from minigrad.kernels.gemm import backend
from minigrad.nn.language_model import LanguageModel
from minigrad.options import assignments
from minigrad.system import hardware, processors
from minigrad.system.locks import FolderLock
from minigrad.system.terminal import phase, say
from minigrad.system.units import format_estimate, plural
from minigrad.training import keeping, optimizers
from minigrad.training.budget import Budget, read_decay
from minigrad.training.folder import checkpoint, metrics, places, run_folder
from minigrad.training.folder.opening import Opening, open_run
from minigrad.training.folder.record import Record
from minigrad.training.folder.run_folder import RunFolder
from minigrad.training.guests import guests_of, plan_rows
from minigrad.training.planning import choices, costs, description
from minigrad.training.planning.dial import Dial
from minigrad.training.planning.plan import Plan
from minigrad.training.run import Guest, Run
from minigrad.training.settings import REWARDED, RunSettings, TrainConfig
from minigrad.typing import Tokenizer
from models.loading import InitialWeights
from models.names import ladder
from models.registry import compare_claim
from tokenizer.errors import TokenizerError


def prepare(
    config: TrainConfig,
    explicit: Collection[str] | None,
    lock: FolderLock,
    world: World,
    clock: Callable[[], float],
    guests: Sequence[Guest] = (),
) -> Run | None:
    """Return a run that can begin; None if only its plan is wanted, or if it has ended, which is printed."""
    opening = open_run(config, explicit, lock, world)
    if not config.plan and (ended := opening.describe_end()):
        say(ended)
        return None
    prepared = plan_run(opening)
    return None if config.plan else build(prepared, lock, clock, guests)


class Prepared(NamedTuple):
    """Everything a run needs to begin."""

    plan: Plan
    folder: RunFolder
    lessons: Lessons | None
    initial: InitialWeights | None  # None for new weights


def plan_run(opening: Opening) -> Prepared:
    """Read the text, choose the open settings, print the plan; nothing is written. The model is a skeleton."""
    folder, world = opening.folder, opening.world
    if opening.asked.is_lesson:
        task_for(opening.asked)  # so that one that cannot be taught is refused before the text is read
    family, skeletons = candidates(opening)
    precision = choose_precision(opening)
    rates = measure_machine(opening, precision)
    given = replace(opening.asked, model=family)
    asked, documents, dial = choose_text(opening, given, skeletons, rates)
    size = dial.choose(asked)
    path = folder.path if folder else Path(asked.out or next(places.unused_folders(f"{family}-{size}")))
    skeleton, text = skeletons[size], encode(opening, documents, skeletons[size])
    sized = replace(asked, size=size, precision=precision)
    settings = choices.choose_settings(sized, skeleton, rates, text.train.tokens_as_one, world.size)
    shape = choices.choose_shape(settings, skeleton, text.tokenizer)
    model = models.variant(skeleton, **shape)
    if settings.objective and settings.teacher is None and not model.can_generate:
        raise InputError(
            f"--objective {settings.objective} teaches answers, and the model in {settings.init} cannot write one: "
            "its layers need the whole text at once"
        )
    lessons = read_lessons(opening, settings, text) if settings.objective else None
    initial = initial_weights(opening, model, text.tokenizer)
    claim, done = compare_claim(family, size, skeleton), folder.step if folder else 0
    used = checkpoint.seconds(folder.path) if folder else 0.0
    usual = assignments(asked.set) | shape
    plan = Plan(
        settings,
        model,
        text,
        rates,
        claim,
        done,
        used,
        lessons,
        world=world,
        dial=dial,
        rows=plan_rows(settings),
        departures={} if asked.init else models.departures(family, size, model.config, **usual),
        caution=run_folder.describe_caution(asked, text.validation),
    )
    plan.check()
    if folder is None and asked.init:
        check_tokenizer(settings, text.tokenizer)
    found = run_folder.fingerprints(text, lessons.fingerprint() if lessons else "", initial.base if initial else "")
    run_folder.check_processes_agree(world, settings, found)
    if folder is None:
        facts = {"parameters": model.num_parameters(), "matmul_rate": rates.products} | found
        record = Record.new(given, settings, **facts, processes=world.size, architecture=model.config.published())
        folder = RunFolder(path, record, is_new=True, world=world)
    else:
        folder.check_text(found)
    say((description.describe if asked.plan else description.summarise)(plan, path))
    return Prepared(plan, folder, lessons, initial)


def candidates(opening: Opening) -> tuple[str, dict[str, LanguageModel]]:
    """Return the family, and the models to choose from by size; a run with --init has the size of its start.

    A run that is continued has noted its shape: its size may have another one today, and its start may be gone.
    """
    asked, folder = opening.asked, opening.folder
    if folder and (noted := folder.record.architecture):
        family, _, skeleton = models.start_from(noted, folder.path / RECORD, asked.model, "auto")
        return family, {asked.size: skeleton}
    changes = assignments(asked.set)
    if not asked.init:
        fields = models.recipe(asked.model, divides_layers=asked.pipeline)
        sizes = ladder(asked.model, asked.size)
        return asked.model, {size: models.for_training(asked.model, size, fields, **changes) for size in sizes}
    source = models.model_below(asked.init) / CONFIG
    wanted = asked.model if folder or "model" in opening.explicit else None
    family, size, skeleton = models.start_from(read_json(source), source, wanted, asked.size, **changes)
    return family, {size: skeleton}


def choose_precision(opening: Opening) -> str:
    """Return the precision that all processes can compute in at a gain, or the one that was given."""
    have_bfloat16 = opening.world.collect(backend.multiplies_bfloat16())
    return choices.choose_precision(opening.asked, gains_by_bfloat16=all(have_bfloat16))


def measure_machine(opening: Opening, precision: str) -> costs.Rates:
    """Choose threads and matmul backend, and return how fast all processes compute together."""
    asked, world = opening.asked, opening.world
    if changed := compare_threads(opening):
        say(changed)
    threads = asked.threads and min(asked.threads, processors.count())  # a continued run as it began
    hardware.prepare(threads, world.sharing)
    backend.use(asked.matmul, precision)
    return costs.Rates(*(total(world, rate) for rate in costs.measure_rates()))


def compare_threads(opening: Opening) -> str:
    """Return a line that says what changes for a run that began with other processes or more threads, or ""."""
    folder, now, change = opening.folder, opening.world.size, ""
    threads, most = opening.asked.threads or 1, processors.count()
    if folder and folder.record.processes != now:
        before = plural(folder.record.processes, "process")
        change = f"this run has been trained by {before} so far, and continues with {now}"
    elif folder and threads > most:
        change = f"this run began with {threads} threads, and this computer has {most}"
    if not change:
        return ""
    return (
        f"{change}: sums are added in another order, so this run stays close to one that never stopped, but does "
        "not equal it bit for bit"
    )


def choose_text(
    opening: Opening, asked: TrainConfig, skeletons: dict[str, LanguageModel], rates: costs.Rates
) -> tuple[TrainConfig, corpus.Corpus | mixture.Mixture, Dial]:
    """Read the text, and return the settings that name it, the text itself and what chooses a size for it.

    Where no text is named, the time of the run decides (`choices.MOST_PASSES`), so the default one is read first.
    """
    goal, named = models.smallest_published(asked.model), choices.name_text(asked)
    text, may_add_source = read_corpus(named), choices.may_add_source(asked)
    dial = Dial(skeletons, rates, text.bytes_as_one, goal, opening.world.size, may_add_source)
    if not may_add_source or (passes := dial.passes(named)) <= choices.MOST_PASSES:
        return named, text, dial
    say(
        f"this run would read {named.data} about {format_estimate(passes)} times, so a fifth of its tokens come "
        f"from python-source; --data {named.data} reads the documentation alone"
    )
    more = choices.with_source(asked)
    text = read_corpus(more)
    return more, text, replace(dial, text_bytes=text.bytes_as_one, may_add_source=False)


def read_corpus(asked: TrainConfig) -> corpus.Corpus | mixture.Mixture:
    """Read the documents to train on and the held-out ones; raises InputError if they are too few."""
    with phase(f"reading {asked.text_name}"):
        try:
            found = mixture.load(asked.text_name, held_out=asked.held_out, progress=say)
            mixture.check_enough(found, test=asked.test)
            run_folder.check_beginnings(asked, found.split().test)
        except MemoryError:
            raise RunError(f"the memory is too small for {asked.text_name}; give a part of this text") from None
        return found


def encode(opening: Opening, text: corpus.Corpus | mixture.Mixture, skeleton: LanguageModel) -> TokenizedCorpus:
    """Load or train the tokenizer of a model, and encode the corpus."""
    asked, folder = opening.asked, opening.folder
    with phase("preparing the tokens"):
        wanted, kind = asked.vocab or skeleton.config.vocab_size, asked.tokenizer or "byte-level"
        known = folder.path if folder else None if kind in tokenizer.KINDS else kind
        if known:
            tok = tokenizer.load(known)
        else:
            tok = tokenizer.KINDS[kind](text.sample(), wanted, threads=hardware.threads())
        return TokenizedCorpus.of(text, tok, skeleton.config.vocab_size)


def read_lessons(opening: Opening, settings: RunSettings, text: TokenizedCorpus) -> Lessons:
    """Read the data to teach in place of a text, in the form that the model will chat in, or load a teacher."""
    known = opening.folder.path if opening.folder else settings.tokenizer or ""
    if settings.teacher is not None:
        return distillation_for(settings, text)
    return lessons_for(settings, tokenizer.load_chat(known, tokenizer.load(known), is_untaught=True), text)


def initial_weights(opening: Opening, model: LanguageModel, tok: Tokenizer) -> InitialWeights | None:
    """Return the weights that a run starts from, if some were named; to train adapters, freeze the model."""
    asked, folder = opening.asked, opening.folder
    if not asked.init or (folder and folder.has_checkpoint and not asked.adapter_rank):
        return None  # a checkpoint has all weights, except those under adapters
    initial = models.initial_weights_for(model, asked.init)
    if asked.adapter_rank:
        return initial.adapted(model, asked.adapter_rank, sorted(tok.specials.values()))
    if initial.grown:
        say(f"{asked.init} grows, and computes the same function as before: {initial.grown}")
    return initial


def build(prepared: Prepared, lock: FolderLock, clock: Callable[[], float], guests: Sequence[Guest] = ()) -> Run:
    """Give the model its weights, new ones or those of a checkpoint, and write the run folder."""
    plan, folder, lessons, initial = prepared
    settings, model = plan.settings, plan.model
    if lack := plan.lack_of_memory():
        raise InputError(lack)
    saved = checkpoint.load(folder.path) if folder.has_checkpoint else None
    model.initialise(settings.seed, settings.dtype)
    model.recompute_layers(settings.checkpointing)
    if initial is not None:
        initial.fill(model)
    optimizer = optimizers.optimizer_of(model, settings, plan.world)
    seconds, decay = settings.minutes and 60 * settings.minutes, read_decay(settings.decay, settings.steps)
    budget = Budget(settings.steps, seconds, decay)
    teaching = [Teaching(lessons)] if lessons else []
    run = Run(plan, folder, optimizer, budget, clock, [*teaching, *guests_of(settings, model), *guests])
    if initial is not None and initial.moments:
        # Adam's first updates of new weights are mis-scaled; warm-up hides it (growth.widen_moments).
        optimizers.load_moments(model, optimizer, initial.moments_for(model), initial.updates)
    if saved is not None:
        keeping.restore(run, saved)
        lost = "" if metrics.read(folder.path) else "; metrics.jsonl has no line, so the curve before that is gone"
        say(f"continuing after step {run.step:,}{lost}")
    folder.begin_or_continue(plan.text.tokenizer, settings, lock)
    if lessons and lessons.form and plan.world.rank == 0:
        lessons.form.save(folder.path)  # before the run can be stopped: it could not be continued without
    run.begin()
    return run


def check_tokenizer(settings: RunSettings, found: Tokenizer) -> None:
    """Raise InputError if a run would read its text with other tokens than its initial model knows."""
    try:
        own = tokenizer.load(settings.init or "")
    except TokenizerError:  # the one that was given takes its place
        return
    if any(own.decode_bytes([each]) != found.decode_bytes([each]) for each in {*own.ids} & {*found.ids}):
        raise InputError(
            f"--tokenizer {settings.tokenizer} is not the tokenizer of the model in --init {settings.init}, which "
            "knows its tokens by their numbers: leave out --tokenizer"
        )


def distillation_for(settings: RunSettings, text: TokenizedCorpus) -> Distillation:
    """Return the text with the probabilities of the teacher; raises InputError for one that has other tokens."""
    if tokenizer.load(settings.teacher or "").fingerprint() != text.tokenizer.fingerprint():
        raise InputError(
            f"--teacher {settings.teacher} has another tokenizer than the student, so its probabilities are of other "
            "tokens, and cannot be compared; take a student without --tokenizer and --init, which gets that of the "
            "teacher, or let the teacher write a text and give it as --data (docs/teaching.md)"
        )
    return Distillation(settings, text, models.load(settings.teacher or ""))


def lessons_for(settings: RunSettings, form: TaughtForm, text: TokenizedCorpus) -> Lessons:
    """Return what a trained model is taught; raises InputError for data that cannot be used."""

    @functools.cache  # one copy is enough for all who ask
    def make_reference() -> LanguageModel:
        try:
            reads = {name: value for name, value in assignments(settings.set).items() if name.startswith("rope_")}
            reference = models.load(settings.init or "", **reads)
            if settings.context > reference.config.context_length:  # this run reads further than the one before it
                reference = models.load(settings.init or "", **reads, context_length=settings.context)
            return reference
        except InputError as error:
            raise InputError(
                f"--objective {settings.objective} compares what is learned with the model in {settings.init}, as it "
                f"was before, even when a run continues: {error}"
            ) from error

    lessons = _taught(settings, form, text, make_reference)
    if not settings.replay:
        return lessons
    replayed = training_source(settings.documents, text.train, settings.context)
    return Replay(lessons, replayed, settings.context, settings.replay, make_reference())


def _taught(
    settings: RunSettings, form: TaughtForm, text: TokenizedCorpus, make_reference: Callable[[], LanguageModel]
) -> Lessons:
    """Return the data that teaches a trained model."""
    if settings.objective == "sft":
        return read_supervised(settings, form)
    if settings.objective == "dpo":
        pairs = read_preferences(settings.data, form, settings.context)
        return PreferenceLearning(settings, pairs, form, make_reference)
    task = task_for(settings)
    assert task is not None
    return RewardLearning(settings, task, form, text, make_reference)


def task_for(settings: TrainConfig) -> str | None:
    """Return the task to teach, None for a file; raises InputError for an unknown one, or if rewards need a task."""
    task = task_of(settings.data)
    if task is None and settings.objective in REWARDED:
        raise InputError(
            f"--objective {settings.objective} learns from rewards, which need a task with a checker: --data "
            f"{PREFIX}{' or '.join(TASKS)}"
        )
    return task
