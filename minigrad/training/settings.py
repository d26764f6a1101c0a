"""The settings of a training run: one field is one flag, spelled the same on the command line and in Python."""

from __future__ import annotations

from dataclasses import dataclass

from minigrad.options import option

_MOST = 10**9  # larger integers are typing errors

OBJECTIVES = ("sft", "reinforce", "best-of-n", "grpo", "dpo", "distill")
"""What a model can be taught by; a model that is distilled may be a new one."""


@dataclass(frozen=True)
class TrainConfig:
    """The settings of a training run; train.py chooses a value where one is None."""

    model: str = option("vidya-v2", "gpt2, vidya-v1, vidya-v2, vsla or wiola", group="what to train", value="NAME")
    size: str = option(
        "auto",
        "auto, nano, micro, mini, small or a published size; auto is the best that the time allows",
        group="what to train",
        value="SIZE",
    )
    data: str = option(
        "python-docs",
        "python-docs, python-source, shakespeare, a file, a folder or a URL; several of them with weights, as in "
        "wiki.jsonl:0.7,books:0.3, the shares of the tokens that are read; with --objective a file of conversations, "
        "or task:arithmetic, task:copying, task:reversing, task:brackets, task:sorting, task:facts",
        group="what to train",
        value="TEXT",
    )
    held_out: str | None = option(
        None,
        "validation text, given like --data: train on all of --data but the paragraphs that are in both; of "
        "python-docs and the other texts with a name it is the validation part, and their test part is held out too",
        group="what to train",
        value="TEXT",
        none_means="a sixteenth of --data, chosen by hashes",
    )
    test: bool = option(False, "at the end, also evaluate the test text, a sixteenth of --data", group="what to train")
    init: str | None = option(
        None,
        "start from the weights in this run folder, and its size",
        group="what to train",
        value="DIR",
        none_means="",
    )
    objective: str | None = option(
        None,
        "teach the model of --init instead: sft lets it learn the answers in the conversations of --data; reinforce, "
        "best-of-n and grpo let it answer the questions of a task (--data task:NAME) and learn from which are right; "
        "dpo raises chosen answers above rejected ones; distill trains on the text of --data with a --teacher",
        group="teaching",
        choices=OBJECTIVES,
        none_means="",
    )
    replay: float | None = option(
        None,
        "share of the loss, and about that share of the tokens, that is text of the pre-training, against forgetting",
        group="teaching",
        at_least=0,
        below=1,
        none_means="0.75 with --objective sft, 0.25 with the other objectives but distill",
    )
    question_noise: float | None = option(
        None,
        "share of the tokens of questions that are replaced by others, to learn an answer and not one wording",
        group="teaching",
        at_least=0,
        below=1,
        none_means="0.1 with --objective sft and a file of conversations",
    )
    skip_broken: bool = option(False, "leave out lessons that cannot be taught, and name them", group="teaching")
    replay_text: str | None = option(
        None,
        "text that is replayed, given like --data; its validation part tells what is forgotten",
        group="teaching",
        value="TEXT",
        none_means="the text that the run in --init was trained on, or else python-docs",
    )
    teacher: str | None = option(
        None,
        "with --objective distill: a run folder with the same tokenizer, whose probabilities of tokens are learned",
        group="teaching",
        value="DIR",
        none_means="",
    )
    teacher_share: float = option(
        0.5, "share of the teacher in the loss; the rest is that of the text", group="teaching", at_least=0, at_most=1
    )
    teacher_temperature: float = option(
        1.0, "divides the logits of both; a higher one shows more of what is unlikely", group="teaching", above=0
    )
    teacher_divergence: str = option(
        "forward",
        "forward: the student must give probability to all that the teacher finds likely; reverse: to nothing else",
        group="teaching",
        choices=("forward", "reverse"),
    )
    adapter_rank: int | None = option(
        None,
        "freeze the model of --init, and train two thin matrices of this rank beside each of its matrices; the run "
        "folder holds these alone",
        group="teaching",
        at_least=1,
        none_means="",
    )
    minutes: float | None = option(
        None,
        "time for the whole run, from start to report",
        group="how long (one of these)",
        above=0,
        at_most=1_000_000,
        none_means="10, unless --steps or --tokens is given",
    )
    steps: int | None = option(
        None,
        "train this many steps; such a run repeats exactly",
        group="how long (one of these)",
        at_least=1,
        at_most=_MOST,
        none_means="",
    )
    tokens: int | None = option(
        None,
        "train on this many tokens, rounded up to whole steps",
        group="how long (one of these)",
        at_least=1,
        at_most=10**15,
        none_means="",
    )
    set: str | None = option(
        None,
        "change fields of the model's config, as in rope_theta=1e6,tied_head=false",
        group="what to train",
        value="NAME=VALUE,...",
        none_means="",
    )
    documents: str = option(
        "packed",
        "packed: no text continues another; whole documents, and pieces of long ones, fill a step without padding. "
        "windows: pieces of --context tokens, which may begin in one document and end in another",
        group="text",
        choices=("packed", "windows"),
    )
    batch: int | None = option(
        None,
        "a step, or each part of a step (--accumulate), has --batch times --context tokens; of several processes "
        "(mpiexec) each has so many",
        group="how",
        at_least=1,
        at_most=_MOST,
    )
    context: int | None = option(None, "tokens of the longest sequence", group="how", at_least=2, at_most=_MOST)
    adaptive_context: bool = option(
        False,
        "let the context grow while a longer one tells the model more, and shrink while it tells nothing, up to "
        "--context; a step has the same tokens",
        group="how",
    )
    accumulate: int = option(
        1,
        "parts of a step, each of about --batch times --context tokens, whose gradients are added up",
        group="how",
        at_least=1,
        at_most=_MOST,
    )
    pipeline: bool = option(False, "divide layers, not sequences, among the processes of mpiexec", group="how")
    lr: float | None = option(None, "peak learning rate", group="how", above=0)
    warmup: float | None = option(
        None, "steps until the peak, or below 1 their share of --steps", group="how", at_least=0, at_most=_MOST
    )
    decay: str | None = option(
        None,
        "course of the final decay of the learning rate: each START is a step, and STEPS the length of the run as it "
        "was planned from there on; a run of --minutes prints it if the speed of the computer changed",
        group="how",
        value="START:STEPS,...",
        none_means="the last fifth of --steps",
    )
    schedule: str = option(
        "wsd",
        "course of the learning rate after the warm-up: wsd stays at the peak and decays in the last fifth of the run, "
        "whose length may be chosen then; cosine falls slowly to zero, and needs --steps or --tokens",
        group="how",
        choices=("wsd", "cosine"),
    )
    optimizer: str | None = option(
        None,
        "what makes the updates; with muon those of the matrices within layers are orthogonalised, which learns more "
        "in a step and takes more time; sgd follows the gradient itself, and learns much less",
        group="how",
        choices=("adamw", "muon", "sgd"),
        none_means="muon if it takes less than a quarter of a step",
    )
    weight_decay: float | None = option(
        None, "decay of the weight matrices towards zero", group="how", at_least=0, none_means="0.1, or 0.0001 with sgd"
    )
    beta1: float = option(0.9, "AdamW's share of the old mean of the gradient", group="how", at_least=0, below=1)
    beta2: float = option(0.95, "AdamW's share of the old mean of its square", group="how", at_least=0, below=1)
    momentum: float = option(0.9, "SGD's share of the old velocity", group="how", at_least=0, below=1)
    ema: float | None = option(
        None,
        "evaluate, and write in the end, a mean of the weights that keeps this share of itself in a step, as in 0.999",
        group="how",
        at_least=0,
        below=1,
        none_means="",
    )
    dropout: float | None = option(
        None,
        "probability of setting an activation to zero in training, against memorising a text that is read many times",
        group="how",
        at_least=0,
        below=1,
        none_means="0 for new text, up to 0.3 for a large model that reads a small text often; 0 for teaching",
    )
    seed: int = option(0, "seed of the initial weights, the order of the text and dropout", group="how", at_least=0)
    threads: int | None = option(
        None, "processor threads", group="how", at_least=1, at_most=256, none_means="one per core"
    )
    precision: str = option(
        "float32",
        "floating-point type; with bfloat16 the factors of matrix products are rounded, everything else is float32",
        group="how",
        choices=("float32", "float64", "bfloat16"),
    )
    matmul: str = option(
        "auto",
        "matmul backend: NumPy's BLAS, minigrad's own kernels, or whichever is faster; attention has its own kernels",
        group="how",
        choices=("auto", "blas", "numba"),
    )
    checkpointing: bool = option(
        False,
        "keep only the input of each layer and compute the rest again in the backward pass, to save memory",
        group="how",
    )
    tokenizer: str | None = option(
        None, "use this tokenizer.json, or train a vidya-v1", group="text", value="PATH", none_means="a new one"
    )
    vocab: int | None = option(
        None,
        "number of tokens to train: 256 bytes, 5 special tokens (3 of vidya-v1), and pairs",
        group="text",
        at_least=261,
        at_most=2**24,
        none_means="that of the size",
    )
    out: str | None = option(None, "run folder to write", group="files", value="DIR", none_means="runs/MODEL-SIZE")
    resume: str | None = option(
        None,
        "continue this run, by default the newest in runs/, with its own settings; only a larger --steps, --tokens "
        "or --minutes may be given with it",
        group="files",
        value="DIR",
        bare="",
        none_means="",
    )
    log_every: int | None = option(None, "steps between lines of metrics", group="how often", at_least=1)
    eval_every: int | None = option(None, "steps between evaluations on validation text", group="how often", at_least=1)
    save_every: int | None = option(None, "steps between checkpoints", group="how often", at_least=1)
    sample_every: int | None = option(None, "steps between samples", group="how often", at_least=1)
    plan: bool = option(False, "print the plan and stop", group="other")
    profile: bool = option(False, "print the time of each operation at the end", group="other")

    @property
    def is_lesson(self) -> bool:
        """Whether a trained model is taught something in place of a text."""
        return self.objective not in (None, "distill")

    @property
    def text(self) -> str:
        """The text to read: what is trained on, or what is replayed while something else is taught."""
        return self.replay_text or self.data


@dataclass(frozen=True, kw_only=True)
class RunSettings(TrainConfig):
    """The settings of a run after `minigrad.training.planning.choices` has chosen every value that was left open."""

    batch: int
    context: int
    lr: float
    warmup: int
    optimizer: str
    weight_decay: float = 0.1
    dropout: float = 0.1
    threads: int
    log_every: int
    eval_every: int
    save_every: int
    sample_every: int

    @property
    def tokens_per_step(self) -> int:
        """The number of tokens in one training step."""
        return self.batch * self.context * self.accumulate
