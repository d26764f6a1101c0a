"""The plan of a run: its model and data, and estimates of its cost and duration."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from minigrad.adaptive.context import AdaptiveContext
from minigrad.data.ngram import ngram_seconds
from minigrad.data.tokens.reading import training_source
from minigrad.data.tokens.source import Source
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.data.xz import MOST_BYTES, xz_seconds
from minigrad.distributed.agreement import check_agreement
from minigrad.distributed.pipeline import check_layers, largest_stage
from minigrad.distributed.world import ALONE, World
from minigrad.errors import InputError
from minigrad.evaluate.sequences import tokens_evaluated
from minigrad.kernels.gemm import backend
from minigrad.nn.language_model import LanguageModel
from minigrad.system import blas, environment, hardware
from minigrad.system.terminal import in_lines
from minigrad.system.units import format_bytes, format_count, format_estimate, format_seconds, plural
from minigrad.training import optimizers
from minigrad.training.folder.record import stored
from minigrad.training.parallel import num_replicas
from minigrad.training.planning import costs
from minigrad.training.planning.dial import Dial
from minigrad.training.planning.text_rows import text_rows, warning_of
from minigrad.training.settings import RunSettings
from minigrad.training.teaching import Lessons

_DISK_RATE = 2e8  # bytes per second, of a slow disk
_RIVALS_SHARE = 0.15  # the part of the minutes that a comparison with xz and counting may take


@dataclass(frozen=True)
class Plan:
    """A run before it begins: a model to train on a text, with settings, on a machine of a known speed.

    `claim` is the figure of the model's source document where it differs from this model, `done` the number of steps of
    a continued run, `world` the processes that train. With `lessons`, these are trained on, and the text is that of the
    pre-training. The model may be a skeleton. `dial` chose the size.
    """

    settings: RunSettings
    model: LanguageModel
    text: TokenizedCorpus
    rates: costs.Rates
    claim: str = ""
    done: int = 0
    lessons: Lessons | None = None
    world: World = ALONE
    dial: Dial | None = None

    @functools.cached_property
    def source(self) -> Source:
        """The training data: the lessons if there are some, else the text."""
        settings = self.settings
        return self.lessons or training_source(settings.documents, self.text.train, settings.context)

    def check_text(self) -> None:
        """Raise InputError if there is too little text: windows need one to train on and one to evaluate."""
        settings, validation, context = self.settings, len(self.text.validation), self.settings.context
        self.source.attended_length()
        if settings.documents == "windows" and validation < context + 1:
            raise InputError(
                f"the validation text has {validation:,} tokens, but one window of --context {context:,} needs "
                f"{context + 1:,}: use a smaller --context, more text, or --documents packed"
            )

    def check_agreement(self, fingerprints: Mapping[str, str]) -> None:
        """Raise InputError if processes have other settings, or read something with other fingerprints.

        Their numbers of threads may differ.
        """
        if self.world.size > 1:
            facts = {f"--{name.replace('_', '-')}": value for name, value in stored(self.settings).items()}
            texts = {f"the {name.replace('_', ' ')}, by its hash": found for name, found in fingerprints.items()}
            check_agreement(self.world, texts | facts | {"--threads": None})

    def check_vocabulary(self) -> None:
        """Raise InputError if the tokenizer has more tokens than the model."""
        settings, tokens, known = self.settings, self.text.tokenizer.vocab_size, self.model.config.vocab_size
        if tokens > known:
            raise InputError(
                f"the tokenizer {settings.tokenizer} has {tokens:,} tokens, but the model in --init {settings.init} "
                f"knows {known:,}: they do not belong together"
            )

    def check_stages(self) -> None:
        """Raise InputError if the model cannot be divided into the stages of a pipeline."""
        if self.in_stages:
            check_layers(self.model, self.settings.model, self.world.size)

    def check_memory(self) -> None:
        """Raise InputError if training needs more memory than this machine can give to each process on it."""
        needed, available = self.memory(), hardware.available_memory_bytes() // self.world.sharing
        if available and needed.total > available:
            raise InputError(
                f"training {self.model.num_parameters():,} parameters needs about {format_bytes(needed.total)} "
                f"({format_bytes(needed.state)} of weights, gradients and moments); {format_bytes(available)} are "
                "free. Take a smaller --size, --batch or --context, or more --accumulate."
            )

    def memory(self) -> costs.Memory:
        """Estimate the memory of training, of each process."""
        settings = self.settings
        needed = costs.memory(
            self.model,
            self.own_batch * (settings.accumulate if self.in_stages else 1),
            settings.context,
            itemsize=settings.itemsize,
            recomputed=settings.checkpointing,
            replicas=self.num_replicas,
            processes=1 if self.in_stages else self.world.size,
        )
        if self.in_stages:
            parameters, own = self.model.num_parameters(), largest_stage(self.model, self.world.size)
            needed = needed.for_stage(settings.itemsize * (parameters - own))
        text = costs.of_text(self.text.train.num_bytes, with_xz=not self.too_long_for_rivals())
        kept = optimizers.bytes_kept(self.model, settings, self.world)
        needed = replace(needed.with_optimizer(*kept), program=needed.program + text)
        is_shared = settings.adapter_rank is not None and settings.teacher is None
        return (
            needed.with_teacher(self.teacher, settings.batch * settings.context, is_shared) if self.teacher else needed
        )

    @property
    def own_batch(self) -> int:
        """The batch of this process: its share of the sequences of a step, or of a part of one."""
        return -(-self.settings.batch // self.world.size)

    @property
    def num_replicas(self) -> int:
        """The replicas of the model in each process."""
        return 1 if self.in_stages else num_replicas(self.model, self.own_batch, self.settings.context)

    @property
    def in_stages(self) -> bool:
        """Whether each process has some of the layers, and not some of the sequences."""
        return self.settings.pipeline and self.world.size > 1

    def adaptive_context(self) -> AdaptiveContext | None:
        """Return the context with which training begins: a quarter of the largest; None if it does not adapt."""
        return AdaptiveContext.up_to(self.settings.context, begin=0.25) if self.settings.adaptive_context else None

    def flops_per_token(self, context: float = math.inf) -> float:
        """Return the FLOPs of training per token, of sequences that are cut every `context` tokens."""
        return costs.flops_per_token(self.model, min(self.source.attended_length(), context))

    @property
    def teacher(self) -> LanguageModel | None:
        """The frozen model that reads every batch too, if there is one."""
        return self.lessons.teacher if self.lessons else None

    def tokens_per_second(self) -> float:
        """Estimate the speed of training; a teacher reads each token, which takes a third of a training step of it."""
        settings, length = self.settings, self.source.attended_length()
        update = optimizers.flops_per_token(settings.optimizer, self.model, settings.tokens_per_step)
        seconds = 1 / costs.tokens_per_second(self.model, length, self.rates, update)
        if self.teacher is not None:
            seconds += 1 / (3 * costs.tokens_per_second(self.teacher, length, self.rates))
        return 1 / seconds

    @functools.cached_property
    def evaluated_tokens(self) -> int:
        """The number of tokens that are read to evaluate all validation text."""
        return tokens_evaluated(self.settings.documents, self.text.validation, self.settings.context)

    @functools.cached_property
    def tokens_at_end(self) -> int:
        """The same with the test text, if the run asks for it."""
        way = self.settings
        return self.evaluated_tokens + (tokens_evaluated(way.documents, self.text.test, way.context) if way.test else 0)

    def too_long_for_rivals(self) -> str:
        """Return why a run of so few minutes is not compared with xz and counting, or "" if there is time for it.

        The decision depends on the text and the minutes alone, not on the measured speed of this run.
        """
        minutes, needed = self.settings.minutes, self._rivals_seconds()
        if minutes is None or needed <= _RIVALS_SHARE * 60 * minutes:
            return ""
        return f"it would have taken about {format_seconds(needed)} of the {format_seconds(60 * minutes)}"

    def _rivals_seconds(self) -> float:
        train, validation = self.text.train.num_bytes, self.text.validation.num_bytes
        return xz_seconds(train, validation) + ngram_seconds(min(train, MOST_BYTES), validation)

    @functools.cached_property
    def seconds_to_write(self) -> float:
        """An estimate of the seconds in which the last checkpoint is written, for which the run waits."""
        return self.memory().snapshot / _DISK_RATE

    def seconds_after(self) -> float:
        """Estimate the seconds after the last step: evaluation, test, rivals, a sample and the report.

        A token that is evaluated costs a third of one in a training step.
        """
        rivals = 0.0 if self.too_long_for_rivals() else self._rivals_seconds()
        return self.tokens_at_end / (3 * self.tokens_per_second()) + rivals + 4.0

    def describe(self, folder: Path) -> str:
        """Return the plan as two columns: the model, its text, the cost, the length of the run, and its folder."""
        rows = self._model_rows() | self._budget_rows() | {"run folder": str(folder)}
        width = max(map(len, rows))  # a row without a value is left out
        return "\n".join(in_lines(f"  {name:<{width}}  ", value) for name, value in rows.items() if value)

    def _model_rows(self) -> dict[str, str]:
        settings, model = self.settings, self.model
        tokens = None if self.lessons else self.done * settings.tokens_per_step + self._tokens_to_come()
        return {
            "model": f"{settings.model} {settings.size}: {model.num_parameters():,} parameters, "
            f"{model.config.num_layers} layers of width {model.config.width}{costs.in_each_token(model)}",
            **self._adapter_row(),
            "claimed": self.claim,
            **({"lessons": self.lessons.summary()} if self.lessons else {}),
            **text_rows(self.text, model.config.vocab_size, tokens),
            "step": self._step() + f", peak learning rate {settings.lr:g} after {plural(settings.warmup, 'step')}, "
            f"updates by {optimizers.NAMES[settings.optimizer]}, dropout {settings.dropout:g}",
            **self._context_row(),
        }

    def _adapter_row(self) -> dict[str, str]:
        rank, parameters = self.settings.adapter_rank, self.model.parameters()
        if rank is None:
            return {}
        trained = sum(math.prod(each.shape) for each in parameters if each.requires_grad)
        return {"adapters": f"of rank {rank}: {trained:,} of the parameters are trained, the others are frozen"}

    def _context_row(self) -> dict[str, str]:
        """Return the bounds of a context that adapts; a step has as many tokens in any, and takes no more memory."""
        if (context := self.adaptive_context()) is None:
            return {}
        bounds = f"adapts between {context.smallest:,} and {context.largest:,} tokens, from {context.current:,} on"
        return {"context": f"{bounds}; memory and speed are those of the largest"}

    def _step(self) -> str:
        """Return what a step reads: its tokens, and how many documents and pieces of documents these are on average."""
        settings = self.settings
        tokens = f"{settings.batch} x {settings.context} tokens"
        if settings.accumulate > 1:
            tokens += f" x {settings.accumulate} parts"
        return tokens + self.source.describe(settings.batch * settings.accumulate)

    def _budget_rows(self) -> dict[str, str]:
        memory = self.memory()
        products = f"matrix products at {self.rates.products / 1e9:,.0f} GFLOP/s ({backend.describe()})"
        if hardware.threads() > 1 and not blas.can_use_one_thread():
            products += ", no replicas because the threads of NumPy's BLAS cannot be set"
        return {
            "memory": f"about {format_bytes(memory.total)}: {format_bytes(memory.state)} for weights, "
            f"gradients and what {optimizers.NAMES[self.settings.optimizer]} keeps, {format_bytes(memory.activations)} "
            f"for activations, {format_bytes(memory.snapshot)} to save from while training goes on, "
            f"{format_bytes(memory.program)} for Python, its libraries and the text; about "
            f"{format_bytes(costs.COMPILING)} more while kernels are compiled, once on a machine",
            "machine": f"{hardware.describe()}; {products}",
            "variables": environment.other_processor(),
            "processes": self._processes(),
            "speed": f"about {format_estimate(self.tokens_per_second())} tokens/s, "
            f"at {self.flops_per_token() / 1e6:,.1f} MFLOP per token",
            "length": self._length(),
            **(self.dial.rows(self.settings) if self.dial else {}),
        }

    def _tokens_to_come(self) -> float:
        """Estimate the number of tokens of the steps that are still to be taken."""
        settings = self.settings
        if settings.steps:
            return max(settings.steps - self.done, 0) * settings.tokens_per_step
        return max(60 * (settings.minutes or 0.0) - self.seconds_after(), 0.0) * self.tokens_per_second()

    def _processes(self) -> str:
        """Return how several processes divide the work."""
        if (size := self.world.size) == 1:
            return ""
        shared = "the layers" if self.in_stages else "the sequences of a step and its update"
        return f"{size}, which share {shared}; speed and matrix products are those of all, memory is that of each"

    def _length(self) -> str:
        """Return how long the run is in steps or in time, in tokens, and in passes over the text."""
        steps, speed, after = self.settings.steps, self.tokens_per_second(), self.seconds_after()
        if steps and self.done >= steps:
            return f"all {plural(steps, 'step')} are done; a larger --steps, --tokens or --minutes continues this run"
        tokens = self._tokens_to_come()
        each = max(self.source.tokens_per_pass(self.settings.batch * self.settings.accumulate), 1)
        passes = f"{tokens / each:.1f} passes over the {'lessons' if self.settings.is_lesson else 'text'}"
        warning = "" if self.settings.is_lesson else warning_of(tokens / each)
        if not steps:
            in_all = f"{format_seconds(60 * (self.settings.minutes or 0.0))} in all"
            return f"{in_all}; in that time about {format_estimate(tokens)} tokens, {passes}{warning}"
        done = f" ({self.done:,} are done)" if self.done else ""
        in_all = f"in about {format_seconds(tokens / speed + after)}"
        return f"{plural(steps, 'step')}{done}: {format_count(tokens)} tokens, {passes}, {in_all}{warning}"
