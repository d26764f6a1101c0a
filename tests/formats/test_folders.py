"""Folders of models and runs: what is missing in one, and which one was meant."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from minigrad.errors import InputError
from minigrad.formats.folders import check_folder, did_you_mean


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def make(folder: str, file: str = "config.json") -> None:
    Path(folder).mkdir(parents=True, exist_ok=True)
    (Path(folder) / file).write_text("{}", encoding="utf-8")


def refusal(folder: str) -> str:
    with pytest.raises(InputError) as caught:
        check_folder(Path(folder))
    return str(caught.value).replace(os.sep, "/")


def meant(folder: str, *names: str) -> str:
    return did_you_mean(Path(folder), "config.json", names).replace(os.sep, "/")


def test_a_folder_is_meant_by_its_last_name_beside_a_path_and_in_runs(here: Path) -> None:
    assert meant("mine") == meant("else/where") == ""
    make("runs/mine")
    make("else/where")
    make("runs/other", "minigrad.json")
    assert meant("mine") == meant("MINE") == meant("runs/mien") == meant("run/mine") == "; did you mean runs/mine?"
    assert meant("else/wher") == "; did you mean else/where?"
    assert meant("other") == meant("qqq") == ""
    make("mine")
    assert meant("mien") == "; did you mean mine?"  # the nearer of two of one name


def test_a_place_in_a_run_folder_is_meant_for_the_run(here: Path) -> None:
    make("runs/mine", "minigrad.json")
    make("runs/mine/best")
    make("runs/mine/checkpoints/8", "model.safetensors")
    for place in ("best", "checkpoints/8", "checkpoints/8/model.safetensors", "nothing"):
        assert meant(f"runs/mine/{place}") == "; did you mean runs/mine?"
    assert refusal("runs/mine/checkpoints/8").endswith("it has no config.json; did you mean runs/mine?")


def test_a_name_may_be_meant_that_is_no_folder(here: Path) -> None:
    assert meant("nanno", "nano") == "; did you mean nano?"
    make("runs/nanno")
    assert meant("nanno", "nano") == "; did you mean runs/nanno?"


def test_a_folder_without_a_model_is_refused_with_the_reason(here: Path) -> None:
    for file in ("config.json", "adapter_config.json"):
        make(f"with-{file}", file)
        check_folder(Path(f"with-{file}"))
    make("young", "minigrad.json")
    assert refusal("young") == "young has no weights yet: its training has not reached the first checkpoint"
    nowhere = "there is no folder qqq; train.py makes such folders, and vidya-v2-nano comes with minigrad"
    assert refusal("qqq") == nowhere
    Path("empty").mkdir()
    assert refusal("empty") == "empty is not a run folder: it has no config.json"
    make("runs/mine")
    make("runs/yours")
    inside = "did you mean runs/mine or runs/yours?"
    assert refusal("runs") == f"runs is not a run folder: it has no config.json; {inside}"
    assert refusal("runs/mien") == "there is no folder runs/mien; did you mean runs/mine?"


@pytest.mark.skipif(os.name == "nt", reason="Windows makes links for administrators only")
def test_a_link_that_leads_nowhere_is_named(here: Path) -> None:
    Path("hub").mkdir()
    Path("hub/config.json").symlink_to("blob")
    assert refusal("hub") == "hub/config.json is a link to blob, where there is no file"
