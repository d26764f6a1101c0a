"""Which settings of a training run exclude or need each other."""

from __future__ import annotations

from minigrad.errors import InputError
from minigrad.options import assignments, validate
from minigrad.training.settings import TrainConfig

TOKENIZERS = ("byte-level", "vidya-v1")
"""The kinds of tokenizers that can be trained on the text (`tokenizer.KINDS`)."""

_OWN_FLAGS = {"vocab_size": "--vocab", "dropout": "--dropout"}
_OWN_FLAGS |= dict.fromkeys(("end_of_text_id", "begin_of_text_id", "padding_id"), "--tokenizer")


def check_settings(settings: TrainConfig) -> None:
    """Raise InputError for a setting out of its bounds, or for settings that exclude each other."""
    validate(settings)
    limits = [f"--{name}" for name in ("minutes", "steps", "tokens") if getattr(settings, name) is not None]
    if len(limits) > 1:
        raise InputError(f"{' and '.join(limits)} both say how long to train; give one of them")
    if settings.schedule == "cosine" and not settings.resume:
        if settings.steps is None and settings.tokens is None:
            raise InputError("a cosine must know its last step: give --steps or --tokens with --schedule cosine")
        if settings.decay is not None:
            raise InputError("--decay is the end of --schedule wsd; a cosine has none")
    _check_warmup(settings)
    _check_tokenizer(settings)
    for name, flag in _OWN_FLAGS.items():
        if name in assignments(settings.set):
            raise InputError(f"--set {name}=... has a flag of its own: {flag}")
    _check_optimizer(settings)
    _check_pipeline(settings)
    _check_teaching(settings)
    _check_teacher(settings)
    if settings.adapter_rank is not None and settings.init is None and settings.resume is None:
        raise InputError("--adapter-rank trains beside the weights of a trained model: name its folder with --init")
    if settings.resume and settings.out:
        raise InputError(f"--resume {settings.resume} continues in that folder, so --out cannot be given with it")


def check_processes(settings: TrainConfig, processes: int) -> None:
    """Raise InputError for settings that one process cannot have, or that several cannot.

    Of several, each would ask the models again that make its batches.
    """
    if processes > 1 and settings.objective not in (None, "sft"):
        raise InputError(
            f"--objective {settings.objective} lets models make its batches, which one process does: start it without "
            "mpiexec"
        )
    if settings.pipeline and processes == 1 and not settings.resume:
        raise InputError("--pipeline divides the layers among several processes: start it with mpiexec -n 2 or more")


def _check_warmup(settings: TrainConfig) -> None:
    """Raise InputError for a warm-up that is not a number of steps, or a share of an unknown number."""
    warmup = settings.warmup or 0.0
    if warmup >= 1 and warmup != int(warmup):
        raise InputError(f"--warmup takes a whole number of steps, or a share of them below 1, not {warmup:g}")
    if 0 < warmup < 1 and not (settings.steps or settings.tokens or settings.resume):
        raise InputError(f"--warmup {warmup:g} is a share of the steps: give --steps or --tokens with it")


def _check_tokenizer(settings: TrainConfig) -> None:
    """Raise InputError for settings of a tokenizer to train where a tokenizer is given."""
    trains = settings.tokenizer in TOKENIZERS
    if settings.resume is not None:
        return  # the folder has the tokenizer, whichever way it came there
    flag = "--init" if settings.init else "--teacher" if settings.teacher else ""
    if trains and flag:
        raise InputError(
            f"--tokenizer {settings.tokenizer} trains a tokenizer, but {flag} brings one; give one of them"
        )
    if settings.vocab is not None and (flag or (settings.tokenizer and not trains)):
        flag = "--tokenizer" if settings.tokenizer else flag
        raise InputError(f"--vocab is for training a tokenizer, but {flag} brings one; give one of them")


def _check_pipeline(settings: TrainConfig) -> None:
    """Raise InputError for settings that read all weights in every step: a stage has the newest of its own layers."""
    if settings.pipeline and not settings.resume:
        for name in ("objective", "adapter_rank", "ema", "adaptive_context"):
            if getattr(settings, name):
                raise InputError(f"--pipeline cannot be given with --{name.replace('_', '-')}; leave out one of them")


def _check_optimizer(settings: TrainConfig) -> None:
    """Raise InputError for a setting of an optimizer that another one has not: it would change nothing."""
    if settings.resume:
        return  # the folder says which optimizer it is
    for name in ("beta1", "beta2") if settings.optimizer == "sgd" else ("momentum",):
        if getattr(settings, name) != getattr(TrainConfig, name):
            way_out = "sgd has --momentum" if settings.optimizer == "sgd" else "give --optimizer sgd with it"
            raise InputError(
                f"--{name} is no setting of --optimizer {settings.optimizer or 'muon or adamw'}; {way_out}"
            )


def _check_teaching(settings: TrainConfig) -> None:
    """Raise InputError for settings of teaching that lack what they need, or are given without an objective."""
    if not settings.is_lesson:
        for name in ("replay", "question_noise", "replay_text"):
            if getattr(settings, name) is not None:
                raise InputError(f"--{name.replace('_', '-')} is for teaching a trained model: give --objective sft")
        if settings.skip_broken:
            raise InputError("--skip-broken is for a file of conversations: give --objective sft")
    elif settings.resume is None:
        if settings.init is None:
            raise InputError(f"--objective {settings.objective} teaches a trained model: name its folder with --init")
        if settings.data in ("python-docs", "python-source", "shakespeare"):
            raise InputError(
                f"--objective {settings.objective} needs --data FILE, a file of conversations, or --data task:NAME"
            )
        if settings.data.startswith("task:") and settings.objective == "dpo":
            raise InputError("--objective dpo needs --data FILE.jsonl, pairs of a chosen and a rejected answer")
        if settings.question_noise is not None and settings.objective != "sft":
            raise InputError(
                f"--question-noise is for --objective sft; {settings.objective} reads questions as they are: leave it "
                "out"
            )
        if settings.skip_broken and (settings.objective != "sft" or settings.data.startswith("task:")):
            raise InputError("--skip-broken is for --objective sft and a file of conversations; leave it out")
        if settings.adaptive_context:
            raise InputError("--adaptive-context is for pre-training: a conversation is never cut; leave it out")


def _check_teacher(settings: TrainConfig) -> None:
    """Raise InputError for a teacher without distillation, or the other way round."""
    if settings.resume is not None:
        return
    if (settings.objective == "distill") != (settings.teacher is not None):
        missing = "--teacher DIR, the model to learn from" if settings.teacher is None else "--objective distill"
        given = f"--teacher {settings.teacher}" if settings.teacher else "--objective distill"
        raise InputError(f"{given} also needs {missing}")
    for name in ("share", "temperature", "divergence"):
        if settings.teacher is None and getattr(settings, f"teacher_{name}") != getattr(TrainConfig, f"teacher_{name}"):
            raise InputError(f"--teacher-{name} is for --objective distill, which needs a --teacher")
    if settings.teacher and settings.adaptive_context:
        raise InputError("--adaptive-context cannot be given with a --teacher, who reads whole sequences; leave it out")
