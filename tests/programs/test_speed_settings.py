"""Precision, matmul backend, recomputed layers and the profile, as flags of a run."""

from __future__ import annotations

import re
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
import train as train_program
from minigrad.formats.json_files import read_json
from minigrad.kernels.cpu import Block
from minigrad.kernels.gemm import backend as products
from minigrad.training.folder import metrics
from minigrad.training.run import Run
from minigrad.training.settings import TrainConfig
from tests.command_words import command_words
from tests.killed_runs import killed_at
from tests.small_runs import outcome, record, run, settings
from train import train

CHOICES: dict[str, dict[str, Any]] = {
    "bfloat16": {"precision": "bfloat16"},
    "our own product": {"precision": "float32", "matmul": "numba"},
    "both": {"precision": "bfloat16", "matmul": "numba"},
    "checkpointing": {"precision": "float32", "checkpointing": True},
    "everything": {"precision": "bfloat16", "matmul": "numba", "checkpointing": True},
}
HARD = {"dropout": 0.2, "accumulate": 2}

every_choice = pytest.mark.parametrize("choice", CHOICES)
if products.FLOAT32 is None:
    pytestmark = pytest.mark.filterwarnings("ignore:this processor has no vector registers")


@pytest.fixture(scope="module")
def plain(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 30 steps in float32 by BLAS."""
    return run(text, tmp_path_factory.mktemp("plain") / "run", precision="float32", **HARD).out


@pytest.fixture(scope="module")
def wholes(text: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same run with each of the settings, never stopped."""
    root = tmp_path_factory.mktemp("wholes")
    return {name: run(text, root / name.replace(" ", "-"), **HARD, **choice).out for name, choice in CHOICES.items()}


def products_of_runs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Return a list of the products that each run begins with from now on."""
    found, begin = list[tuple[str, str]](), Run.begin
    monkeypatch.setattr(Run, "begin", lambda self: (found.append(products.in_use()), begin(self)))
    return found


def losses(folder: Path) -> Any:
    return np.array([line["loss"] for line in metrics.read(folder)])


@every_choice
def test_a_stopped_and_continued_run_equals_the_uninterrupted_run(
    monkeypatch: pytest.MonkeyPatch, text: Path, tmp_path: Path, wholes: dict[str, Path], choice: str
) -> None:
    killed_at(monkeypatch, 17, settings(text, tmp_path / "run", **HARD, **CHOICES[choice]))
    used = products_of_runs(monkeypatch)
    assert train(TrainConfig(resume=str(tmp_path / "run"))) is not None
    assert outcome(tmp_path / "run") == outcome(wholes[choice])
    wanted = CHOICES[choice].get("matmul", "auto"), CHOICES[choice]["precision"]
    instead = ("blas", wanted[1]) if wanted[0] == "numba" and products.FLOAT32 is None else wanted
    assert used == [instead]


@every_choice
def test_the_printed_command_repeats_the_run(wholes: dict[str, Path], choice: str) -> None:
    folder = wholes[choice]
    command = str(record(folder)["result"]["command"])
    for name, value in CHOICES[choice].items():
        assert f"--{name}" + ("" if value is True else f" {value}") in command
    assert train_program.main(command_words(command)[2:]) == 0
    assert outcome(Path(f"{folder}-again")) == outcome(folder)


@every_choice
def test_the_loss_stays_close_to_that_of_float32(plain: Path, wholes: dict[str, Path], choice: str) -> None:
    near, wanted = losses(wholes[choice]), losses(plain)
    assert len(near) == 30
    if CHOICES[choice]["precision"] == "bfloat16":
        # The first loss differs by the rounding of factors to 8 bits. Then AdamW's first updates, which are as large
        # for a gradient near 0 as for any, let the differences grow.
        assert 0 < np.abs(near - wanted)[0] < 1e-4
        assert np.abs(near - wanted)[:2].max() < 2e-3
        assert np.abs(near - wanted).max() < 0.03 * (wanted[0] - wanted[-1])
    else:
        np.testing.assert_allclose(near, wanted, rtol=1e-4)
    assert wanted[-1] < wanted[0] - 0.5  # the model has learned something, or equal losses would prove little


def test_recomputing_changes_no_bit_of_a_run(plain: Path, wholes: dict[str, Path]) -> None:
    assert outcome(wholes["checkpointing"]) == outcome(plain)
    assert outcome(wholes["everything"]) == outcome(wholes["both"])


def test_layers_are_recomputed_with_checkpointing_only(
    monkeypatch: pytest.MonkeyPatch, text: Path, tmp_path: Path
) -> None:
    seen = []
    begin = Run.begin
    monkeypatch.setattr(Run, "begin", lambda self: (seen.append(_recomputed(self.model)), begin(self)))
    run(text, tmp_path / "with", steps=2, checkpointing=True)
    run(text, tmp_path / "without", steps=2)
    assert train(TrainConfig(resume=str(tmp_path / "with"), steps=3)) is not None
    assert seen == [[True, True], [False, False], [True, True]]


def _recomputed(model: Any) -> list[bool]:
    return [layer.recomputed for layer in model.model.layers]


def test_weights_moments_and_the_published_file_stay_float32(wholes: dict[str, Path]) -> None:
    from minigrad.training.folder import checkpoint

    saved = checkpoint.load(wholes["bfloat16"])
    assert {array.dtype for array in (*saved.weights.values(), *saved.moments.values())} == {np.dtype(np.float32)}
    assert read_json(wholes["bfloat16"] / "config.json")["torch_dtype"] == "float32"
    assert models.load(wholes["bfloat16"]).num_parameters() > 0


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--precision", "float32"], "--precision float32 (the run has bfloat16)"),
        (["--matmul", "numba"], "--matmul numba (the run has auto)"),
        (["--checkpointing"], "--checkpointing True (the run has False)"),
    ],
)
def test_a_continued_run_keeps_its_precision_and_backend(
    capsys: pytest.CaptureFixture[str], wholes: dict[str, Path], flags: list[str], message: str
) -> None:
    assert train_program.main(["--resume", str(wholes["bfloat16"]), *flags]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("begins_with", [True, False])
def test_a_run_continues_in_the_precision_that_it_began_with_on_any_processor(
    monkeypatch: pytest.MonkeyPatch, text: Path, tmp_path: Path, begins_with: bool
) -> None:
    precision = "bfloat16" if begins_with else "float32"
    monkeypatch.setattr(products, "multiplies_bfloat16", lambda: begins_with)
    result = run(text, tmp_path / "run", steps=2)
    assert record(tmp_path / "run")["settings"]["precision"] == "auto"
    assert record(tmp_path / "run")["chosen"]["precision"] == precision
    assert f"--precision {precision} " in result.command
    monkeypatch.setattr(products, "multiplies_bfloat16", lambda: not begins_with)
    used = products_of_runs(monkeypatch)
    assert train(TrainConfig(resume=str(tmp_path / "run"), steps=3)) is not None
    assert used == [("auto", precision)]
    assert record(tmp_path / "run")["chosen"]["precision"] == precision
    assert f"--precision {precision} " in record(tmp_path / "run")["result"]["command"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--precision", "float16"], "--precision takes one of auto, float32, float64, bfloat16, not 'float16'"),
        (["--matmul", "gpu"], "--matmul takes one of auto, blas, numba, not 'gpu'"),
    ],
)
def test_an_unknown_choice_is_refused(capsys: pytest.CaptureFixture[str], flags: list[str], message: str) -> None:
    assert train_program.main(["--steps", "1", *flags]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "bfloat16 by AVX512-BF16"),
        ({"matmul": "blas"}, "float32 by BLAS"),
        ({"precision": "float32"}, "float32 by BLAS"),
        ({"precision": "float64"}, "float64 by BLAS"),
        ({"precision": "float32", "matmul": "numba"}, "float32 by our own loops"),
        ({"precision": "bfloat16"}, "bfloat16 by AVX512-BF16"),
    ],
)
def test_the_plan_names_the_matmul_backend(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    text: Path,
    tmp_path: Path,
    changes: dict[str, Any],
    said: str,
) -> None:
    if changes.get("matmul") and products.FLOAT32 is None:
        pytest.skip("our own loops have no registers to work with")
    monkeypatch.setattr(products, "BFLOAT16", Block("bfloat16", rows=12, columns=32, lanes=16, parts=1))
    monkeypatch.setattr(products, "SPLIT", None)
    monkeypatch.setattr(products.blas, "openblas_core", lambda: "")
    assert train(settings(text, tmp_path / "run", plan=True, **changes)) is None
    plan = " ".join(capsys.readouterr().out.split())
    assert f"; matrix products at 100 GFLOP/s ({said}) " in plan


# The profile.


def table_of(said: str) -> list[str]:
    """Return the lines of the profile in what a run printed."""
    lines = said.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("operation "))
    last = next(number for number, line in enumerate(lines) if line.startswith("products: "))
    return lines[first : last + 1]


@pytest.mark.parametrize("changes", [{}, CHOICES["everything"]], ids=["plain", "everything"])
def test_the_profile_is_printed_and_changes_nothing(
    capsys: pytest.CaptureFixture[str], text: Path, tmp_path: Path, changes: dict[str, Any]
) -> None:
    result = run(text, tmp_path / "with", steps=6, profile=True, **HARD, **changes)
    table = table_of(capsys.readouterr().out)
    names = {tuple(line.split()[:2]) for line in table[1:-3]}
    assert {("linear", "forward"), ("linear", "backward"), ("attention", "backward"), ("AdamW", "update")} <= names
    assert (("recompute", "backward") in names) == bool(changes.get("checkpointing"))
    calls = {tuple(line.split()[:2]): int(line.split()[2]) for line in table[1:-3]}
    assert calls["AdamW", "update"] == 1
    assert calls["linear_cross_entropy", "forward"] == HARD["accumulate"]
    assert re.fullmatch(
        r"products: \d+\.\d GFLOP a step; at 100 GFLOP/s, measured before the run, they alone would take "
        r"\d+% of the time",
        table[-1],
    )
    run(text, tmp_path / "without", steps=6, **HARD, **changes)
    assert "operation " not in capsys.readouterr().out
    assert outcome(tmp_path / "with") == outcome(tmp_path / "without")
    assert "profile" not in record(tmp_path / "with")["settings"] | record(tmp_path / "with")["chosen"]
    assert "--profile" not in result.command


def test_any_run_can_be_continued_with_a_profile_also_one_that_is_finished(
    capsys: pytest.CaptureFixture[str], plain: Path, tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(plain, tmp_path / "copy"))
    assert train_program.main(["--resume", str(copy), "--profile"]) == 0
    assert "\nno step was measured\n" in capsys.readouterr().out
    assert outcome(copy) == outcome(plain)
    assert train_program.main(["--resume", str(copy), "--steps", "33", "--profile"]) == 0
    said = capsys.readouterr().out
    assert table_of(said)
    assert "profile" not in record(copy)["settings"]
    assert train_program.main(["--resume", str(copy), "--steps", "35"]) == 0
    assert "operation " not in capsys.readouterr().out
