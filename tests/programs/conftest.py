"""Whole runs, small enough to take a second: their text, a finished one, and a copy of it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.small_runs import quick_runs, run, write_text


@pytest.fixture(autouse=True, scope="module")
def _quickly() -> Iterator[None]:
    with quick_runs():
        yield


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("text") / "words.txt")


@pytest.fixture(scope="session")
def finished(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of 12 steps, which tests must not change."""
    with quick_runs():
        return run(text, tmp_path_factory.mktemp("finished") / "run", steps=12, log_every=2).out


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, which a test may change."""
    return Path(shutil.copytree(finished, tmp_path / "copy"))
