"""The inputs that are fed to the programs: mutated files, downloads that go wrong, hostile templates, odd flags."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import generate
import train
from minigrad.evaluate import __main__ as evaluate
from minigrad.evaluate.__main__ import EvaluateConfig
from minigrad.formats.gguf import __main__ as gguf
from minigrad.generation.settings import GenerateConfig
from minigrad.options import Option, options
from minigrad.training.settings import TrainConfig
from tests.stress import mutants, readers, servers, subjects
from tests.tokenizer.templates.hostile import HOSTILE
from tokenizer.cli import command_line

VICTIM = "a file of the user"


class Case(NamedTuple):
    """An input: what it is, how it is fed, why it must be refused if it must, and the exit codes that are right."""

    label: str
    act: Callable[[], int]
    must_be_refused: Callable[[], str] = lambda: ""
    codes: tuple[int, ...] = (0, 2)


def mutated_file(known: list[subjects.Subject], place: Path, draw: random.Random) -> Case:
    """Return a copy of a subject with a mutated file, for one of its readers."""
    subject, reader = subjects.choose(known, draw)
    path = mutants.copy_of(subject.path, place / subject.path.name)
    file = draw.choice(subjects.files_of(path))
    mutant = mutants.mutate(file, place / "victim", draw)
    trains = file.suffix == ".safetensors" and reader in ("resume", "init")  # with large weights, which may diverge
    return Case(
        f"{subject.name}, {reader}, {file.relative_to(place)}: {mutant.what}",
        lambda: readers.READERS[reader](path),
        lambda: subjects.must_be_refused(file, mutant.retyped, reader),
        (0, 1, 2) if trains else (0, 2),
    )


def broken_download(known: list[subjects.Subject], place: Path, draw: random.Random) -> Case:
    """Return a download that goes wrong in one way."""
    way = draw.choice(list(servers.WAYS))
    text = (place / "originals/words.txt").read_bytes()[: draw.choice([0, 1, 100, 3_000])]
    suffix = draw.choice([".txt", ".jsonl", ".txt.gz", ""])

    def act() -> int:
        with servers.serving(servers.WAYS[way], text, draw) as address:
            return readers.plan_to_train(f"{address}/{draw.random()}{suffix}", place)

    wrong = f"the response is wrong: {way}" if way in servers.NEVER_WHOLE else ""
    return Case(f"download of {len(text)} bytes as {suffix}: {way}", act, lambda: wrong, (0, 1, 2))


def hostile_template(known: list[subjects.Subject], place: Path, draw: random.Random) -> Case:
    """Return a model with a template that no honest author writes, mutated one time in two, to chat or to be taught."""
    path = mutants.copy_of(place / "originals/vidya-v2", place / "vidya-v2")
    name, reader = draw.choice(list(HOSTILE)), draw.choice(["chat", "teach", "sft_of"])
    source, how = HOSTILE[name], "as it is"
    if draw.random() < 0.5:
        changed, mutant = mutants.change_bytes(source.encode(), draw)
        source, how = changed.decode("utf-8", "surrogateescape"), mutant.what
    (path / "chat_template.jinja").write_text(source, encoding="utf-8", errors="surrogateescape")
    refused = "the template fails" if how == "as it is" else ""
    return Case(f"template, {reader}: {name}, {how}", lambda: readers.READERS[reader](path), lambda: refused)


ODD_VALUES = (
    "", " ", "0", "-1", "1", "2", "0.5", "-0.0", "1e-400", "1e400", "nan", "inf", "-inf", "1_000", "0x10", "١", "1,2",
    "9" * 5_000, "x" * 5_000, "x", "None", "true", ".", "/dev/null", "/dev/full", "/proc/self/mem", "~", "*", "-", "--",
    "a\nb", "\x1b[2J\x07", "\udcff", "\u202e", "a=b", "=", ",", ":", "a:b", "a:1,b:-1", "task:", "task:facts",
    "http://[bad", "http://", "file:///etc/passwd", "https://127.0.0.1:1/x", "width=1,width=2", "width=1e9",
    "num_layers=0", "width=nan", "=1", "experts=3", "rope_theta=-1", "5:3", "9:9,1:1", "0:0",
)  # fmt: skip

PROGRAMS: dict[str, tuple[Callable[[list[str]], int], type, tuple[str, ...]]] = {
    "train.py": (
        train.main,
        TrainConfig,
        ("--plan", "--vocab=300", "--size=nano", "--data={place}/originals/words.txt"),
    ),
    "generate.py": (generate.main, GenerateConfig, ("{place}/originals/vidya-v2", "--tokens=2", "--prompt=to")),
    "evaluate": (evaluate.main, EvaluateConfig, ("{place}/originals/vidya-v2",)),
    "gguf": (gguf.main, gguf.GGUFConfig, ("{place}/originals/vidya-v2", "--out={place}/new.gguf")),
}
TOKENIZER_COMMANDS = (
    ("train", "{place}/originals/words.txt", "--vocab=300", "--out={place}/here/{number}"),
    ("encode", "{place}/originals/vidya-v2", "{place}/originals/words.txt"),
    ("decode", "{place}/originals/vidya-v2", "{place}/originals/words.txt"),
    ("show", "{place}/originals/vidya-v2"),
    ("compare", "{place}/originals/vidya-v2", "--text={place}/originals/words.txt"),
)
TOKENIZER_FLAGS = (
    "--vocab", "--split", "--format", "--kind", "--special", "--min-frequency", "--max-memory", "--threads", "--glob",
    "--text", "--nfc", "--document", "--html", "--out", "--allow-special", "--help",
)  # fmt: skip


def odd_flags(known: list[subjects.Subject], place: Path, draw: random.Random) -> Case:
    """Return a command line with one to three flags that hold odd values."""
    name = draw.choice([*PROGRAMS, "tokenizer"])
    if name == "tokenizer":
        words = [each.format(place=place, number=draw.random()) for each in draw.choice(TOKENIZER_COMMANDS)]
        for flag in draw.choices(TOKENIZER_FLAGS, k=draw.choice([1, 1, 2, 3])):
            words = [word for word in words if word.partition("=")[0] != flag]
            words.append(draw.choice([flag, *[f"{flag}={draw.choice(ODD_VALUES)}"] * 4]))
        return Case(f"tokenizer {words!r:.300}", lambda: in_folder(place, command_line.main, words))
    main, settings, plain = PROGRAMS[name]
    words = [word.format(place=place) for word in plain]
    flags = [each for each in options(settings) if not each.positional]
    for each in draw.sample(flags, draw.choice([1, 1, 2, min(3, len(flags))])):
        words = [word for word in words if word.partition("=")[0] != each.spelling]
        words.insert(draw.randrange(len(words) + 1), flag_of(each, draw))
    return Case(f"{name} {words!r:.300}", lambda: in_folder(place, main, words))


def flag_of(each: Option, draw: random.Random) -> str:
    """Return a flag with one of its own values, or an odd one, or none."""
    spelling = each.spelling + draw.choice([""] * 8 + ["x", "=", " "])
    if each.kind is bool or draw.random() < 0.05:
        return spelling
    return f"{spelling}={draw.choice([*each.choices, *ODD_VALUES])}"


def in_folder(place: Path, main: Callable[[list[str]], int], words: list[str]) -> int:
    """Run a program in a folder, where the files that odd names make do no harm, without anything to read."""
    folder = place / "here"
    folder.mkdir(exist_ok=True)
    with contextlib.chdir(folder), readers.typing(""):
        return main(words)


SOURCES = (*[mutated_file] * 13, *[odd_flags] * 4, *[broken_download] * 2, hostile_template)
"""What makes the inputs, each as often as it is named."""


def case(known: list[subjects.Subject], place: Path, draw: random.Random) -> Case:
    """Return an input."""
    (place / "victim").write_text(VICTIM, encoding="utf-8")
    return draw.choice(SOURCES)(known, place, draw)
