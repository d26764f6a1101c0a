"""True processes under a true mpiexec (extra `distributed`) train as one, and end together."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from minigrad.training.folder import checkpoint, metrics
from tests import small_runs
from tests.source_files import ROOT

pytestmark = pytest.mark.peers
pytest.importorskip("mpi4py")
MPIEXEC = Path(sys.executable).with_name("mpiexec")
if not MPIEXEC.exists():
    pytest.skip("no mpiexec beside this Python", allow_module_level=True)

SETTINGS = {
    "model": "vidya-v2", "size": "nano", "vocab": 300, "context": 32, "threads": 1, "dropout": 0.1, "steps": 20,
    "log-every": 1, "eval-every": 10, "save-every": 5, "sample-every": 20, "lr": 1e-3, "precision": "float32",
    "set": "num_layers=2,width=48,head_dim=16,feed_forward=64",
}  # fmt: skip


def start(processes: int, *flags: object, **settings: object) -> subprocess.Popen[str]:
    words = [f"--{name}={value}" for name, value in settings.items()]
    command = [sys.executable, str(ROOT / "train.py"), *words, *map(str, flags)]
    launcher = [str(MPIEXEC), "-n", str(processes)] if processes > 1 else []
    return subprocess.Popen([*launcher, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def run(processes: int, *flags: object, code: int = 0, **settings: object) -> tuple[str, str]:
    process = start(processes, *flags, **settings)
    out, error = process.communicate(timeout=240)
    assert process.returncode == code, error
    return out, error


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_runs.write_text(tmp_path_factory.mktemp("text") / "words.txt")


def losses(folder: Path) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([line["loss"] for line in metrics.read(folder)])


@pytest.mark.parametrize("optimizer", ["adamw", "muon"])
def test_two_processes_follow_the_losses_of_one_and_of_a_resume_in_three(
    text: Path, tmp_path: Path, optimizer: str
) -> None:
    settings = SETTINGS | {"data": text, "optimizer": optimizer}
    run(1, **settings, batch=12, out=tmp_path / "one")
    out, _ = run(2, **settings, batch=6, out=tmp_path / "two")
    assert out.count("run folder") == 1
    assert "mpiexec -n 2 " in out
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=1e-5)
    run(2, **settings | {"steps": 10}, batch=6, out=tmp_path / "three")
    out, _ = run(3, "--resume", tmp_path / "three", "--steps", 20)
    assert "has been trained by 2 processes so far, and continues with 3" in out
    assert len(losses(tmp_path / "three")) == 20
    run(2, **settings, batch=6, out=tmp_path / "again")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("two", "again")]
    assert weights[0] == weights[1]


@pytest.mark.parametrize("family", ["gpt2", "vidya-v2"])
def test_the_stages_of_a_pipeline_follow_the_losses_of_one_and_of_a_resume_in_three_and_in_one(
    text: Path, tmp_path: Path, family: str
) -> None:
    shape = {"gpt2": "num_layers=3,width=48,feed_forward=64", "vidya-v2": f"{SETTINGS['set']}".replace("=2", "=3", 1)}
    settings = SETTINGS | {"data": text, "model": family, "set": shape[family], "batch": 3}
    run(1, **settings, accumulate=4, out=tmp_path / "one")
    out, _ = run(2, "--pipeline", **settings, accumulate=2, out=tmp_path / "two")
    assert "2, which share the layers" in " ".join(out.split())
    assert "--pipeline" in out[out.index("repeat ") :]
    np.testing.assert_allclose(losses(tmp_path / "two"), losses(tmp_path / "one"), rtol=1e-5)
    scores = [json.loads((tmp_path / name / "minigrad.json").read_text("utf-8"))["result"] for name in ("one", "two")]
    assert scores[1]["bits_per_byte"] == pytest.approx(scores[0]["bits_per_byte"], rel=1e-4)
    run(2, "--pipeline", **settings | {"steps": 5}, accumulate=2, out=tmp_path / "three")
    run(3, "--resume", tmp_path / "three", "--steps", 10)
    run(1, "--resume", tmp_path / "three", "--steps", 20)
    assert len(losses(tmp_path / "three")) == 20
    run(2, "--pipeline", **settings, accumulate=2, out=tmp_path / "again")
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("two", "again")]
    assert weights[0] == weights[1]


def test_what_a_pipeline_cannot_do_is_refused(text: Path, tmp_path: Path) -> None:
    settings = SETTINGS | {"data": text, "batch": 3, "out": tmp_path / "run"}
    _, error = run(1, "--pipeline", code=2, **settings)
    assert "start it with mpiexec -n 2 or more" in error
    _, error = run(2, "--pipeline", code=2, **settings | {"model": "wiola", "set": "num_layers=6"})
    assert error.count("train.py: ") == 1
    assert "the layers of wiola read those of several" in error
    _, error = run(3, "--pipeline", code=2, **settings)
    assert "2 layers cannot be divided among 3 processes" in error
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("flags", [[], ["--pipeline"]])
def test_a_process_that_dies_ends_the_job_which_continues_from_its_checkpoint(
    text: Path, tmp_path: Path, flags: list[str]
) -> None:
    settings = SETTINGS | {"data": text, "batch": 6}
    run(2, *flags, **settings, out=tmp_path / "whole")
    process = start(2, *flags, **settings | {"steps": 2_000}, out=tmp_path / "killed")
    while not checkpoint.steps(tmp_path / "killed"):
        assert process.poll() is None
        time.sleep(0.05)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text(encoding="ascii").split()
    ranks = [
        int(rank)
        for child in children
        for rank in Path(f"/proc/{child}/task/{child}/children").read_text(encoding="ascii").split()
    ]
    os.kill(ranks[1], signal.SIGKILL)
    _, error = process.communicate(timeout=60)
    assert process.returncode
    assert "train.py: a process of this run ended early, so all did; the checkpoint of step " in error
    assert f"mpiexec -n 2 {sys.executable}" in error
    assert checkpoint.load(tmp_path / "killed").step == checkpoint.steps(tmp_path / "killed")[-1]


def test_bad_input_is_explained_once(text: Path, tmp_path: Path) -> None:
    for flags in (["--no-such-flag"], ["--steps", 5, "--tokens", 7], ["--data", tmp_path / "nothing"]):
        _, error = run(2, *flags, code=2)
        assert error.count("train.py: ") == 1


def test_processes_that_read_different_texts_are_refused(text: Path, tmp_path: Path) -> None:
    other = small_runs.write_text(tmp_path / "other.txt", lines=1_400)
    words = [f"--{name}={value}" for name, value in (SETTINGS | {"batch": 6, "out": tmp_path / "run"}).items()]
    command = [sys.executable, str(ROOT / "train.py"), *words]
    both = [str(MPIEXEC), "-n", "1", *command, f"--data={text}", ":", "-n", "1", *command, f"--data={other}"]
    done = subprocess.run(both, capture_output=True, text=True, cwd=ROOT, timeout=240, check=False)
    assert done.returncode == 2
    assert "the processes disagree on the text, by its hash: process 0 on " in done.stderr
    assert not (tmp_path / "run").exists()


def test_a_signal_saves_once_and_stops_all(text: Path, tmp_path: Path) -> None:
    process = start(2, **SETTINGS | {"data": text, "batch": 6, "steps": 5_000, "out": tmp_path / "run"})
    while not (tmp_path / "run" / "metrics.jsonl").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, error = process.communicate(timeout=60)
    assert "saved; continue with: mpiexec -n 2 " in error
    assert process.returncode == 143
    step = checkpoint.load(tmp_path / "run").step
    assert json.loads((tmp_path / "run" / "minigrad.json").read_text(encoding="utf-8"))["processes"] == 2
    assert metrics.read(tmp_path / "run")[-1]["step"] == step
