"""Studies are read with sentences about what is wrong, and those of the repository compare models of equal size."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import models
from benchmarks.evaluation.one_run import install
from benchmarks.evaluation.results import read_table
from benchmarks.evaluation.study import ROOT, TUNED_FROM, Comparison, Job, Study, code_digest
from minigrad.errors import InputError
from minigrad.options import assignments

STUDIES = sorted((ROOT / "benchmarks/evaluation/studies").glob("*.toml"))
HEAD = 'question = "?"\ncontrol = "a"\nmargin = 0.01\nhours = 1\ntokens = [100]\nseeds = 2\n'
ARMS = '[[arm]]\nname = "a"\n[[arm]]\nname = "b"\nflags = "--set key_shift=false"\nseeds = 3\n'


def written(folder: Path, text: str) -> Path:
    path = folder / "study.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("question =", "is not a study: "),
        (HEAD + 'arms = 3\n[[arm]]\nname = "a"\n', "arms is unknown; did you mean arm?"),
        (HEAD + '[[arm]]\nname = "b"\n', "unknown control 'a'"),
        (HEAD + ARMS + '[[arm]]\nname = "b"\n', "two arms are called 'b', or nearly so"),
        (HEAD + '[[arm]]\nname = "a"\nflags = "--sede 1"\n', "unknown flag --sede; did you mean --seed?"),
        (HEAD + '[[arm]]\nname = "a"\nflags = "--seed 1"\n', "have --seed, which the study itself sets: give seeds"),
        (HEAD + '[[arm]]\nname = "a"\nmodel = "none.py:A"\n', "none.py, which does not exist"),
        (HEAD + '[[arm]]\nname = "a"\nmodel = "none"\n', "expected FILE.py:CLASS"),
        (HEAD + '[[arm]]\nname = "a"\nmodel = "n.py:A"\nflags = "--init run"\n', "its flags need --model too, for"),
        (HEAD + '[[arm]]\nname = "a"\nrates = [0.1]\n', "'a' has rates, but without [tuning] none is chosen"),
        (HEAD + '[[arm]]\nname = "a"\nflags = "--profile"\n', "have --profile, which the study itself sets: leave it"),
        (HEAD + 'corpora = ["auto"]\n' + ARMS, 'corpora names "auto", for which train.py would choose a text'),
        (HEAD + '[[arm]]\nname = "a"\nattributes = { a = 1 }\n', "'a' has attributes, and no model"),
        (HEAD + '[[arm]]\nname = "a"\nflags = "--lr \\"1"\n', "the flags of 'a' cannot be read: No closing quotation"),
        (HEAD.replace("tokens = [100]\n", "") + ARMS, "needs the lengths of its runs"),
        (HEAD.replace("0.01", "0") + ARMS, "needs a margin above 0, at least 2 seeds, no seed below 0"),
        (HEAD + "first_seed = -1\n" + ARMS, "no seed below 0"),
        (HEAD + ARMS.replace("seeds = 3", "seeds = -3"), "no seed below 0"),
        (HEAD + "judged = [0]\n" + ARMS, "lengths of at least 1"),
        (HEAD + '[[arm]]\nname = "a"\n[[arm]]\nname = "A"\n', "two arms are called"),
        (HEAD + '[[arm]]\nname = "a"\n[[arm]]\nname = ".."\n', "needs a letter or a digit, for its folder"),
        (HEAD + '[[arm]]\nname = "a"\nflags = "--sample-every 5"\n', "have --sample-every, which the study itself"),
        (HEAD + '[[arm]]\nname = "a"\nflags = "--init x --adapter-rank 2"\n', "adapters cannot be judged here"),
        (HEAD + ARMS + "[tuning]\nrates = [0.1]\ntokens = 100\nseeds = 0\n", "tuning needs rates, tokens and 1 to"),
        (HEAD + ARMS + "[tuning]\nrates = []\ntokens = 100\n", "tuning needs rates, tokens and 1 to 1,000 seeds"),
        (HEAD + ARMS + "[tuning]\nrates = [0.1, 0.1]\ntokens = 100\n", "a learning rate of 'a' is given twice"),
        (HEAD + "first_seed = 998\n" + ARMS + "[tuning]\nrates = [0.1]\ntokens = 9\n", "'b' has seeds up to 1000, and"),
        (
            HEAD.replace("tokens = [100]\n", "") + ARMS + "[[round]]\ntokens = 9\nseeds = 2\n",
            "a round has as many seeds of every arm: leave out the seeds of 'b'",
        ),
        (HEAD.replace('"a"', "3") + ARMS, "control takes text, not 3"),
        ('question = "?"\n' + ARMS, "control is missing"),
        (HEAD + ARMS.replace('name = "b"', 'name = "b"\ntuning = 1'), "tuning is unknown"),
        (HEAD.replace("[100]", "[100, 100]") + ARMS, "tokens has 100 twice: its runs would be the same"),
        ("judged = [64, 64]\n" + HEAD + ARMS, "judged has 64 twice"),
        ('corpora = ["a", "a"]\n' + HEAD + ARMS, "corpora has 'a' twice"),
        ("path = 3\n" + HEAD + ARMS, "path is unknown"),
        ("first_seed = 0\nparameters_within = 2.5\n" + HEAD + ARMS, "is a share from 0 to 1, not 2.5"),
        (HEAD + '[[arm]]\nname = "a"\nflags = "--help"\n', "have --help, which trains nothing"),
        (HEAD + ARMS.replace('name = "b"', 'name = "b|c"'), "the name 'b|c' has a |"),
        (HEAD + ARMS + "[tuning]\nrates = [0.0]\ntokens = 9\n", "a learning rate of 'a' is 0, which is not above 0"),
        (HEAD + ARMS + "[tuning]\nrates = [0.1, 0.10000001]\ntokens = 9\n", "is given twice; each is tried once"),
        (HEAD + ARMS.replace("seeds = 3", "seeds = 1001"), "an arm has at most 1,000 seeds"),
        ("a = " + "[" * 3_000 + "]" * 3_000 + "\n" + HEAD + ARMS, "is not a study"),
    ],
)
def test_a_study_that_cannot_be_made_is_refused_in_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        Study.read(written(tmp_path, text))
    assert said in str(error.value)
    with pytest.raises(InputError, match=r"missing\.toml is not a study"):
        Study.read(tmp_path / "missing.toml")


def test_runs_are_listed_seed_by_seed(tmp_path: Path) -> None:
    tuned = HEAD + ARMS + "[tuning]\nrates = [0.1, 0.2]\ntokens = 10\nseeds = 1\n"
    study = Study.read(written(tmp_path, tuned))
    (comparison,) = study.comparisons()
    assert comparison == Comparison("python-docs", "tokens", 100)
    assert [(arm.name, seed) for arm, seed in study.arms_and_seeds()] == [
        ("a", 0), ("b", 0), ("b", 1), ("a", 1), ("b", 2),
    ]  # fmt: skip
    assert [(job.arm, job.rate, job.seed) for job in study.tuning_jobs()] == [
        (arm, rate, TUNED_FROM) for arm in "ab" for rate in (0.1, 0.2)
    ]
    assert study.count() == 9
    places = {job.place for job in study.tuning_jobs()} | {Job("a", 0, *comparison, 0.1).place}
    assert len(places) == 5
    assert comparison.has(Job("a", 0, *comparison, 0.1))
    assert not comparison.has(study.tuning_jobs()[0])


def test_a_study_without_lengths_only_chooses_learning_rates(tmp_path: Path) -> None:
    tuning = "[tuning]\nrates = [0.1, 0.2]\ntokens = 10\nseeds = 2\n"
    study = Study.read(written(tmp_path, HEAD.replace("tokens = [100]\n", "") + ARMS + tuning))
    assert study.comparisons() == []
    assert study.count() == len(study.tuning_jobs()) == 8
    assert all(map(study.plans, study.tuning_jobs()))


def test_the_hashes_notice_a_changed_study_and_changed_code_of_an_arm(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text("class A: ...\n", encoding="utf-8")
    path = written(tmp_path, HEAD + '[[arm]]\nname = "a"\nmodel = "own.py:A"\n')
    study = Study.read(path)
    before = study.digest(), code_digest(study)
    assert study.commit() == "not committed"
    (tmp_path / "own.py").write_text("class A: pass\n", encoding="utf-8")
    assert study.digest() == before[0]
    assert code_digest(study) != (code := before[1])
    (tmp_path / "own.py").write_text("class A: ...\n", encoding="utf-8")
    assert code_digest(study) == code
    (tmp_path / "beside.py").write_text("b = 1\n", encoding="utf-8")  # the class may import it
    assert code_digest(study) != code
    written(tmp_path, path.read_text(encoding="utf-8") + "# later\n")
    assert study.digest() != before[0]


def test_the_hash_of_the_code_does_not_depend_on_where_the_folders_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "train.py").write_text("", encoding="utf-8")
    monkeypatch.setattr("benchmarks.evaluation.study.ROOT", tmp_path / "m")
    found = set()
    for name in ("a", "z"):  # before the other folder and behind it
        (tmp_path / name).mkdir()
        (tmp_path / name / "own.py").write_text("class A: ...\n", encoding="utf-8")
        path = written(tmp_path / name, HEAD + '[[arm]]\nname = "a"\nmodel = "own.py:A"\n')
        found.add(code_digest(Study.read(path)))
    assert len(found) == 1


def test_an_attribute_or_a_part_that_does_not_exist_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such an arm would be the control under another name, and would show no difference."""
    study = Study.read(STUDIES[0].parent / "nano_gelu.toml")
    arm = study.arm[1]
    monkeypatch.setitem(models.FAMILIES, "vidya-v2", models.FAMILIES["vidya-v2"])
    with pytest.raises(InputError, match="the class of 'GELU in place of SwiGLU' has no attribute 'part'"):
        install(study, replace(arm, attributes={"part": ["gelu"]}))
    for file, family, parts in (("nano.py:Nano", "vidya-v2", "gleu"), ("wiola.py:Parts", "wiola", "spirals")):
        monkeypatch.setitem(models.FAMILIES, family, models.FAMILIES[family])
        flags = f"--model {family} --size nano"
        install(study, replace(arm, model=file, flags=flags, attributes={"parts": [parts]}))
        with pytest.raises(InputError, match=f"unknown part '{parts}'"):
            models.skeleton(family, "nano")


def parameters(study: Study, name: str, monkeypatch: pytest.MonkeyPatch) -> int:
    arm = study.named(name)
    config = study.config(arm)
    monkeypatch.setitem(models.FAMILIES, config.model, models.FAMILIES[config.model])
    install(study, arm)
    fields: dict[str, Any] = assignments(config.set)
    if config.vocab:
        fields |= {"vocab_size": config.vocab}
    return models.for_training(config.model, config.size, **fields).num_parameters()


def of_its_runs(study: Study) -> dict[str, int]:
    """Return the parameters of each arm as its runs had them, which keep those of their day; {} without a table."""
    name, folder = study.path.stem, study.path.parent.parent / "tables"
    tables = [folder / f"{name}.json.gz", *folder.glob(f"{name}-round-*.json.gz")]
    runs = [run for path in tables if path.exists() for run in read_table(path, study).finished]
    return {run["job"]["arm"]: run["parameters"] for run in runs}


TWO_SEEDS = {"wiola_without": {"AdamW as published"}}
"""Arms that were run with two seeds, as a control of a study that had no time for more; others have at least three."""


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_the_arms_of_a_study_have_as_many_parameters_as_its_control(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = Study.read(path)
    counts = of_its_runs(study)
    for arm in [] if counts else study.arm:
        with monkeypatch.context() as patch:
            counts[arm.name] = parameters(study, arm.name, patch)
    own = counts[study.control]
    apart = {name for name, count in counts.items() if abs(count / own - 1) > study.parameters_within}
    allowed = {arm.name for arm in study.arm if arm.unequal_parameters}
    assert apart <= allowed
    assert study.hours > 0
    few = {arm.name for arm in study.arm if 0 < arm.seeds < 3 and not arm.leaks}  # a leaky arm gets no verdict
    assert few <= TWO_SEEDS.get(path.stem, set())


def test_a_study_has_one_hash_whatever_ends_its_lines_and_needs_no_git(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, HEAD + ARMS)
    known = Study.read(path).digest()
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    assert Study.read(path).digest() == known
    monkeypatch.setenv("PATH", "")
    assert Study.read(path).commit() == "not committed"
