"""The five steps of the final project pass with the solution of its page, and each finds what is wrong with another."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import models
import tokenizer
from benchmarks.evaluation import one_run
from benchmarks.evaluation.study import Study
from docs import final_project
from docs.final_project import Project, answer, design, page, question, training
from minigrad import Tensor, op, ops
from minigrad.errors import InputError
from minigrad.formats.folders import RECORD
from minigrad.formats.json_files import read_json, write_json
from minigrad.generation.decoding import document
from minigrad.pages.model_page.page import model_page
from models import names, registry
from tests.benchmarks.evaluation import synthetic
from tests.docs.python_blocks import python_blocks
from tests.small_runs import quick_runs, run, write_text
from tests.source_files import ROOT
from tokenizer.formats.web_page import for_web_page

FAMILY = "parallel"
TINY = {"vocab_size": 300, "num_layers": 2, "width": 32, "num_heads": 3, "num_kv_heads": 1, "head_dim": 16}
(SOLUTION,) = python_blocks("docs/final_project.md")
(STUDY,) = re.findall(r"^```toml\n(.*?)^```$", (ROOT / "docs/final_project.md").read_text("utf-8"), flags=re.M | re.S)


@pytest.fixture(scope="module")
def family(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModuleType]:
    """Enter the solution into the registry, with a tiny nano."""
    room = tmp_path_factory.mktemp("models")
    (room / "parallel.py").write_text(SOLUTION, encoding="utf-8")
    for name in ("vidya_v2", "gpt2"):
        shutil.copy(ROOT / "models" / f"{name}.py", room)
    module = ModuleType("models.parallel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, module.__name__, module)
        exec(compile(SOLUTION, "models/parallel.py", "exec"), module.__dict__)
        sizes = module.SIZES | {"nano": dataclasses.replace(module.SIZES["nano"], **TINY, feed_forward=64)}
        patch.setitem(models.FAMILIES, FAMILY, registry.Family(module.Parallel, module.ParallelConfig, sizes))
        patch.setitem(names.SIZES, FAMILY, names.LAPTOP_SIZES)
        patch.setattr(
            names, "__file__", str(room / "names.py")
        )  # the fields of a config are read from the text of its file
        yield module


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(FAMILY, tmp_path)


def changed(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    monkeypatch.setitem(models.FAMILIES, FAMILY, models.FAMILIES[FAMILY]._replace(**changes))


def missing(step: Any, project: Project) -> str:
    return "\n".join(step(project))


def test_the_design_of_the_solution_passes(family: ModuleType, project: Project) -> None:
    assert missing(design, project) == ""


def test_windows_of_attention_are_a_design_too(project: Project) -> None:
    assert missing(design, project._replace(family="vsla")) == ""  # within a window, it computes what gpt2 computes


def test_a_design_must_be_registered_with_all_sizes(family: ModuleType, project: Project, monkeypatch: Any) -> None:
    assert "to FAMILIES" in missing(design, project._replace(family="mine"))
    changed(monkeypatch, sizes={"nano": models.FAMILIES[FAMILY].sizes["nano"]})
    assert "the sizes micro, mini, small" in missing(design, project)


@op
def wrong_half(x: Any) -> Any:
    return x * 0.5, lambda dy: dy * 0.6


def mixed(x: Any, layout: Any) -> Any:
    """Add the mean of all rows, and so of later tokens and other sequences."""
    return x + x.mean(axis=0, keepdims=True)


def shifted(x: Any, layout: Any) -> Any:
    """Add the row before, which a cache does not hold."""
    before = ops.concatenate(x[:1] * 0.0, x[:-1], axis=0)
    return x + before * Tensor((layout.positions > 0)[:, None].astype(x.dtype)) if len(x.data) > 1 else x


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (mixed, "a token sees later ones"),
        (mixed, "sequences of a batch see each other"),
        (shifted, "with a cache"),
        (lambda x, layout: wrong_half(x), "the gradient is wrong"),
        (lambda x, layout: ops.tanh(x), "step 5 needs"),
    ],
)
def test_a_wrong_design_is_found(
    family: ModuleType, project: Project, monkeypatch: pytest.MonkeyPatch, change: Any, said: str
) -> None:
    class Wrong(family.Parallel):  # type: ignore[misc, name-defined]
        def hidden(self, tokens: Any, layout: Any, cache: Any = None) -> Any:
            return change(super().hidden(tokens, layout, cache), layout)

    changed(monkeypatch, model=Wrong)
    assert said in missing(design, project)


def test_a_number_that_is_not_saved_is_found(family: ModuleType, project: Project, monkeypatch: Any) -> None:
    made = iter(range(1, 100))

    class Wrong(family.Parallel):  # type: ignore[misc, name-defined]
        def __init__(self, config: Any) -> None:
            super().__init__(config)
            self.factor = 1.0 / next(made)

        def hidden(self, tokens: Any, layout: Any, cache: Any = None) -> Any:
            return super().hidden(tokens, layout, cache) * self.factor

    changed(monkeypatch, model=Wrong)
    assert "saved and loaded" in missing(design, project)


def test_another_family_under_a_new_name_is_found(family: ModuleType, project: Project, monkeypatch: Any) -> None:
    monkeypatch.setitem(models.FAMILIES, FAMILY, models.FAMILIES["vidya-v2"])
    assert "it computes what vidya-v2 computes" in missing(design, project)


def commit(folder: Path) -> None:
    for words in (["init", "-q"], ["add", "study.toml"], ["commit", "-qm", "a study"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *words], cwd=folder, check=True, capture_output=True)


needs_git = pytest.mark.skipif(shutil.which("git") is None, reason="git is not installed")


@needs_git
@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ("", "", ""),
        ("norm?", "norm.", "not a question"),
        ("seeds = 8", "seeds = 4", "too few seeds"),
        ('control = "one after the other"', 'control = "side by side"', "is the new family itself"),
        ("--model parallel", "--model vidya-v1", "no arm of"),
        ("--model parallel --size nano", "--model parallel --size micro", "are allowed"),
        ("margin = 0.01", "margin = -1", "a margin above 0"),
    ],
)
def test_the_question(family: ModuleType, project: Project, before: str, after: str, said: str) -> None:
    assert "there is no" in missing(question, project)
    assert before in STUDY
    (project.folder / "study.toml").write_text(STUDY.replace(before, after) if before else STUDY, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        sizes = models.FAMILIES[FAMILY].sizes
        patch.setitem(models.FAMILIES, FAMILY, models.FAMILIES[FAMILY]._replace(sizes=sizes | family.SIZES))
        uncommitted = said_by(project)
        commit(project.folder)
        found = said_by(project)
    assert "commit study.toml" in uncommitted or said in ("no arm of", "a margin above 0")
    assert "commit study.toml" not in found
    assert (said in found) if said else found == ""


def said_by(project: Project) -> str:
    """Return what step 2 misses, with the sentence of a study that cannot be read."""
    try:
        return missing(question, project)
    except final_project.InputError as error:
        return str(error)


@pytest.fixture(scope="module")
def trained(family: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train the solution until it beats a table of byte counts, and put it into a page."""
    folder = tmp_path_factory.mktemp("project")
    with quick_runs():
        text = write_text(folder / "text.txt")
        more = {"batch": 8, "context": 32, "dropout": 0.0, "lr": 0.01, "eval_every": 1_000, "log_every": 100}
        run(text, folder / "run", model=FAMILY, steps=200, test=True, save_every=1_000, sample_every=1_000, **more)
    write_page(folder / "run", folder / "page.html")
    return folder


def write_page(source: Path, target: Path) -> None:
    tok = tokenizer.load(source)
    words = for_web_page(tok.vocabulary) | {"begin": document(tok, "")}
    model = models.load(source, quantize="int8").eval()
    target.write_text(model_page(model, words, title="parallel"), encoding="utf-8")


@pytest.fixture
def done(trained: Path, tmp_path: Path) -> Project:
    shutil.copytree(trained, tmp_path / "project")
    return Project(FAMILY, tmp_path / "project")


def test_the_training(done: Project, tmp_path: Path) -> None:
    assert missing(training, done) == ""
    assert "train.py --model parallel" in missing(training, Project(FAMILY, tmp_path / "nowhere"))
    assert "is of the family parallel" in missing(training, done._replace(family="other"))
    record = done.folder / "run" / RECORD
    content = read_json(record)
    for change, said in (
        ({"bits_per_byte": 1.01 * content["result"]["ngram_bits_per_byte"]}, "from learning"),
        ({"ngram_bits_per_byte": None}, "the run was too short"),
        ({"test_bits_per_byte": None}, "the flag --test"),
        ({"bits_per_byte": None}, "has not ended"),
    ):
        result = {name: value for name, value in (content["result"] | change).items() if value is not None}
        write_json(record, content | {"result": result})
        assert said in missing(training, done)


def test_the_page(done: Project, family: ModuleType) -> None:
    assert missing(page, done) == ""
    path = done.folder / "page.html"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("default-src 'none'", "default-src *"), encoding="utf-8")
    assert "forbid itself" in missing(page, done)
    path.write_text("<p>My model is good.</p>", encoding="utf-8")
    assert "no model is in it" in missing(page, done)
    path.write_text(text.replace("id=content>{", "id=content>", 1), encoding="utf-8")
    assert "is damaged" in missing(page, done)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read as text"):
        missing(page, done)
    path.unlink()
    assert "--page" in missing(page, done)
    other = models.load(done.folder / "run")
    other.load_state_dict({name: array * np.float32(1.01) for name, array in other.state_dict().items()})
    other.save(done.folder / "run")
    path.write_text(text, encoding="utf-8")
    assert "another model" in missing(page, done)


ARMS = (
    synthetic.TEXT.partition("[[arm]]")[0]
    + '[[arm]]\nname = "control"\n\n[[arm]]\nname = "ARM"\nflags = "--model parallel"\n'
)


def with_results(project: Project, arm: str, *, opened: bool) -> Study:
    """Write a study with an arm whose truth is known, and the results of all its runs."""
    study = synthetic.study(project.folder, ARMS.replace("ARM", arm))
    for job in (job for comparison in study.comparisons() for job in jobs(study, comparison)):
        place = project.folder / "runs" / job.place
        place.mkdir(parents=True)
        result = synthetic.result(study, job.arm, job.seed)
        result["settings"] |= study.given(study.named(job.arm))
        write_json(place / one_run.RESULT, result)
        if opened:
            write_json(place / one_run.TEST, {"documents": result["documents"]})
    return study


def jobs(study: Study, comparison: Any) -> Iterator[one_run.Job]:
    for arm, seed in study.arms_and_seeds():
        yield one_run.Job(arm.name, seed, *comparison, None)


@pytest.mark.parametrize(("arm", "verdict"), [("equal", "no difference beyond 0.01"), ("better", "better")])
def test_the_answer(family: ModuleType, project: Project, arm: str, verdict: str) -> None:
    with_results(project, arm, opened=True)
    said = missing(answer, project)
    assert "no line that begins with 'Verdict: '" in said
    assert "does not have the difference" in said
    text = project.folder / "answer.md"
    wrong = "better" if verdict != "better" else "worse"
    text.write_text(f"# An answer\n\nVerdict: {wrong}\n", encoding="utf-8")
    assert f"your verdict is {wrong!r}" in missing(answer, project)
    results = final_project.read(Study.read(project.folder / "study.toml"), project.folder / "runs")
    study = Study.read(project.folder / "study.toml")
    scores = {name: [] for name in ("control", arm)}
    for each in results.finished:
        rows = np.array(each["test"]["64"])
        scores[each["job"]["arm"]].append(rows[:, 2].sum() / rows[:, 0].sum() / np.log(2))
    difference = np.mean(scores[arm]) - np.mean(scores["control"])
    text.write_text(f"# An answer\n\nVerdict: {verdict}.\n\nIt is {difference:+.4f} bits.\n", encoding="utf-8")
    assert missing(answer, project) == ""
    last = project.folder / "runs" / [*jobs(study, study.comparisons()[0])][-1].place
    (last / one_run.TEST).unlink()
    assert "--open-test" in missing(answer, project)
    (last / one_run.RESULT).unlink()
    assert "1 of 16 runs are missing" in missing(answer, project)


def test_an_answer_about_runs_that_all_failed_is_none(family: ModuleType, project: Project) -> None:
    study = with_results(project, "better", opened=True)
    for job in jobs(study, study.comparisons()[0]):
        if job.arm == "better":
            place = project.folder / "runs" / job.place
            (place / one_run.RESULT).unlink()
            write_json(place / one_run.FAILED, {"job": vars(job), "reason": "it diverged"})
    assert "no run of 'better' was finished" in missing(answer, project)


def test_the_command_says_pass_or_what_is_missing(
    done: Project, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (done.folder.parent / "projects").mkdir()
    done.folder.rename(done.folder.parent / "projects" / FAMILY)
    monkeypatch.chdir(done.folder.parent)
    assert final_project.main(["5", FAMILY]) == 0
    assert capsys.readouterr().out.startswith("step 5: pass. The page holds the weights")
    assert final_project.main(["2", FAMILY]) == 1
    assert capsys.readouterr().out.startswith("missing: there is no projects")
    Path("projects", FAMILY, "study.toml").write_text("question = 3", encoding="utf-8")
    assert final_project.main(["2", FAMILY]) == 1
    assert capsys.readouterr().out.startswith("missing: ")
