"""All settings of a training run, and the checks between groups."""

from __future__ import annotations

from dataclasses import dataclass

from minigrad.errors import InputError
from minigrad.options import validate
from minigrad.training.settings.data import DataSettings
from minigrad.training.settings.model import ModelSettings
from minigrad.training.settings.optimisation import ChosenOptimisation, OptimisationSettings
from minigrad.training.settings.output import ChosenOutput, OutputSettings, ProcessSettings
from minigrad.training.settings.teaching import AdapterSettings, TeachingSettings

ALIASES = {
    "learning_rate": "lr",
    "batch_size": "batch",
    "context_length": "context",
    "block_size": "context",
    "iters": "steps",
    "max_steps": "steps",
    "epochs": "minutes",
    "dataset": "data",
    "output": "out",
    "vocab_size": "vocab",
    "gradient_accumulation": "accumulate",
    "num_threads": "threads",
    "dtype": "precision",
}
"""Other names that people type; an error message suggests the field."""


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

    def check(self) -> None:
        """Raise InputError for a value out of its bounds, or for settings that exclude each other.

        A run that is continued has the settings of its folder, which were checked when it began.
        """
        validate(self)
        self.check_length()
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
            raise InputError(
                f"--objective {self.objective} lets models make its batches, which one process does: start it without "
                "mpiexec"
            )
        if self.pipeline and processes == 1 and self.resume is None:
            raise InputError(
                "--pipeline divides the layers among several processes: start it with mpiexec -n 2 or more"
            )

    @property
    def text(self) -> str:
        """The text to read: to train on, or to replay while something else is taught."""
        return self.replay_text or self.data

    def _check_features(self) -> None:
        """Raise InputError for features that cannot work together."""
        if self.adaptive_context and self.is_lesson:
            raise InputError("--adaptive-context is for pre-training: a conversation is never cut; leave it out")
        if self.adaptive_context and self.teacher:
            raise InputError(
                "--adaptive-context cannot be given with a --teacher, who reads whole sequences; leave it out"
            )
        # A stage of a pipeline has the newest weights of its own layers only, and these read all weights in every step.
        for name in ("objective", "adapter_rank", "ema", "adaptive_context") if self.pipeline else ():
            if getattr(self, name):
                raise InputError(f"--pipeline cannot be given with --{name.replace('_', '-')}; leave out one of them")

    def _check_sources(self) -> None:
        """Raise InputError if a trained model is missing, or if two settings bring a tokenizer or the wrong data."""
        if (source := "--init" if self.init else "--teacher" if self.teacher else "") and self.trains_tokenizer:
            raise InputError(
                f"--tokenizer {self.tokenizer} trains a tokenizer, but {source} brings one; give one of them"
            )
        if source and self.vocab is not None:
            raise InputError(f"--vocab is for training a tokenizer, but {source} brings one; give one of them")
        if self.adapter_rank is not None and self.init is None:
            raise InputError("--adapter-rank trains beside the weights of a trained model: name its folder with --init")
        if not self.is_lesson:
            return
        if self.init is None:
            raise InputError(f"--objective {self.objective} teaches a trained model: name its folder with --init")
        if self.data in ("python-docs", "python-source", "shakespeare"):
            raise InputError(
                f"--objective {self.objective} needs --data FILE, a file of conversations, or --data task:NAME"
            )
        is_task = self.data.startswith("task:")
        if is_task and self.objective == "dpo":
            raise InputError("--objective dpo needs --data FILE.jsonl, pairs of a chosen and a rejected answer")
        if self.skip_broken and (self.objective != "sft" or is_task):
            raise InputError("--skip-broken is for --objective sft and a file of conversations; leave it out")


@dataclass(frozen=True, kw_only=True)
class RunSettings(ChosenOutput, ChosenOptimisation, TrainConfig):
    """The settings of a run after `minigrad.training.planning.choices` has chosen every value that was left open."""

    threads: int
