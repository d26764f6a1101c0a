"""A search keeps the best arms of each round, gives each round seeds of its own, and refuses what is no search."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import search
from benchmarks.evaluation import report, run
from benchmarks.evaluation.one_run import RESULT
from benchmarks.evaluation.results import Results
from benchmarks.evaluation.study import ROOT, Job, Study
from minigrad.errors import InputError
from minigrad.formats.json_files import write_json
from tests.benchmarks.evaluation import synthetic
from tests.small_runs import write_text

STUDIES = ROOT / "benchmarks" / "evaluation" / "studies"
SEARCH = """
question = "Which learning rate suits a toy?"
control = "usual"
margin = 0.1
hours = 0.01
flags = "--size nano --vocab 300 --batch 2 --context 16"
corpora = ["{text}"]
judged = [16]

[[round]]
tokens = 320
seeds = 2
keep = 1

[[round]]
tokens = 640
seeds = 2

[[arm]]
name = "usual"

[[arm]]
name = "far too small"
flags = "--lr 1e-7"

[[arm]]
name = "smaller"
flags = "--lr 0.003"
"""


def toy(folder: Path, change: tuple[str, str] = ("", "")) -> Path:
    path = folder / "toy.toml"
    text = SEARCH.format(text=write_text(folder / "text.txt", lines=600))
    path.write_text(text.replace(*change) if change[0] else text, encoding="utf-8")
    return path


def test_a_round_has_only_the_best_arms_and_new_seeds(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    """What the rounds do with their results, which are drawn: test_run.py trains."""
    rounds = "[[round]]\ntokens = 1_000_000\nseeds = 2\nkeep = 1\n[[round]]\ntokens = 2_000_000\nseeds = 3\n"
    head, arms = synthetic.TEXT.split("[[arm]]", 1)
    head = head.replace("seeds = 8\n", "").replace("tokens = [1_000_000]\n", "")
    study, out = synthetic.study(tmp_path, f"{head}{rounds}[[arm]]{arms}"), tmp_path / "out"
    out.mkdir()
    made = dict[int, set[tuple[str, int]]]()

    def process(runner: run.Runner, job: Job) -> Any:
        """Return the process of a run, which is over at once."""
        made.setdefault(job.amount, set()).add((job.arm, job.seed))
        place = runner.folder / job.place
        place.mkdir(parents=True)
        found = {"job": vars(job).copy(), "tokens": job.amount, "code": "abc"}
        write_json(place / RESULT, synthetic.result(runner.study, job.arm, job.seed, **found))
        return SimpleNamespace(poll=lambda: 0)

    monkeypatch.setattr(run.Runner, "process", process)
    assert search.search(study, out, jobs=2) == ["control", "better"]
    assert made[1_000_000] == {(arm.name, seed) for arm in study.arm for seed in (0, 1)}
    assert made[2_000_000] == {(arm, seed) for arm in ("control", "better") for seed in (100, 101, 102)}
    written = (out / "round-2" / "report.md").read_text(encoding="utf-8")
    assert "| better | 3 |" in written
    assert "| equal |" not in written
    report.make(report.ReportConfig(str(study.path), round=2, runs=str(out / "round-2"), pack=str(tmp_path / "table")))
    report.make(report.ReportConfig(str(study.path), round=2, table=str(tmp_path / "table")))
    from_folder, from_table = capsys.readouterr().out.split("# Is a drawn arm")[-2:]
    assert "| better | 3 |" in from_table
    assert from_table.split("##")[1:] == from_folder.split("##")[1:]


@pytest.mark.parametrize(("number", "said"), [(None, "is a search: give --round, from 1 to 2"), (3, "from 1 to 2")])
def test_a_report_of_no_round_is_refused(tmp_path: Path, number: int | None, said: str) -> None:
    with pytest.raises(InputError, match=said):
        report.make(report.ReportConfig(str(toy(tmp_path)), round=number))
    with pytest.raises(InputError, match="has no rounds: leave out --round"):
        report.make(report.ReportConfig(str(STUDIES / "key_shift.toml"), round=1))


def test_best_orders_by_the_difference_to_the_control(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    means = {"usual": 0.0, "far too small": 0.2, "smaller": -0.1, "diverged once": -0.2, "peeping": -3.0}

    class Arm:
        def __init__(self, name: str) -> None:
            self.name, self.leaks = name, name == "peeping"

    class Compared:
        def __init__(self, name: str) -> None:
            self.arm, self.pairs, self.failed = Arm(name), int(name != "usual"), int(name == "diverged once")
            self.both = type("Difference", (), {"mean": means[name]})

    monkeypatch.setattr(search.report, "compare", lambda *_: [Compared(name) for name in means])
    study, nothing = Study.read(toy(tmp_path)).in_round(0, list(means)), Any
    assert search.best(study, nothing, 1) == ["usual", "smaller"]  # type: ignore[arg-type]
    assert search.best(study, nothing, 5) == ["usual", "smaller", "far too small"]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("failing", "why"),
    [({"control"}, "a run of the control failed"), ({"equal", "better"}, "every other arm leaks or has a failed run")],
)
def test_a_search_ends_where_no_arm_is_left(tmp_path: Path, failing: set[str], why: str) -> None:
    made = synthetic.study(tmp_path)
    rows = [each for each in synthetic.results(made) if each["job"]["seed"] or each["job"]["arm"] not in failing]
    failed = [(Job(arm, 0, "python-docs", "tokens", 1_000_000, None), "it diverged") for arm in failing]
    with pytest.raises(InputError, match=rf"no arm can be kept, because {why}\. Change the arms that leak or fail"):
        search.best(made, Results(rows, failed), 1)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("tokens = 640", "tokens = 640\nseconds = 5"), "round 2 needs either tokens or seconds"),
        (("tokens = 640\nseeds = 2", "tokens = 640\nseeds = 1"), "2 to 100 seeds"),
        (("tokens = 640\nseeds = 2", "tokens = 640\nseeds = 101"), "2 to 100 seeds"),
        (("keep = 1", ""), "round 1 needs keep"),
        (("judged = [16]", "judged = [16]\ntokens = [320]"), "has its lengths in these"),
    ],
)
def test_rounds_that_cannot_be_made_are_refused(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Study.read(toy(tmp_path, change))


def test_a_folder_that_cannot_be_made_is_bad_input(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    for program, config in ((search, search.SearchConfig), (run, run.RunnerConfig)):
        given = toy(tmp_path) if program is search else STUDIES / "key_shift.toml"
        with pytest.raises(InputError, match="cannot be made"):
            program.make(config(str(given), out=str(tmp_path / "file" / "runs")))


def test_each_program_names_the_other_for_the_wrong_kind_of_study(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"benchmarks/search.py"):
        run.make(run.RunnerConfig(study=str(toy(tmp_path))))
    with pytest.raises(InputError, match=r"benchmarks/evaluation/run.py"):
        search.make(search.SearchConfig(search=str(STUDIES / "key_shift.toml"), out=str(tmp_path / "out")))
    assert not (tmp_path / "out").exists()
