"""minigrad.json: what a run was asked for, what was chosen on top of it, and the machine and versions it ran with."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from minigrad.errors import InputError
from minigrad.formats.json_files import read_json, write_json
from minigrad.system import hardware
from minigrad.training.settings import TrainConfig

FILE = "minigrad.json"
NOT_STORED = ("resume", "plan", "profile", "out")
"""Settings that do not decide what a run computes."""


@dataclass
class Record:
    """The content of minigrad.json.

    `settings` are those asked for and `chosen` those that the program decided, kept apart so that a run can be
    continued, and repeated, with the values it had.
    """

    family: str = ""
    size: str = ""
    data: str = ""
    seed: int = 0
    parameters: int = 0
    matmul_rate: float = 0.0  # of the machine, in FLOP/s
    text: str = ""  # a hash of the tokens trained on
    architecture: dict[str, Any] = field(default_factory=dict)  # as in config.json
    settings: dict[str, Any] = field(default_factory=dict)
    chosen: dict[str, Any] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    threads: int = 0
    hardware: str = ""
    started: str = ""
    stages: list[int] = field(default_factory=list)  # steps at which the run had ended before it was extended
    result: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def new(cls, asked: TrainConfig, settings: TrainConfig, **facts: Any) -> Record:
        """Return the record of a new run."""
        import numba
        import numpy

        record = cls(
            family=settings.model,
            size=settings.size,
            data=settings.data,
            seed=settings.seed,
            settings=stored(asked),
            versions={"python": platform.python_version(), "numpy": numpy.__version__, "numba": numba.__version__},
            threads=hardware.threads(),
            hardware=hardware.describe(),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            **facts,
        )
        record.note_choices(settings)
        return record

    @classmethod
    def read(cls, folder: Path) -> Record:
        """Return the record of a run folder; raises InputError if the folder holds no run."""
        if not folder.is_dir():
            raise InputError(f"there is no run folder {folder}")
        if not (folder / FILE).exists():
            raise InputError(f"{folder} is no run folder of train.py: it has no {FILE}")
        content = read_json(folder / FILE)
        if not isinstance(content.get("settings"), dict) or not isinstance(content.get("chosen"), dict):
            raise InputError(f"{folder / FILE} has no settings: it was not written by train.py")
        known = {each.name for each in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in content.items() if name in known})

    def write(self, folder: Path) -> None:
        """Replace minigrad.json, wholly or not at all."""
        content = dataclasses.asdict(self)
        optional = ("stages", "result")  # no key before there is something to say
        write_json(folder / FILE, {k: v for k, v in content.items() if k not in optional or v})

    def note_choices(self, settings: TrainConfig) -> None:
        """Remember what `settings` have that was not asked for."""
        values = stored(settings).items()
        self.chosen |= {name: value for name, value in values if value != self.settings.get(name)}

    @property
    def used(self) -> dict[str, Any]:
        """The settings that were asked for, with those chosen in their place."""
        return self.settings | self.chosen

    def with_limit(self, larger: Mapping[str, Any], limits: tuple[str, ...], stages: list[int]) -> Record:
        """Return the record of the run with a larger limit, which replaces the old one and the steps it had led to."""
        settings = self.settings | dict.fromkeys(limits) | dict(larger)
        chosen = {name: value for name, value in self.chosen.items() if name not in ("steps", "decay_start")}
        return dataclasses.replace(self, settings=settings, chosen=chosen, stages=stages)


def stored(settings: TrainConfig) -> dict[str, Any]:
    """Return the settings that decide what a run computes, as minigrad.json holds them."""
    values = dataclasses.asdict(settings)
    return {name: value for name, value in values.items() if name not in NOT_STORED}
