"""The files for transformers: what is written beside a model, what stays as it was, and which folders are refused.

`tests/peers/test_shifted_keys.py` runs the files in transformers.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
from minigrad.formats.transformers.__main__ import CLASSES, FILES, main
from minigrad.system.locks import LOCK_FILE, FolderLock
from tests.models import tiny
from tests.test_english import refused_in

IDS = np.arange(tiny.VOCAB)[None]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    tiny.build("vidya-v2").save(tmp_path / "run")
    return tmp_path / "run"


def config_of(folder: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    return content


def test_our_model_stays_as_it_is(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entries, before = config_of(run), models.load(run)
    for _ in range(2):  # the second time they are there
        assert main([str(run)]) == 0
        assert "trust_remote_code=True" in capsys.readouterr().out
    assert config_of(run) == entries | {"auto_map": CLASSES}
    after = models.load(run)
    assert after.config == before.config
    assert np.array_equal(after(IDS).data, before(IDS).data)
    after.save(run)
    assert config_of(run) == entries | {"auto_map": CLASSES}


def test_a_file_that_was_changed_is_not_overwritten(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    own = run / FILES[1]
    own.write_text("# my own work\n", encoding="utf-8")
    assert main([str(run)]) == 2
    assert "has another content and is not overwritten" in capsys.readouterr().err
    assert own.read_text(encoding="utf-8") == "# my own work\n"
    assert not (run / FILES[0]).exists()
    assert "auto_map" not in config_of(run)


def test_a_folder_into_which_another_process_writes_stays_as_it_is(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with FolderLock() as lock:
        lock.take(run)
        assert main([str(run)]) == 2
    assert f"{run} is being written by another process" in capsys.readouterr().err
    assert "auto_map" not in config_of(run)
    assert main([str(run)]) == 0
    assert not (run / LOCK_FILE).exists()


def test_the_classes_that_config_json_names_are_in_the_files(run: Path) -> None:
    assert main([str(run)]) == 0
    for place in config_of(run)["auto_map"].values():
        module, name = place.split(".")
        tree = ast.parse((run / f"{module}.py").read_text(encoding="utf-8"))
        assert name in [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    written = {each.name for each in run.iterdir() if each.suffix == ".py"}
    assert written == {*FILES}
    assert not [fault for name in FILES for fault in refused_in((run / name).read_text(encoding="utf-8"))]


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"model_type": "llama"}, "transformers opens the folder as it is"),
        ({"model_type": "gpt2"}, "transformers opens the folder as it is"),
        ({"model_type": "wiola"}, "'wiola'; there are files for Vidya v2 alone"),
        ({"model_type": None}, "Vidya v2 alone"),
        ({"num_local_experts": 4}, "describes experts"),
        ({"quantization_config": {"bits": 8}}, "the weights are quantised"),
    ],
)
def test_another_model_is_refused_and_nothing_is_written(
    run: Path, entries: dict[str, Any], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    changed = config_of(run) | entries
    (run / "config.json").write_text(json.dumps(changed), encoding="utf-8")
    assert main([str(run)]) == 2
    assert message in capsys.readouterr().err
    assert config_of(run) == changed
    assert not list(run.glob("*.py"))


def test_a_folder_without_a_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(tmp_path)]) == 2
    assert "is not a run folder: it has no config.json" in capsys.readouterr().err
