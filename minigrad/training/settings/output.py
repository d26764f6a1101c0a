"""The settings of the computer and of a run's output: processes and arithmetic, its folder, and how often."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from minigrad.options import Group, option


@dataclass(frozen=True)
class ProcessSettings(Group):
    """How processes, threads and their arithmetic compute a step."""

    heading: ClassVar[str] = "processes"

    threads: int | None = option(None, "processor threads", at_least=1, at_most=256, none_means="one per core")
    pipeline: bool = option(False, "divide layers, not sequences, among the processes of mpiexec")
    precision: str = option(
        "float32",
        "floating-point type; bfloat16 rounds the factors of matrix products, and everything else is float32",
        choices=("float32", "float64", "bfloat16"),
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

    out: str | None = option(None, "run folder to write", value="DIR", none_means="runs/MODEL-SIZE")
    resume: str | None = option(
        None,
        "continue this run, by default the newest in runs/, with its settings; a larger --steps, --tokens or --minutes "
        "may be given",
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
