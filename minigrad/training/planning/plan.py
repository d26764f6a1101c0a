"""The plan of a run: its model and data, and estimates of its cost and duration."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from minigrad.data.tokens.reading import spans, training_source
from minigrad.data.tokens.source import Source
from minigrad.data.tokens.token_files import TokenFile
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.distributed.pipeline import check_layers
from minigrad.distributed.world import ALONE, World
from minigrad.errors import InputError
from minigrad.evaluate.losses import tokens_read
from minigrad.evaluate.rivals import MOST_BYTES, ngram_seconds, xz_seconds
from minigrad.nn.language_model import LanguageModel
from minigrad.system import hardware
from minigrad.system.units import format_bytes, format_seconds
from minigrad.training import optimizers
from minigrad.training.parallel import divides_layers, replicas_of
from minigrad.training.planning import costs
from minigrad.training.planning.dial import Dial
from minigrad.training.settings import RunSettings

_DISK_RATE = 2e8  # bytes per second, of a slow disk
_RIVALS_SHARE = 0.15  # the part of the minutes that a comparison with xz and counting may take


class Taught(Source, Protocol):
    """Batches in place of those of the text, or with what a teacher says of them."""

    read_by_teacher: float = 0.0  # the share of the tokens that the teacher reads
    learns_text: bool = False  # otherwise the loss on the text shows what is forgotten, not what is learned

    @property
    def teacher(self) -> LanguageModel | None:
        """A frozen model that reads batches too, if there is one."""
        return None

    def summary(self) -> str:
        """Describe the lessons, in words."""


@dataclass(frozen=True)
class Plan:
    """A run before it begins: a model to train on a text, with settings, on a machine of a known speed."""

    settings: RunSettings
    model: LanguageModel  # may be a skeleton
    text: TokenizedCorpus
    rates: costs.Rates
    claim: str = ""  # the figure of the model's source document where it differs from this model
    done: int = 0  # steps of a continued run,
    used: float = 0.0  # and its seconds so far
    lessons: Taught | None = None
    world: World = ALONE
    dial: Dial | None = None  # that chose the size
    rows: Mapping[str, str] = field(default_factory=dict)  # added to the description
    departures: Mapping[str, Any] = field(default_factory=dict)  # from what its size and --set give today
    caution: str = ""  # about the validation text: a model may have been trained on it

    @property
    def teacher(self) -> LanguageModel | None:
        """The frozen model of the lessons, if there is one."""
        return self.lessons.teacher if self.lessons else None

    @property
    def learns_text(self) -> bool:
        """Whether the run learns the text on which it is evaluated."""
        return self.lessons is None or self.lessons.learns_text

    @functools.cached_property
    def source(self) -> Source:
        """What is trained on."""
        settings = self.settings
        return self.lessons or training_source(settings.documents, self.text.train, settings.context)

    def check(self) -> None:
        """Raise InputError if tokenizer, text and model do not fit each other, or the processes."""
        settings, tokens, known = self.settings, self.text.tokenizer.vocab_size, self.model.config.vocab_size
        if tokens > known:
            raise InputError(
                f"the tokenizer {settings.tokenizer} has {tokens:,} tokens, but the model in --init {settings.init} "
                f"knows {known:,}: they do not belong together"
            )
        if (teacher := self.teacher) is not None and (taught := teacher.config.vocab_size) != known:
            raise InputError(
                f"the model in {settings.teacher or settings.init} knows {taught:,} tokens and the student {known:,}, "
                "so their probabilities cannot be compared: name a student that knows as many with --init"
            )
        _ = self.source  # raises InputError for a text that is too short
        if divides_layers(settings, self.world):
            check_layers(self.model, settings.model, self.world.size)

    def lack_of_memory(self) -> str:
        """Return why training is refused if it needs more memory than each process on this machine can get, or ""."""
        needed, available = self.memory(), hardware.available_memory_bytes() // self.world.sharing
        if not available or needed.total <= available:
            return ""
        return (
            f"training {self.model.num_parameters():,} parameters needs about {format_bytes(needed.total)} "
            f"({format_bytes(needed.state)} of weights, gradients and moments); {format_bytes(available)} are "
            "free. End other programs, or begin a run with a smaller --size or --context, a smaller --batch "
            "(--accumulate makes up for it), or --checkpointing."
        )

    def memory(self) -> costs.Memory:
        """Estimate the memory of training, of each process."""
        needed = costs.memory_of_run(self.settings, self.model, self.world, self.teacher)
        learned, evaluated = self.text.train.num_bytes, self.text.validation.num_bytes
        xz = 0 if self.too_long_for_rivals() else costs.of_xz(learned, evaluated)
        return replace(needed, program=needed.program + costs.of_text(learned), xz=xz)

    def flops_per_token(self, context: float = math.inf) -> float:
        """Return the FLOPs of training per token, of sequences that are cut every `context` tokens."""
        return costs.flops_per_token(self.model, min(self.source.attended_length(), context))

    def tokens_per_second(self) -> float:
        """Estimate the speed of training; a teacher only reads, which takes a third of the time of training it.

        In each of several processes it reads the text of all.
        """
        settings, length = self.settings, self.source.attended_length()
        update = optimizers.update_flops_per_token(settings.optimizer, self.model, settings.tokens_per_step)
        replicas = replicas_of(settings, self.model, self.world)
        seconds = 1 / costs.tokens_per_second(self.model, length, self.rates, update, replicas)
        if self.lessons and (teacher := self.teacher):
            read = self.lessons.read_by_teacher * self.world.size
            seconds += read / (3 * costs.tokens_per_second(teacher, length, self.rates))
        return 1 / seconds

    @functools.cached_property
    def evaluated_tokens(self) -> int:
        """The number of tokens that are read to evaluate all validation text."""
        return self._tokens_of(self.text.validation)

    @functools.cached_property
    def tokens_at_end(self) -> int:
        """The number of tokens that are read after the last step: the validation text, and the test text if wanted."""
        return self.evaluated_tokens + (self._tokens_of(self.text.test) if self.settings.test else 0)

    def _tokens_of(self, text: TokenFile) -> int:
        context = self.settings.context
        return tokens_read(spans(self.settings.documents, text, context), context=context)

    def too_long_for_rivals(self) -> str:
        """Return why a run of so few minutes is not compared with xz and counting; "" if there is time for it."""
        minutes, needed = self.settings.minutes, self._rivals_seconds()
        if minutes is None or needed <= _RIVALS_SHARE * 60 * minutes:
            return ""
        return f"it would have taken about {format_seconds(needed)} of the {format_seconds(60 * minutes)}"

    def seconds_for_rivals(self) -> float:
        """Estimate the seconds for xz and counting after the last step, 0 if there is no time for them."""
        return 0.0 if self.too_long_for_rivals() else self._rivals_seconds()

    def _rivals_seconds(self) -> float:
        train, validation = self.text.train.num_bytes, self.text.validation.num_bytes
        return xz_seconds(train, validation) + ngram_seconds(min(train, MOST_BYTES), validation)

    @functools.cached_property
    def seconds_to_write(self) -> float:
        """An estimate of the seconds in which the last checkpoint is written, for which the run waits."""
        return self.memory().snapshot / _DISK_RATE

    def seconds_after(self) -> float:
        """Estimate the seconds after the last step: evaluation, test, rivals, a sample and the report."""
        # A token that is evaluated costs a third of one in a training step.
        return self.tokens_at_end / (3 * self.tokens_per_second()) + self.seconds_for_rivals() + 4.0

    def tokens_before(self, step: int) -> int:
        """Return the number of tokens that the steps before `step` read."""
        size = self.settings.batch * self.settings.accumulate
        return self.source.tokens_before(step, seed=self.settings.seed, batch_size=size)

    def tokens_to_come(self) -> float:
        """Return how many tokens the remaining steps will read; those of a run of minutes are estimated."""
        settings = self.settings
        if settings.steps:
            return max(self.tokens_before(settings.steps) - self.tokens_before(self.done), 0)
        left = 60 * (settings.minutes or 0.0) - self.used - self.seconds_after()
        return max(left, 0.0) * self.tokens_per_second()
