"""The settings of a training run, in groups: one field is one flag, spelled the same on the command line and in Python.

`TrainConfig` inherits all groups and checks that they fit together; a function that needs one group takes it as a type.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import ClassVar

from minigrad.constants import LARGEST_DECAY
from minigrad.errors import InputError
from minigrad.options import Group, assignments, flag_of, option, validate

_OWN_FLAGS = {"vocab_size": "--vocab", "dropout": "--dropout"}
_OWN_FLAGS |= dict.fromkeys(("end_of_text_id", "begin_of_text_id", "padding_id"), "--tokenizer")


@dataclass(frozen=True)
class ModelSettings(Group):
    """Which model is trained."""

    heading: ClassVar[str] = "model"

    model: str = option("vidya-v2", "gpt2, vidya-v1, vidya-v2, vsla or wiola", value="NAME")
    size: str = option(
        "auto", "auto (the best for the time), nano, micro, mini, small, or one of docs/designs.md", value="SIZE"
    )
    init: str | None = option(
        None, "start from the weights and the size of a run or named model", value="RUN", none_means="", filled=True
    )
    set: str | None = option(
        None,
        "change the model's config, as in rope_theta=1e6,tied_head=false",
        value="NAME=VALUE,...",
        none_means="",
        filled=True,
    )

    def check(self) -> None:
        """Raise InputError if `set` changes a field that has a flag of its own."""
        for name, flag in _OWN_FLAGS.items():
            if name in assignments(self.set):
                raise InputError(f"--set {name}=... has a flag of its own: {flag}")


TOKENIZERS = {"byte-level": 261, "vidya-v1": 259}
"""The kinds of tokenizers that can be trained on the text (`tokenizer.KINDS`): bytes and special tokens of each."""


@dataclass(frozen=True)
class DataSettings(Group):
    """What a model is trained and evaluated on."""

    heading: ClassVar[str] = "data"

    data: str = option(
        "auto",
        "python-docs, python-source, shakespeare, a file, a folder or a URL; several with their shares of the tokens, "
        "as in wiki.jsonl:0.7,books:0.3; auto: python-docs, and where a new model would read that more than 4 times, "
        "python-source for a fifth of the tokens; with --objective a file of conversations, or task:arithmetic, "
        "task:copying, task:reversing, task:brackets, task:sorting, task:facts",
        value="TEXT",
        filled=True,
    )
    held_out: str | None = option(
        None,
        "one text for validation; training leaves out the paragraphs that are in both. Of a built-in text, such as "
        "python-docs, the validation part is used, and the test part is left out too",
        value="TEXT",
        none_means="about a sixteenth of --data, chosen by hashes; less of python-docs and of large texts",
        filled=True,
    )
    test: bool = option(False, "at the end, also evaluate the test text")
    documents: str = option(
        "packed",
        "packed: whole documents, and pieces of long ones, fill a step without padding, and none continues another; "
        "windows: pieces of --context tokens, which may begin in one document and end in another",
        choices=("packed", "windows"),
    )
    tokenizer: str | None = option(
        None,
        "a tokenizer.json, its folder or the name of a model that comes with minigrad; or vidya-v1, to train that kind",
        value="PATH",
        none_means="a new one",
        filled=True,
    )
    vocab: int | None = option(
        None,
        "size of a new tokenizer: 256 bytes, 5 special tokens (3 of vidya-v1) and merged pairs",
        at_least=259,
        at_most=2**24,
        none_means="that of the size",
    )

    def check(self) -> None:
        """Raise InputError for the size of a tokenizer that is not trained here, or is too small for its kind."""
        if self.vocab is not None and self.tokenizer and not self.trains_tokenizer:
            raise InputError("--vocab is for training a tokenizer, but --tokenizer brings one; give one of them")
        if self.vocab is not None and self.vocab < (least := TOKENIZERS[self.tokenizer or "byte-level"]):
            known = f"at least {least}, for 256 bytes and {least - 256} special tokens"
            raise InputError(f"--vocab takes {known}, not {self.vocab}")

    @property
    def trains_tokenizer(self) -> bool:
        """Whether `tokenizer` names a kind to train and not a file."""
        return self.tokenizer in TOKENIZERS


MOST = 10**9  # larger integers are typing errors

LIMITS = ("steps", "tokens", "minutes")
"""The settings of `LengthSettings`; the program may choose steps for the tokens or the minutes of a run."""


@dataclass(frozen=True)
class LengthSettings(Group):
    """How long a run trains."""

    heading: ClassVar[str] = "how long (one of these)"

    minutes: float | None = option(
        None,
        "time for the whole run, from start to report, except for the questions at the end of lessons (--objective)",
        above=0,
        at_most=1_000_000,
        none_means="10, unless --steps or --tokens is given",
    )
    steps: int | None = option(None, "steps; such a run repeats exactly", at_least=1, at_most=MOST, none_means="")
    tokens: int | None = option(
        None,
        "train on this many tokens, rounded up to whole steps; a step of lessons may hold fewer",
        at_least=1,
        at_most=10**15,
        none_means="",
    )

    @property
    def larger_limit(self) -> str:
        """What continues a run of this length, in words, such as "a larger --steps or --minutes"."""
        return "a larger " + " or ".join(flag_of(name) for name in LIMITS if getattr(self, name) is not None)


@dataclass(frozen=True)
class OptimisationSettings(LengthSettings):
    """How the weights are trained; train.py chooses a value where one is None."""

    heading: ClassVar[str] = "optimisation"

    batch: int | None = option(
        None,
        "sequences of --context tokens that each process reads at a time (a micro-batch)",
        at_least=1,
        at_most=MOST,
    )
    context: int | None = option(None, "tokens of the longest sequence", at_least=2, at_most=MOST)
    adaptive_context: bool = option(
        False, "let the context grow, up to --context, while that helps the model, and shrink while it does not"
    )
    accumulate: int = option(1, "micro-batches of a step; their gradients are added", at_least=1, at_most=MOST)
    lr: float | None = option(None, "peak learning rate", above=0)
    warmup: float | None = option(None, "steps to the peak; below 1, a share of all steps", at_least=0, at_most=MOST)
    decay: str | None = option(
        None,
        "the final decay of the learning rate: from step START on, it decays as in a run of STEPS steps; further pairs "
        "say where STEPS changed. The command that repeats a run contains it",
        value="START:STEPS,...",
        none_means="the last fifth of --steps",
        filled=True,
    )
    schedule: str = option(
        "wsd",
        "the learning rate after the warm-up: wsd stays at the peak and decays in the last fifth of the run, whose "
        "length need not be chosen before that; cosine falls slowly to zero, and needs --steps or --tokens",
        choices=("wsd", "cosine"),
    )
    optimizer: str | None = option(
        None,
        "muon orthogonalises the updates of the matrices within layers: it learns more in a step, and takes more time; "
        "sgd follows the gradient itself, and learns much less",
        choices=("adamw", "muon", "sgd"),
        none_means="adamw for teaching and for adapters; otherwise muon if it takes less than a quarter of the FLOPs "
        "of a step, and adamw if it takes more",
    )
    weight_decay: float | None = option(
        None, "decay of the weight matrices towards zero", at_least=0, none_means="0.1, or 0.0001 with sgd"
    )
    beta1: float = option(0.9, "AdamW's decay of the mean of the gradient", at_least=0, at_most=LARGEST_DECAY)
    beta2: float | None = option(
        None, "AdamW's decay of the mean square", at_least=0, at_most=LARGEST_DECAY, none_means="0.95; muon: 0.99"
    )
    momentum: float = option(0.9, "SGD's decay of the velocity", at_least=0, at_most=LARGEST_DECAY)
    ema: float | None = option(
        None,
        "evaluate, sample and write, in place of the weights, their exponential moving average with this decay, as in "
        "0.999",
        at_least=0,
        below=1,
        none_means="",
    )
    dropout: float | None = option(
        None,
        "probability of setting an activation to zero, against memorising a text that is read many times",
        at_least=0,
        below=1,
        none_means="0 for teaching and for text read a few times, up to 0.3 for a large model that reads a text often",
    )
    seed: int = option(0, "seed of the initial weights, the order of the text and dropout", at_least=0)

    def check(self) -> None:
        """Raise InputError for a schedule of unknown length, or for a setting of another optimizer or schedule."""
        if self.schedule == "cosine" and self.steps is None and self.tokens is None:
            raise InputError("a cosine must know its last step: give --steps or --tokens with --schedule cosine")
        if self.schedule == "cosine" and self.decay is not None:
            raise InputError("--decay is the end of --schedule wsd; a cosine has none")
        warmup = self.warmup or 0.0
        if warmup >= 1 and warmup != int(warmup):
            raise InputError(f"--warmup takes a whole number of steps, or a share of them below 1, not {warmup:g}")
        if 0 < warmup < 1 and not (self.steps or self.tokens):
            raise InputError(f"--warmup {warmup:g} is a share of the steps: give --steps or --tokens with it")
        for name in ("beta1", "beta2") if self.optimizer == "sgd" else ("momentum",):
            if self.is_changed(name):
                way_out = "sgd has --momentum" if self.optimizer == "sgd" else "give --optimizer sgd with it"
                given = self.optimizer or "muon or adamw"
                raise InputError(f"--{name} is not a setting of --optimizer {given}; {way_out}")


@dataclass(frozen=True, kw_only=True)
class ChosenOptimisation(OptimisationSettings):
    """The settings of the optimisation after every value is chosen."""

    batch: int
    context: int
    lr: float
    warmup: int
    optimizer: str
    weight_decay: float
    dropout: float

    @property
    def tokens_per_step(self) -> int:
        """The number of tokens in one training step."""
        return self.batch * self.context * self.accumulate


REWARDED = ("reinforce", "best-of-n", "grpo")  # objectives that learn from the rewards of answers
OBJECTIVES = ("sft", *REWARDED, "dpo", "distill")


@dataclass(frozen=True)
class TeachingSettings(Group):
    """What a model is taught, and how."""

    heading: ClassVar[str] = "teaching"

    objective: str | None = option(
        None,
        "teach the model of --init: sft trains on the answers in the conversations of --data; reinforce, best-of-n and "
        "grpo let it answer the questions of a task (--data task:NAME), and reward right answers; dpo prefers chosen "
        "answers to rejected ones; distill trains on the text of --data with a --teacher",
        choices=OBJECTIVES,
        none_means="",
    )
    replay: float | None = option(
        None,
        "share of the loss, and about that of the tokens, from pre-training text, so that less is forgotten",
        at_least=0,
        below=1,
        none_means="0.75 with --objective sft, 0.25 with the other objectives, except distill",
    )
    question_noise: float | None = option(
        None,
        "share of the tokens of questions that are replaced by others, so that no single wording is learned",
        at_least=0,
        below=1,
        none_means="0.1 with --objective sft and a file of conversations",
    )
    skip_broken: bool = option(False, "leave out lessons that cannot be taught, and name them")
    replay_text: str | None = option(
        None,
        "text to replay, given like --data; its validation part shows what is forgotten",
        value="TEXT",
        none_means="the text that the run in --init was trained on, or else python-docs",
        filled=True,
    )
    teacher: str | None = option(
        None,
        "with --objective distill: a run, or a model that comes with minigrad, with the same tokenizer, whose "
        "distributions are learned",
        value="RUN",
        none_means="",
        filled=True,
    )
    teacher_share: float = option(0.5, "share of the teacher in the loss; the text has the rest", at_least=0, at_most=1)
    teacher_temperature: float = option(1.0, "above 1, unlikely tokens count more", at_least=0.01, at_most=100)
    teacher_divergence: str = option(
        "forward",
        "forward: KL(teacher, student): all that the teacher expects counts; reverse: KL(student, teacher)",
        choices=("forward", "reverse"),
    )

    def check(self) -> None:
        """Raise InputError for a setting without the objective, or the teacher, that it belongs to."""
        if not self.is_lesson:
            for name in ("replay", "question_noise", "replay_text"):
                if getattr(self, name) is not None:
                    raise InputError(f"{flag_of(name)} is for teaching a trained model: give --objective sft")
            if self.skip_broken:
                raise InputError("--skip-broken is for a file of conversations: give --objective sft")
        elif self.question_noise is not None and self.objective != "sft":
            raise InputError(
                f"--question-noise is for --objective sft; {self.objective} reads questions as they are: leave it out"
            )
        if (self.objective == "distill") != (self.teacher is not None):
            missing = "--teacher DIR, the model to learn from" if self.teacher is None else "--objective distill"
            given = f"--teacher {self.teacher}" if self.teacher else "--objective distill"
            raise InputError(f"{given} also needs {missing}")
        for name in ("teacher_share", "teacher_temperature", "teacher_divergence"):
            if self.teacher is None and self.is_changed(name):
                raise InputError(f"{flag_of(name)} is for --objective distill, which needs a --teacher")

    @property
    def is_lesson(self) -> bool:
        """Whether a trained model is taught something in place of a text."""
        return self.objective not in (None, "distill")


@dataclass(frozen=True)
class AdapterSettings(Group):
    """Whether adapters are trained in place of the weights."""

    heading: ClassVar[str] = "adapters"

    adapter_rank: int | None = option(
        None,
        "freeze the model of --init, and train low-rank adapters of its matrices; the run folder holds them alone",
        at_least=1,
        none_means="",
    )


@dataclass(frozen=True)
class ProcessSettings(Group):
    """How processes, threads and their arithmetic compute a step."""

    heading: ClassVar[str] = "processes"

    threads: int | None = option(None, "processor threads", at_least=1, at_most=256, none_means="one per core")
    pipeline: bool = option(False, "divide layers, not sequences, among the processes of mpiexec")
    precision: str = option(
        "auto",
        "floating-point type; bfloat16 rounds the factors of matrix products, and everything else is float32; auto: "
        "bfloat16 where every process has fast instructions for it, and float32 elsewhere, with --matmul blas, and "
        "where the model writes what it learns from (grpo, reinforce, best-of-n)",
        choices=("auto", "float32", "float64", "bfloat16"),
    )
    matmul: str = option(
        "auto",
        "matmul backend: NumPy's BLAS, minigrad's kernels, or the faster one; attention has its own kernels",
        choices=("auto", "blas", "numba"),
    )
    checkpointing: bool = option(
        False, "keep only the input of each layer, and recompute the rest in the backward pass, to save memory"
    )

    @property
    def dtype(self) -> str:
        """The type of the weights."""
        return "float64" if self.precision == "float64" else "float32"

    @property
    def itemsize(self) -> int:
        """The number of bytes of a weight."""
        return 8 if self.dtype == "float64" else 4


@dataclass(frozen=True)
class OutputSettings(Group):
    """What a run writes, where and how often."""

    heading: ClassVar[str] = "output"

    out: str | None = option(
        None, "run folder to write", value="DIR", none_means="runs/MODEL-SIZE, or with -2, -3, ...", filled=True
    )
    resume: str | None = option(
        None,
        "continue this run, by default the newest in runs/, with its settings; --test may be added, and, unless the "
        "learning rate is decaying, a larger --steps, --tokens or --minutes",
        value="DIR",
        bare="",
        none_means="",
    )
    log_every: int | None = option(None, "steps between lines of metrics", at_least=1)
    eval_every: int | None = option(None, "steps between evaluations on validation text", at_least=1)
    save_every: int | None = option(None, "steps between checkpoints", at_least=1)
    sample_every: int | None = option(None, "steps between samples", at_least=1)
    plan: bool = option(False, "print the plan and stop")
    profile: bool = option(False, "print the time of each operation at the end")


@dataclass(frozen=True, kw_only=True)
class ChosenOutput(OutputSettings):
    """The settings of the output after every value is chosen."""

    log_every: int
    eval_every: int
    save_every: int
    sample_every: int


@dataclass(frozen=True)
class TrainConfig(  # a dataclass takes the fields of its last base first
    OutputSettings,
    ProcessSettings,
    AdapterSettings,
    TeachingSettings,
    OptimisationSettings,
    DataSettings,
    ModelSettings,
):
    """The settings of a training run; train.py chooses a value where one is None."""

    def __post_init__(self) -> None:
        """Keep paths as text, as the record of a run stores them."""
        for name, value in list(vars(self).items()):
            if isinstance(value, os.PathLike):
                object.__setattr__(self, name, os.fspath(value))

    def check(self) -> None:
        """Raise InputError for a value out of its bounds, or for settings that exclude each other."""
        validate(self)
        limits = [flag_of(name) for name in LIMITS if getattr(self, name) is not None]
        if len(limits) > 1:
            raise InputError(f"{' and '.join(limits)} both say how long to train; give one of them")
        if self.resume is None:
            self._check_features()
            for group in (ModelSettings, DataSettings, OptimisationSettings, TeachingSettings):
                group.check(self)
            self._check_sources()
        elif self.resume and self.out:
            raise InputError(f"--resume {self.resume} continues in that folder, so --out cannot be given with it")

    def check_processes(self, processes: int) -> None:
        """Raise InputError for settings that one process, or several of them, cannot have."""
        if processes > 1 and self.objective not in (None, "sft"):  # each process would generate its own batches
            raise InputError(f"--objective {self.objective} lets models make its batches: start it without mpiexec")
        if self.pipeline and processes == 1 and self.resume is None:
            raise InputError(
                "--pipeline divides the layers among several processes: start it with mpiexec -n 2 or more"
            )

    @property
    def text_name(self) -> str:
        """The name of the text to read: to train on, or to replay while something else is taught."""
        return self.replay_text or self.data

    def _check_features(self) -> None:
        """Raise InputError for features that cannot work together."""
        if self.adaptive_context and self.is_lesson:
            raise InputError("--adaptive-context is for pre-training: a conversation is never cut; leave it out")
        if self.adaptive_context and self.teacher:
            raise InputError("--adaptive-context cannot be given with a --teacher, which reads whole sequences")
        # A stage of a pipeline has the newest weights of its own layers only, and these read all weights in every step.
        for name in ("objective", "adapter_rank", "ema", "adaptive_context") if self.pipeline else ():
            if (value := getattr(self, name)) is not None and value is not False:
                raise InputError(f"--pipeline cannot be given with {flag_of(name)}; leave out one of them")

    def _check_sources(self) -> None:
        """Raise InputError if a trained model is missing, or if two settings bring a tokenizer or the wrong data."""
        if (source := "--init" if self.init else "--teacher" if self.teacher else "") and self.trains_tokenizer:
            raise InputError(f"--tokenizer {self.tokenizer} trains a tokenizer, but {source} brings one: give one")
        if source and self.vocab is not None:
            raise InputError(f"--vocab is for training a tokenizer, but {source} brings one; give one of them")
        if self.adapter_rank is not None and self.init is None:
            raise InputError("--adapter-rank trains beside the weights of a trained model: name its folder with --init")
        if not self.is_lesson:
            if self.data.startswith("task:"):
                other = "another --objective than distill" if self.objective else "an --objective"
                raise InputError(f"--data {self.data} is for teaching: name {other}, such as reinforce or sft")
            return
        if "://" in self.data:
            raise InputError(f"--objective {self.objective} reads a file: download {self.data} first")
        if self.init is None:
            raise InputError(f"--objective {self.objective} teaches a trained model: name its folder with --init")
        is_task = self.data.startswith("task:")
        if is_task and self.objective == "dpo":
            raise InputError("--objective dpo needs --data FILE.jsonl, pairs of a chosen and a rejected answer")
        if self.skip_broken and (self.objective != "sft" or is_task):
            raise InputError("--skip-broken is for --objective sft and a file of conversations; leave it out")
        if self.question_noise and is_task:
            raise InputError("--question-noise changes the problem of a task, but not its answer: leave it out")


@dataclass(frozen=True, kw_only=True)
class RunSettings(ChosenOutput, ChosenOptimisation, TrainConfig):
    """The settings of a run after `minigrad.training.planning.choices` has chosen every value that was left open."""

    threads: int
