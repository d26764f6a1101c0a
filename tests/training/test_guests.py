"""A guest follows the moments of a run, and continues with it."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from minigrad.constants import IGNORE
from minigrad.data.tokens.batches import Batch
from minigrad.errors import InputError
from minigrad.formats.json_files import read_json
from minigrad.training.folder import checkpoint, metrics
from minigrad.training.run import Finding, Guest, Note, Run, check_guests
from minigrad.typing import Arrays
from tests import small_runs
from tests.killed_runs import Killed
from train import TrainConfig, train


class Diary(Guest):
    """A guest of one's own: it notes what it sees, and keeps a number and an array in the checkpoint."""

    name = "diary"

    def __init__(self) -> None:
        self.seen, self.steps, self.norms = list[str](), 0, np.zeros(2, np.float32)

    def begin(self, run: Run) -> None:
        self.seen.append(f"begins at {run.step}")

    def before_step(self, run: Run) -> None:
        assert run.step == self.steps

    def change(self, batch: Batch) -> Batch:
        assert batch.num_targets
        return batch

    def after_step(self, run: Run, norm: float) -> None:
        self.steps += 1
        self.norms += norm

    @contextlib.contextmanager
    def evaluating(self, run: Run) -> Iterator[None]:
        self.seen.append(f"evaluates after {run.step}")
        yield

    def note(self, run: Run) -> Note:
        return Note({"diary": [float(self.steps)]}, [f"dear diary, it is step {run.step}"])

    def state(self) -> Mapping[str, Any]:
        return {"steps": self.steps}

    def restore(self, state: Any) -> None:
        self.steps = state["steps"]

    def arrays(self, run: Run) -> Arrays:
        return {"diary.norms": self.norms}

    def examine(self, run: Run) -> Finding:
        return Finding("<h2>Diary</h2>", {"diary_steps": float(self.steps)}, f"the diary has {self.steps} steps")


def test_a_guest_follows_a_run_and_continues_with_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, diary, again = small_runs.write_text(tmp_path / "words.txt"), Diary(), Diary()
    config = small_runs.settings(text, tmp_path / "run", steps=6, eval_every=3, save_every=3, log_every=3)
    with small_runs.quick_runs():
        train(config, guests=[diary])
        assert diary.seen[0] == "begins at 0"
        assert {"evaluates after 3", "evaluates after 6"} <= set(diary.seen)
        train(TrainConfig(resume=str(tmp_path / "run"), steps=8), guests=[again])
    said = capsys.readouterr().out
    assert "dear diary, it is step 3" in said
    assert "the diary has 8 steps" in said
    assert again.seen[0] == "begins at 6"
    saved = checkpoint.load(tmp_path / "run")
    assert saved.state["diary"] == {"steps": 8}
    np.testing.assert_array_equal(saved.moments["diary.norms"], again.norms)
    assert again.norms[0] > diary.norms[0] > 0
    assert [line["diary"] for line in metrics.read(tmp_path / "run")][-1] == [8.0]
    assert read_json(tmp_path / "run" / "minigrad.json")["result"]["diary_steps"] == 8
    assert "<h2>Diary</h2>" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


class Nameless(Guest):
    """A guest with a state that no checkpoint could give back to it."""

    def state(self) -> Any:
        return 1


def test_a_guest_with_a_state_and_no_name_is_refused_before_the_run_begins(tmp_path: Path) -> None:
    text = small_runs.write_text(tmp_path / "words.txt")
    with (
        small_runs.quick_runs(),
        pytest.raises(InputError, match=r"a guest with a state needs a `name`.*: Nameless has none"),
    ):
        train(small_runs.settings(text, tmp_path / "run", steps=2), guests=[Nameless()])
    assert not (tmp_path / "run").exists()


class Mean(Guest):
    """A guest whose array has the shape of the model, which it does not know before it is attached; its state grows."""

    name = "mean"

    def __init__(self) -> None:
        self.steps = list[int]()

    def attach(self, run: Run) -> None:
        self.sum = np.zeros_like(run.model.parameters()[0].data)

    def after_step(self, run: Run, norm: float) -> None:
        self.sum += run.model.parameters()[0].data
        self.steps.append(run.step)

    def state(self) -> Any:
        return self.steps

    def restore(self, state: Any) -> None:
        self.steps = state

    def arrays(self, run: Run) -> Arrays:
        return {"mean.sum": self.sum}

    def published(self, weights: Arrays, kept: Arrays) -> Arrays:
        assert set(kept) == {"mean.sum"}
        return weights

    def examine(self, run: Run) -> Finding:
        return Finding("", {"mean": float(self.sum.mean())}, "")


class Masking(Guest):
    """Hides every target of the second step; notes the norm of the gradient of each step, and whether weights moved."""

    def __init__(self) -> None:
        self.norms, self.moved = list[float](), list[bool]()

    def before_step(self, run: Run) -> None:
        self.weights = [parameter.data.copy() for parameter in run.model.parameters()]

    def change(self, batch: Batch) -> Batch:
        hidden = np.full_like(batch.targets, IGNORE)
        return dataclasses.replace(batch, targets=hidden) if len(self.norms) == 1 else batch

    def after_step(self, run: Run, norm: float) -> None:
        self.norms.append(norm)
        now = [parameter.data for parameter in run.model.parameters()]
        self.moved.append(any((one != other).any() for one, other in zip(now, self.weights, strict=True)))


def test_a_step_whose_targets_are_all_hidden_changes_nothing(tmp_path: Path) -> None:
    text, masking = small_runs.write_text(tmp_path / "words.txt"), Masking()
    with small_runs.quick_runs():
        result = train(small_runs.settings(text, tmp_path / "run", steps=3), guests=[masking])
    assert result is not None
    assert np.isfinite(result.loss)
    assert [norm > 0 for norm in masking.norms] == masking.moved == [True, False, True]


class Killer(Guest):
    """Ends the process after a step."""

    def __init__(self, step: int) -> None:
        self.step = step

    def after_step(self, run: Run, norm: float) -> None:
        if run.step == self.step:
            run.writer.join()
            raise Killed


def test_a_guest_that_makes_its_arrays_when_it_is_attached_continues_as_if_never_stopped(tmp_path: Path) -> None:
    text = small_runs.write_text(tmp_path / "words.txt")
    whole, half, rest = Mean(), Mean(), Mean()
    with small_runs.quick_runs():
        train(small_runs.settings(text, tmp_path / "whole", steps=6, save_every=3), guests=[whole])
        stops = small_runs.settings(text, tmp_path / "run", steps=6, save_every=3)
        with pytest.raises(Killed):
            train(stops, guests=[half, Killer(4)])
        assert checkpoint.load(tmp_path / "run").state["mean"] == [1, 2, 3]
        train(TrainConfig(resume=str(tmp_path / "run")), guests=[rest])
    assert rest.steps == whole.steps
    np.testing.assert_array_equal(rest.sum, whole.sum)


def test_a_checkpoint_keeps_the_state_of_its_own_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = list[Any]()
    monkeypatch.setattr(checkpoint, "save", lambda *given, state, **others: kept.append(state["mean"]))
    text = small_runs.write_text(tmp_path / "words.txt")
    with small_runs.quick_runs():
        train(small_runs.settings(text, tmp_path / "run", steps=4, save_every=2), guests=[Mean()])
    assert kept == [[1, 2], [1, 2, 3, 4]]


def test_two_guests_never_find_figures_of_one_name(tmp_path: Path) -> None:
    class Same(Guest):
        def examine(self, run: Run) -> Finding:
            return Finding("", {"mean": 1.0}, "")

    text = small_runs.write_text(tmp_path / "words.txt")
    with small_runs.quick_runs():
        with pytest.raises(InputError, match=r"minigrad.json has another 'mean' of this run already"):
            train(small_runs.settings(text, tmp_path / "run", steps=2), guests=[Mean(), Same()])
        train(TrainConfig(resume=str(tmp_path / "run")), guests=[Mean()])
    assert "mean" in read_json(tmp_path / "run" / "minigrad.json")["result"]


def test_two_states_never_have_one_name() -> None:
    def named(name: str) -> Nameless:
        guest = Nameless()
        guest.name = name
        return guest

    check_guests([named("one"), named("two"), Guest(), Guest()])
    for names in (["one", "two", "one"], ["samples"], ["best"]):
        with pytest.raises(InputError, match=f"another state under the name '{names[-1]}': give Nameless another one"):
            check_guests(map(named, names))
