"""The settings of the optimisation: how long a run is, the size of a step, and how the weights change in it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from minigrad.errors import InputError
from minigrad.options import Group, option

_MOST = 10**9  # larger integers are typing errors


@dataclass(frozen=True)
class LengthSettings(Group):
    """How long a run trains."""

    heading: ClassVar[str] = "how long (one of these)"

    minutes: float | None = option(
        None,
        "time for the whole run, from start to report",
        above=0,
        at_most=1_000_000,
        none_means="10, unless --steps or --tokens is given",
    )
    steps: int | None = option(
        None, "train this many steps; such a run repeats exactly", at_least=1, at_most=_MOST, none_means=""
    )
    tokens: int | None = option(
        None, "train on this many tokens, rounded up to whole steps", at_least=1, at_most=10**15, none_means=""
    )

    def check_length(self) -> None:
        """Raise InputError if the length is given twice."""
        limits = [f"--{name}" for name in ("minutes", "steps", "tokens") if getattr(self, name) is not None]
        if len(limits) > 1:
            raise InputError(f"{' and '.join(limits)} both say how long to train; give one of them")


@dataclass(frozen=True)
class OptimisationSettings(LengthSettings):
    """How the weights are trained; train.py chooses a value where one is None."""

    heading: ClassVar[str] = "optimisation"

    batch: int | None = option(
        None,
        "each process gets --batch times --context tokens in a micro-batch (--accumulate)",
        at_least=1,
        at_most=_MOST,
    )
    context: int | None = option(None, "tokens of the longest sequence", at_least=2, at_most=_MOST)
    adaptive_context: bool = option(
        False, "let the context grow, up to --context, while that helps the model, and shrink while it does not"
    )
    accumulate: int = option(1, "micro-batches of a step; their gradients are added", at_least=1, at_most=_MOST)
    lr: float | None = option(None, "peak learning rate", above=0)
    warmup: float | None = option(
        None, "steps until the peak, or below 1 their share of --steps", at_least=0, at_most=_MOST
    )
    decay: str | None = option(
        None,
        "the final decay of the learning rate: from step START on, the run was planned to have STEPS steps; a run of "
        "--minutes prints it if the speed of the computer changed",
        value="START:STEPS,...",
        none_means="the last fifth of --steps",
    )
    schedule: str = option(
        "wsd",
        "the learning rate after the warm-up: wsd stays at the peak and decays in the last fifth of the run, whose "
        "length may be chosen then; cosine falls slowly to zero, and needs --steps or --tokens",
        choices=("wsd", "cosine"),
    )
    optimizer: str | None = option(
        None,
        "muon orthogonalises the updates of the matrices within layers: it learns more in a step, and takes more time; "
        "sgd follows the gradient itself, and learns much less",
        choices=("adamw", "muon", "sgd"),
        none_means="muon if it takes less than a quarter of a step",
    )
    weight_decay: float | None = option(
        None, "decay of the weight matrices towards zero", at_least=0, none_means="0.1, or 0.0001 with sgd"
    )
    beta1: float = option(0.9, "AdamW's decay of the mean of the gradient", at_least=0, below=1)
    beta2: float = option(0.95, "AdamW's decay of the mean of its square", at_least=0, below=1)
    momentum: float = option(0.9, "SGD's decay of the velocity", at_least=0, below=1)
    ema: float | None = option(
        None,
        "evaluate, and write at the end, an exponential moving average of the weights with this decay, as in 0.999",
        at_least=0,
        below=1,
        none_means="",
    )
    dropout: float | None = option(
        None,
        "probability of setting an activation to zero, against memorising a text that is read many times",
        at_least=0,
        below=1,
        none_means="0 for new text, up to 0.3 for a large model that reads a small text often; 0 for teaching",
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
            if getattr(self, name) != getattr(OptimisationSettings, name):
                way_out = "sgd has --momentum" if self.optimizer == "sgd" else "give --optimizer sgd with it"
                raise InputError(
                    f"--{name} is not a setting of --optimizer {self.optimizer or 'muon or adamw'}; {way_out}"
                )


@dataclass(frozen=True, kw_only=True)
class ChosenOptimisation(OptimisationSettings):
    """The settings of the optimisation after every value is chosen."""

    batch: int
    context: int
    lr: float
    warmup: int
    optimizer: str
    weight_decay: float = 0.1
    dropout: float = 0.1

    @property
    def tokens_per_step(self) -> int:
        """The number of tokens in one training step."""
        return self.batch * self.context * self.accumulate
