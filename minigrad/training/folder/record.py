"""minigrad.json: the settings given and chosen, and the machine and versions of the run."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from minigrad.errors import InputError
from minigrad.formats.folders import RECORD, did_you_mean
from minigrad.formats.json_files import read_json, with_null, write_json
from minigrad.formats.typed import read_dataclass, read_values
from minigrad.options import options, shown
from minigrad.system import hardware
from minigrad.training.settings import LIMITS, TrainConfig

BEST = "best"  # the folder in a run folder that holds the best model
REPORT = "report.html"
NOT_STORED = ("resume", "plan", "profile", "out")
"""Settings on which the results of a run do not depend."""


def run_of(folder: Path) -> Path | None:
    """Return the run folder that a folder is, or whose best model it holds; None if no run wrote it."""
    places = [folder, folder.resolve().parent] if folder.name == BEST else [folder]
    return next((place for place in places if (place / RECORD).is_file()), None)


@dataclass
class Record:
    """The content of minigrad.json; with its settings a run is continued and repeated."""

    family: str = ""
    size: str = ""
    data: str = ""
    seed: int = 0
    parameters: int = 0
    matmul_rate: float = 0.0  # of the machine, in FLOP/s
    text: str = ""  # a hash of the tokens trained on
    validation_text: str = ""  # a hash of the validation tokens
    test_text: str = ""  # a hash of the test documents, which are not trained on
    lessons: str = ""  # a hash of the conversations, if some are taught
    base: str = ""  # a hash of the weights that adapters leave as they are
    before: dict[str, float] = field(default_factory=dict)  # how well the model did before it was taught
    architecture: dict[str, Any] = field(default_factory=dict)  # as in config.json
    settings: dict[str, Any] = field(default_factory=dict)  # that the user gave
    chosen: dict[str, Any] = field(default_factory=dict)  # that the program chose
    versions: dict[str, str] = field(default_factory=dict)
    threads: int = 0
    hardware: str = ""
    arithmetic: str = ""  # what multiplied when the run began: "auto" can mean something else on another machine
    started: str = ""
    started_in: str = ""  # the folder in which relative paths of the settings begin
    processes: int = 1  # that trained together most recently
    stages: list[int] = field(default_factory=list)  # steps at which the run had ended before it was extended
    decays: list[str] = field(default_factory=list)  # the courses of the decay before these ends, where unusual
    result: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def new(cls, asked: TrainConfig, settings: TrainConfig, **facts: Any) -> Record:
        """Return the record of a new run, with the present time, versions and hardware; `facts` are other fields.

        `asked` are the settings as given, None where none was; `settings` has the chosen values in their place.
        """
        import numba
        import numpy

        from minigrad.kernels.gemm.backend import describe_arithmetic

        record = cls(
            family=settings.model,
            size=settings.size,
            data=settings.data,
            seed=settings.seed,
            settings=stored(asked),
            versions={"python": platform.python_version(), "numpy": numpy.__version__, "numba": numba.__version__},
            threads=hardware.threads(),
            hardware=hardware.describe(),
            arithmetic=describe_arithmetic(),
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            started_in=str(Path.cwd()),
            **facts,
        )
        record.note_choices(settings)
        return record

    @classmethod
    def read(cls, folder: Path) -> Record:
        """Return the record of a run folder; raises InputError if the folder holds no run."""
        if not folder.is_dir():
            raise InputError(f"there is no run folder {folder}{did_you_mean(folder, RECORD)}")
        if not (folder / RECORD).exists():
            hint = did_you_mean(folder, RECORD)
            raise InputError(f"{folder} is not a run folder of train.py: it has no {RECORD}{hint}")
        content = read_json(folder / RECORD)
        if not isinstance(content.get("settings"), dict) or not isinstance(content.get("chosen"), dict):
            raise InputError(f"{folder / RECORD} has no settings: it was not written by train.py")
        try:
            record = read_dataclass(cls, content, ignore_unknown=True)  # a later version may write more
            declared = {each.name: each for each in options(TrainConfig) if each.name not in NOT_STORED}
            read_values(declared, record.settings)
            read_values(declared | {"decay_start": declared["steps"]}, record.chosen)
            _check_result(record.result)
        except InputError as error:
            raise InputError(f"{folder / RECORD} is damaged: {error}") from None
        # What every run did before there was a choice.
        for name, value in (("documents", "windows"), ("optimizer", "adamw"), ("precision", "float32")):
            if name not in record.used:
                record.settings[name] = value
        if record.used["optimizer"] == "sgd":  # which noted a default that it did not use
            record.settings["beta2"] = None
        return record

    @classmethod
    def known(cls, folder: Path) -> Record | None:
        """Return the record of the run that a folder belongs to (`run_of`); None if no run wrote it."""
        run = run_of(folder)
        return None if run is None else cls.read(run)

    def write(self, folder: Path) -> None:
        """Replace minigrad.json; after a kill it holds either the old record or the new one."""
        content = dataclasses.asdict(self)
        optional = ("lessons", "base", "before", "stages", "decays", "result")  # left out while empty
        written = {k: v for k, v in content.items() if k not in optional or v}
        write_json(folder / RECORD, with_null(written))

    def note_choices(self, settings: TrainConfig) -> None:
        """Store the values in `settings` that were not given."""
        values = stored(settings).items()
        self.chosen |= {name: value for name, value in values if value != self.settings.get(name)}

    def difference_in_arithmetic(self) -> str:
        """Return what to say if products here differ in their last bits from those of the run, otherwise ""."""
        from minigrad.kernels.gemm.backend import describe_arithmetic

        now = describe_arithmetic()
        if self.arithmetic in ("", now):
            return ""
        return (
            "products are rounded in another way here, so this run will not equal, bit for bit, one that never "
            f"stopped. It began with {self.arithmetic}; here it is {now}"
        )

    def place_of(self, setting: str) -> str | None:
        """Return the folder that a setting names, such as init, from here; None if it names none."""
        name = self.used.get(setting)
        there = Path(self.started_in) / name if name else None
        return str(there) if there and there.exists() else name

    @property
    def text_name(self) -> str:
        """The text of the run: trained on, or replayed while something else was taught."""
        return self.used.get("replay_text") or self.data

    @property
    def used(self) -> dict[str, Any]:
        """The settings that were given, with the chosen values where none were given."""
        return self.settings | self.chosen

    def with_limit(self, larger: Mapping[str, Any]) -> Record:
        """Return the record with the `larger` limits; the others are None, without what was chosen for the old."""
        limits = (*LIMITS, "decay")
        settings = self.settings | dict.fromkeys(limits) | dict(larger)
        chosen = {name: value for name, value in self.chosen.items() if name not in (*limits, "decay_start")}
        return dataclasses.replace(self, settings=settings, chosen=chosen)


_SAID = {"command", "no_xz", "caution"}  # the words of a result; all else are figures


def _check_result(result: Mapping[str, Any]) -> None:
    """Raise InputError unless figures are numbers and words are texts; null is what was not measured."""
    for name, value in result.items():
        if not isinstance(value, str | None if name in _SAID else int | float | None):
            raise InputError(f"its result has {name} {shown(value)}")


@dataclass(frozen=True)
class TrainResult:
    """The outcome of a run. Losses are in nats per token, `val_` figures of all validation text."""

    out: Path
    steps: int
    tokens: int
    loss: float
    val_loss: float
    val_bits_per_byte: float
    xz_bits_per_byte: float | None
    seconds: float
    command: str  # repeats the run bit for bit
    test_loss: float | None = None
    test_bits_per_byte: float | None = None


def stored(settings: TrainConfig) -> dict[str, Any]:
    """Return the settings on which the results of a run depend, as in minigrad.json."""
    return {name: value for name, value in dataclasses.asdict(settings).items() if name not in NOT_STORED}


def beginnings(**roles: str | None) -> Iterator[tuple[str, Record]]:
    """Yield the folder and the record of each model that a run begins from or learns from, directly or not.

    `roles` names the folder of each direct one, as in `init=folder, teacher=None`; other roles are not followed.
    """
    folders, seen = list(roles.values()), set[Path]()
    while folders:
        folder = folders.pop()
        # A renamed folder may have the name of the run that it began from, and so name itself.
        if folder is None or (path := Path(folder).resolve()) in seen:
            continue
        seen.add(path)
        if (record := Record.known(Path(folder))) is not None:
            yield folder, record
            folders += map(record.place_of, roles)


def was_taught_to_talk(folder: Path) -> bool | None:
    """Return whether a run, or one that it began from, taught conversations; None for a folder that no run wrote."""
    if (record := Record.known(folder)) is None:
        return None
    records = [record, *(each for _, each in beginnings(init=record.place_of("init")))]
    return any(TrainConfig(objective=each.used.get("objective")).is_lesson for each in records)
