"""A study: a question, the arms that are compared, and how they are trained and judged, in a TOML file.

The file is written, and committed, before the first run. Then nobody can choose the arms, the margin or the number of
seeds by the results. `docs/judging.md` explains the entries, and `benchmarks/evaluation/studies` has examples.
"""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
import tomllib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.formats.typed import read_dataclass
from minigrad.options import flag_of, unknown
from minigrad.training.settings import TrainConfig

ROOT = Path(__file__).resolve().parent.parent.parent
TUNED_FROM = 1_000
"""The first seed of the runs that choose a learning rate; the runs that are compared have other seeds."""

_SEEDS_OF_A_ROUND, _MOST_SEEDS = 100, 1_000
_OWN = ("data", "out", "resume", "seed", "steps", "tokens", "minutes", "threads", "test", "plan", "profile")
_OWN += ("sample_every",)
_OWN_ENTRIES = {"seed": "seeds", "data": "corpora", "minutes": "seconds", "steps": "tokens", "tokens": "tokens"}


@dataclass(frozen=True)
class Arm:
    """One of the things that are compared: flags of train.py and, where these are not enough, a class of models."""

    name: str
    flags: str = ""
    model: str = ""  # FILE.py:CLASS, from the folder of the study: takes the place of the class of the family
    attributes: dict[str, Any] = field(default_factory=dict)  # of that class, for this arm
    seeds: int = 0  # 0: as many as the study says
    rates: list[float] = field(default_factory=list)  # learning rates to choose from, where not those of the study
    leaks: bool = False  # a positive control, which sees later tokens on purpose
    unequal_parameters: str = ""  # why its number of parameters may differ from the control's
    own_order: str = ""  # why it reads the text in another order, or in other pieces


@dataclass(frozen=True)
class Tuning:
    """The runs that choose the learning rate of each arm."""

    rates: list[float]
    tokens: int
    seeds: int = 2


@dataclass(frozen=True)
class Round:
    """A round of a search (benchmarks/search.py): how long its runs are, and how many arms the next round has."""

    seeds: int
    tokens: int = 0
    seconds: int = 0  # of processor time; either this or tokens
    keep: int = 0  # arms beside the control


@dataclass(frozen=True)
class Job:
    """One run: its arm, its seed, and what the arm is trained on, how long, and how fast."""

    arm: str
    seed: int
    corpus: str
    kind: str  # of the budget: tokens, or seconds of processor time
    amount: int
    rate: float | None  # None: that of the flags, or the one that train.py chooses
    tunes: bool = False

    @property
    def place(self) -> Path:
        """The folder of the run in the folder of the study."""
        rate = "" if self.rate is None else f"-lr-{self.rate:g}"
        corpus = f"{_slug(self.corpus)}-{hashlib.blake2b(self.corpus.encode(), digest_size=2).hexdigest()}"
        kind = f"{'tuning-' if self.tunes else ''}{self.amount}-{self.kind}{rate}"
        return Path(_slug(self.arm), corpus, kind, f"seed-{self.seed}")


class Comparison(NamedTuple):
    """Runs that are comparable: of one text and one length."""

    corpus: str
    kind: str
    amount: int

    def has(self, job: Job) -> bool:
        """Whether a run is one of these."""
        return (job.corpus, job.kind, job.amount) == tuple(self) and not job.tunes


@dataclass(frozen=True)
class Study:
    """What is asked, and how it is answered."""

    question: str
    control: str  # the arm that all others are compared with
    arm: list[Arm]
    margin: float  # in bits per byte: a difference within it is taken for none
    hours: float  # of one processor core, as estimated before
    seeds: int = 4
    first_seed: int = 0
    flags: str = ""  # of every arm
    corpora: list[str] = field(default_factory=lambda: ["python-docs"])
    tokens: list[int] = field(default_factory=list)  # lengths of the runs in tokens,
    seconds: list[int] = field(default_factory=list)  # and in seconds of processor time
    judged: list[int] = field(default_factory=lambda: [256])  # lengths of the sequences on which a model is judged
    parameters_within: float = 0.01  # of those of the control
    tuning: Tuning | None = None  # a study that gives no lengths beside it only chooses learning rates
    round: list[Round] = field(default_factory=list)  # of a search, in the place of lengths and seeds
    path: Path = Path()

    @classmethod
    def read(cls, path: Path) -> Study:
        """Return the study in a file; raises InputError for one that cannot be used."""
        try:
            content = tomllib.loads(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError, RecursionError, tomllib.TOMLDecodeError) as error:
            raise InputError(f"{path} is not a study: {error}") from None
        if "path" in content:
            raise InputError(f"{path}: path is unknown; it is the place of the file")
        try:
            study = replace(read_dataclass(cls, content), path=path.resolve())
            study.check()
        except InputError as error:
            raise InputError(f"{path}: {error}") from None
        return study

    def check(self) -> None:
        """Raise InputError for a study that could not be made, or would not answer its question."""
        self._check_names()
        self._check_repetitions()
        lengths = self.tokens or self.seconds or self.round or self.tuning
        if not lengths or not self.corpora or not self.judged:
            raise InputError("a study needs the lengths of its runs (tokens or seconds), corpora and judged lengths")
        least = min([self.first_seed, *(each.seeds for each in self.arm)])
        if self.margin <= 0 or self.seeds < 2 or least < 0 or min([1, *self.judged, *self.tokens, *self.seconds]) < 1:
            raise InputError(
                "a study needs a margin above 0, at least 2 seeds, no seed below 0, and lengths of at least 1"
            )
        if max([self.seeds, *(each.seeds for each in self.arm)]) > _MOST_SEEDS:
            raise InputError(f"an arm has at most {_MOST_SEEDS:,} seeds")
        if not 0 <= self.parameters_within <= 1:
            raise InputError(f"parameters_within is a share from 0 to 1, not {self.parameters_within:g}")
        if "auto" in self.corpora:
            raise InputError('corpora names "auto", for which train.py would choose a text: name the texts themselves')
        self._check_rounds()
        self._check_tuning()
        for each in self.arm:
            self.config(each)
            if each.attributes and not each.model:
                raise InputError(f"{each.name!r} has attributes, and no model whose class they could belong to")
            if each.model and not _MODEL.fullmatch(each.model):
                raise InputError(f"the model of {each.name!r} is {each.model!r}; expected FILE.py:CLASS")
            if each.model and (given := self.given(each)).keys() & {"init", "model"} == {"init"}:
                raise InputError(
                    f"{each.name!r} has a class and --init {given['init']}: its flags need --model too, for the family "
                    "whose class it replaces"
                )
            if each.model and not self.file_of(each).is_file():
                raise InputError(f"the model of {each.name!r} is in {self.file_of(each)}, which does not exist")

    def _check_names(self) -> None:
        names = [each.name for each in self.arm]
        if self.control not in names:
            raise unknown("control", self.control, names)
        if marked := [name for name in names if "|" in name]:
            raise InputError(f"the name {marked[0]!r} has a |, which ends a cell of the report: take another name")
        for name in {_slug(each) for each in names}:
            if not name.strip("."):
                raise InputError("the name of an arm needs a letter or a digit, for its folder")
            if sum(_slug(each).casefold() == name.casefold() for each in names) > 1:
                raise InputError(f"two arms are called {name!r}, or nearly so; each needs a folder of its own")

    def _check_repetitions(self) -> None:
        for name in ("corpora", "tokens", "seconds", "judged"):
            values = getattr(self, name)
            if several := [each for each in values if values.count(each) > 1]:
                raise InputError(f"{name} has {several[0]!r} twice: its runs would be the same")

    def _check_rounds(self) -> None:
        if self.round and (self.tokens or self.seconds or self.tuning or len(self.corpora) > 1):
            raise InputError("a study with rounds has its lengths in these, one corpus, and no tuning")
        if self.round and (own := [each.name for each in self.arm if each.seeds]):
            raise InputError(f"a round has as many seeds of every arm: leave out the seeds of {own[0]!r}")
        for number, each in enumerate(self.round, 1):
            is_length = bool(each.tokens) != bool(each.seconds) and min(each.tokens, each.seconds, each.keep) >= 0
            if not is_length or not 2 <= each.seeds <= _SEEDS_OF_A_ROUND:
                raise InputError(
                    f"round {number} needs either tokens or seconds, above 0, and 2 to {_SEEDS_OF_A_ROUND} seeds"
                )
            if not each.keep and number < len(self.round):
                raise InputError(f"round {number} needs keep: how many arms the next round has beside the control")

    def _check_tuning(self) -> None:
        if self.tuning is None:
            if idle := [each.name for each in self.arm if each.rates]:
                raise InputError(f"{idle[0]!r} has rates, but without [tuning] none is chosen: give --lr in its flags")
            return
        tuning = self.tuning
        if tuning.tokens < 1 or not 1 <= tuning.seeds <= _MOST_SEEDS or not all(map(self.rates_of, self.arm)):
            raise InputError(f"tuning needs rates, tokens and 1 to {_MOST_SEEDS:,} seeds")
        for arm in self.arm:
            if min(self.rates_of(arm)) <= 0:
                raise InputError(
                    f"a learning rate of {arm.name!r} is {min(self.rates_of(arm)):g}, which is not above 0"
                )
            if len({f"{rate:g}" for rate in self.rates_of(arm)}) < len(self.rates_of(arm)):  # as its folder is called
                raise InputError(f"a learning rate of {arm.name!r} is given twice; each is tried once")
            if self.seeds_of(arm).stop > TUNED_FROM:
                raise InputError(
                    f"{arm.name!r} has seeds up to {self.seeds_of(arm).stop - 1}, and those from {TUNED_FROM:,} on "
                    "choose the learning rates"
                )

    def rates_of(self, arm: Arm) -> list[float]:
        """Return the learning rates among which that of an arm is chosen; none if nothing is tuned."""
        return arm.rates or self.tuning.rates if self.tuning else []

    def in_round(self, number: int, names: Collection[str]) -> Study:
        """Return the study of one round, of the arms of these names; its seeds are those of no other round."""
        each = self.round[number]
        arms = [replace(arm, seeds=0) for arm in self.arm if arm.name in names]
        lengths = {"tokens": [each.tokens] if each.tokens else [], "seconds": [each.seconds] if each.seconds else []}
        first = self.first_seed + number * _SEEDS_OF_A_ROUND
        return replace(self, arm=arms, seeds=each.seeds, first_seed=first, round=[], **lengths)

    def config(self, arm: Arm) -> TrainConfig:
        """Return the settings of an arm without those of a single run."""
        config, given = self._read_flags(arm)
        if config.adapter_rank:
            raise InputError(f"the flags of {arm.name!r} have --adapter-rank, and adapters cannot be judged here")
        if own := given & {*_OWN, *(["lr"] if self.tuning else [])}:
            entry = _OWN_ENTRIES.get(name := min(own))
            better = f"give {entry}" if entry else "leave it out"
            raise InputError(f"the flags of {arm.name!r} have {flag_of(name)}, which the study itself sets: {better}")
        return config

    def given(self, arm: Arm) -> dict[str, Any]:
        """Return the settings that the flags of an arm name, with their values."""
        config, given = self._read_flags(arm)
        return {name: getattr(config, name) for name in sorted(given)}

    def _read_flags(self, arm: Arm) -> tuple[TrainConfig, set[str]]:
        try:
            words = shlex.split(f"{self.flags} {arm.flags}")
        except ValueError as error:  # a quotation mark without its twin
            raise InputError(f"the flags of {arm.name!r} cannot be read: {error}") from None
        if {"-h", "--help"} & set(words):
            raise InputError(f"the flags of {arm.name!r} have --help, which trains nothing: leave it out")
        return Parser(TrainConfig, prog="train.py", description="").read(words)

    def file_of(self, arm: Arm) -> Path:
        """Return the file with the class of an arm."""
        return self.path.parent / arm.model.rpartition(":")[0]

    def named(self, name: str) -> Arm:
        """Return the arm of that name."""
        return next(each for each in self.arm if each.name == name)

    def seeds_of(self, arm: Arm) -> range:
        """Return the seeds of an arm."""
        return range(self.first_seed, self.first_seed + (arm.seeds or self.seeds))

    def comparisons(self) -> list[Comparison]:
        """Return what is compared: each corpus with each length."""
        lengths = [*(("tokens", each) for each in self.tokens), *(("seconds", each) for each in self.seconds)]
        return [Comparison(corpus, *length) for corpus in self.corpora for length in lengths]

    def tuning_jobs(self) -> list[Job]:
        """Return the runs that choose learning rates, one seed of all arms after the other."""
        if self.tuning is None:
            return []
        return [
            Job(arm.name, TUNED_FROM + seed, corpus, "tokens", self.tuning.tokens, rate, tunes=True)
            for corpus in self.corpora
            for seed in range(self.tuning.seeds)
            for arm in self.arm
            for rate in self.rates_of(arm)
        ]

    def arms_and_seeds(self) -> Iterator[tuple[Arm, int]]:
        """Yield the arms and seeds of each comparison, one seed of all arms after the other.

        Another arm begins with each seed, so that none always has the same neighbour on the machine.
        """
        for seed in range(self.first_seed, max(self.seeds_of(arm).stop for arm in self.arm)):
            first = (seed - self.first_seed) % len(self.arm)
            in_turn = self.arm[first:] + self.arm[:first]
            yield from ((arm, seed) for arm in in_turn if seed in self.seeds_of(arm))

    def plans(self, job: Job) -> bool:
        """Whether a run is one of the study; a run that is compared may have any rate of its arm."""
        if self.round:
            names = [each.name for each in self.arm]
            return any(self.in_round(number, names).plans(job) for number in range(len(self.round)))
        if job.tunes:
            return job in self.tuning_jobs()
        if job.rate not in (self.rates_of(self.named(job.arm)) if self.tuning else [None]):
            return False
        return job.seed in self.seeds_of(self.named(job.arm)) and any(each.has(job) for each in self.comparisons())

    def count(self) -> int:
        """Return the number of runs."""
        each = sum(len(self.seeds_of(arm)) for arm in self.arm)
        return len(self.tuning_jobs()) + len(self.comparisons()) * each

    def digest(self) -> str:
        """Return a hash of the file, whatever ends its lines."""
        content = self.path.read_bytes().replace(b"\r\n", b"\n")  # git may write such ends on Windows
        return hashlib.blake2b(content, digest_size=8).hexdigest()

    def commit(self) -> str:
        """Return the commit that holds the study as it is, or why there is none."""
        folder, name = self.path.parent, self.path.name
        found = git(folder, "log", "-1", "--format=%h %cI", "--", name)
        return "not committed" if not found or git(folder, "status", "--porcelain", "--", name) else found


def git(folder: Path, *words: str) -> str:
    """Return what git prints in a folder; nothing where there is no git, or no repository."""
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


_MODEL = re.compile(r"[^:]+\.py:[A-Za-z_]\w*")


def _slug(name: str) -> str:
    return re.sub(r"[^\w.]+", "-", name).strip("-")[:60]


def code_digest(study: Study) -> str:
    """Return a hash of the code that a run depends on: the library, the models, and this folder's part in it.

    For an arm with a class of its own, the files beside and below that of the class count too: it may import them.
    """
    folders = [ROOT / name for name in ("minigrad", "models", "tokenizer")]
    files = {(ROOT, file) for folder in folders for file in folder.rglob("*.py")} | {(ROOT, ROOT / "train.py")}
    own = Path(__file__).parent
    files |= {(own, own / f"{name}.py") for name in ("causality", "judge", "one_run")}
    for folder in {study.file_of(arm).resolve().parent for arm in study.arm if arm.model}:
        files |= {(folder, file) for file in folder.rglob("*.py")}
    parts = (  # wherever the folders lie
        file.relative_to(folder).as_posix().encode() + b"\0" + hashlib.blake2b(file.read_bytes()).digest()
        for folder, file in files
    )
    return hashlib.blake2b(b"".join(sorted(parts)), digest_size=8).hexdigest()
