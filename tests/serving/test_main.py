"""python -m minigrad.serving: what it loads and says, and one clear paragraph for every mistake."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import models
import tokenizer
from minigrad import InputError
from minigrad.serving.__main__ import listen, load, main, places
from minigrad.serving.settings import ServeConfig
from minigrad.system.terminal import installation
from models.pretrained import FOLDER
from tests.source_files import ROOT

pytest.importorskip("uvicorn")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out, tok = tmp_path_factory.mktemp("serving") / "small", tokenizer.train([], vocab_size=261)
    models.build("vidya-v2", size="nano", vocab_size=261, num_layers=1, context_length=64).save(out)
    tok.save(out)
    return out


def test_models_are_loaded_with_as_many_places_as_fit(folder: Path) -> None:
    (served,) = load(ServeConfig(runs=(str(folder),), texts=5, quantize="int8", context=32))
    assert (served.name, served.scheduler.count, served.scheduler.capacity) == ("small", 5, 32)
    assert places(served).startswith("5 places for chats and texts, each of up to 32 tokens; caches of ")
    smaller = load(ServeConfig(runs=(str(folder),), texts=5, cache_format="int8", context=32))[0].scheduler.places
    share = (48 + 4) / (4 * 48)  # of a head of 48: numbers of one byte and a scale, in place of numbers of four bytes
    assert smaller.cache.num_bytes == served.scheduler.places.cache.num_bytes * share


def test_a_run_that_taught_no_conversation_is_for_texts(folder: Path, tmp_path: Path) -> None:
    taught, untaught = [shutil.copytree(folder, tmp_path / name) for name in ("taught", "untaught")]
    for run, settings in ((taught, {"objective": "sft"}), (untaught, {})):
        (run / "minigrad.json").write_text(json.dumps({"settings": settings, "chosen": {}}), encoding="utf-8")
    found = load(ServeConfig(runs=(str(taught), str(untaught)), context=32))
    assert [each.taught for each in found] == [True, False]
    assert [places(each).partition(",")[0].partition("for ")[2] for each in found] == ["chats and texts", "texts"]


def test_a_model_with_a_damaged_record_is_served(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = shutil.copytree(folder, tmp_path / "damaged")
    (run / "minigrad.json").write_text("{", encoding="utf-8")
    (served,) = load(ServeConfig(runs=(str(run),), context=32))
    assert served.taught is None
    assert "was taught to converse is not known: " in capsys.readouterr().err


def test_a_single_place_is_described_in_the_singular(folder: Path) -> None:
    (served,) = load(ServeConfig(runs=(str(folder),), texts=1))
    assert places(served).startswith("1 place for chats and texts, each of up to 64 tokens; caches of ")


def test_two_folders_of_one_name_are_called_with_the_folder_above(folder: Path, tmp_path: Path) -> None:
    copies = [shutil.copytree(folder, tmp_path / name / "best") for name in "ab"]
    assert [served.name for served in load(ServeConfig(runs=tuple(map(str, copies))))] == ["a/best", "b/best"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "RUN is missing"),
        (["nowhere"], "nowhere"),
        (["a", "--prot", "1"], "did you mean --port"),
        (["vidya-v2-nano", "vidya-v2-nano"], "given twice"),
        (["vidya-v2-nano", str(FOLDER / "vidya-v2-nano")], "given twice"),
        (["vidya-v2-nano", "--host", "256.1.1.1", "--port", "0"], "cannot listen on 256.1.1.1"),
        (
            ["vidya-v2-nano", "--host", "a..é", "--port", "0"],
            "a..é: this is not the name of a computer",
        ),
    ],
)
def test_mistakes_get_one_paragraph(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code = main([*arguments, "--port", "0"] if arguments == ["nowhere"] else arguments)
    error = capsys.readouterr().err
    assert code == 2
    assert message in error
    assert "Traceback" not in error


def test_without_the_extra_the_command_that_installs_it_is_given(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["runs/a"]) == 2
    assert f"starlette is not installed; run: {installation('[serve]')}" in capsys.readouterr().err


def test_a_port_that_is_taken_is_refused() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"^another program uses port {port}: end it, or give another --port$"):
            listen(ServeConfig(runs=("a",), port=port))


@pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
def test_the_program_serves_until_it_is_interrupted(folder: Path) -> None:
    command = [sys.executable, "-m", "minigrad.serving", str(folder), "--port", "0"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True) as program:
        assert program.stderr is not None
        said = ""
        while "serving at " not in said:
            line = program.stderr.readline()
            assert line, said
            said += line
        address = said.split("serving at ")[1].split("/v1")[0]
        with urllib.request.urlopen(f"{address}/health") as reply:
            assert reply.status == 200
        program.send_signal(signal.SIGINT)
        rest = program.stderr.read()
        assert program.wait() == 130
    assert "Traceback" not in said + rest
