"""train.py on bad input and on faults: one paragraph, the exit code, and nothing lost."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import generate
import train as train_program
from minigrad.formats.json_files import write_json
from minigrad.formats.safetensors import save_tensors
from minigrad.system import terminal
from minigrad.system.locks import FolderLock
from minigrad.training import preparation
from minigrad.training.folder import checkpoint
from minigrad.training.run import Run
from tests.killed_runs import stop
from tests.small_runs import flags, record, refusal, run, settings, write_text
from tokenizer import disk

ROOT = Path(__file__).parents[2]


def test_help_and_a_mistyped_flag_or_field_need_neither_numpy_nor_numba():
    script = (
        "import sys\nfrom train import main\n"
        "for word in ('--help', '--stepz', '--threads=0', '--set=wdith=192'):\n"
        "    try: sys.exit(main([word]))\n"
        "    except SystemExit as stop: print('code', stop.code)\n"
        "assert not {'numpy', 'numba', 'regex', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.findall(r"code \d", done.stdout) == ["code 0", "code 2", "code 2", "code 2"]
    assert re.findall(r"did you mean '?([\w-]+)", done.stderr) == ["--steps", "width"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--stepz 4", "unknown flag --stepz; did you mean --steps?"),
        ("--learning-rate 1", "unknown flag --learning-rate; did you mean --lr?"),
        ("--model-size nano", "unknown flag --model-size; did you mean --size?"),
        ("--text FILE", "unknown flag --text; did you mean --data?"),
        ("--weights RUN", "unknown flag --weights; did you mean --init?"),
        ("vidya-v2", "unexpected argument 'vidya-v2'; did you mean --model vidya-v2?"),
        ("1.5b", "unexpected argument '1.5b'; did you mean --size 1.5b?"),
        ("my.txt", "unexpected argument 'my.txt'; did you mean --data my.txt?"),
        ("resume", "unexpected argument 'resume'; did you mean --resume?"),
        ("--model vidia-v2", "unknown model 'vidia-v2'; did you mean 'vidya-v2'? Known: "),
        ("--size nanno", "unknown size of vidya-v2 'nanno'; did you mean 'nano'? Known: auto, nano, "),
        ("--size auot", "unknown size of vidya-v2 'auot'; did you mean 'auto'?"),
        ("--data python-dosc", "there is no data called 'python-dosc'. Did you mean python-docs"),
        ("--steps 5 --minutes 1", "--steps and --minutes both say how long to train; give one of them"),
        ("--steps 5 --tokens 9", "--steps and --tokens both say how long to train; give one of them"),
        ("--vocab 258 --tokenizer vidya-v1", "--vocab takes a whole number of at least 259"),
        ("--vocab 260", "--vocab takes at least 261, for 256 bytes and 5 special tokens, not 260"),
        ("--vocab 300 --tokenizer x", "--vocab is for training a tokenizer, but --tokenizer brings one"),
        ("--init nowhere", "nowhere is not a run folder, nor a model that comes with minigrad (vidya-v2-"),
        ("--init no/where", "--init no/where is not a folder"),
        ("--tokenizer nowhere", "cannot read nowhere: No such file or directory."),
        ("--resume nowhere", "there is no run folder nowhere"),
        ("--resume", "there is no run under runs/ to continue; name its folder: --resume DIR"),
        ("--resume .", ". is not a run folder of train.py: it has no minigrad.json"),
        ("--resume a --out b", "--resume a continues in that folder, so --out cannot be given with it"),
        ("--context 4000", "--context 4000 is longer than the model's context of 2048; take at most 2048"),
        ("--batch 900000000", "needs about"),
        ("--threads 300", "--threads takes a whole number of at least 1 and at most 256, not '300'"),
    ],
)
def test_a_bad_argument_gets_one_paragraph_and_nothing_is_written(
    capsys, monkeypatch, tmp_path, text, arguments, message
):
    monkeypatch.chdir(tmp_path)
    more = [] if re.search("--(steps|resume)", arguments) else ["--steps", "1"]  # short, if it is accepted by mistake
    more += [] if "--data" in arguments or "--resume" in arguments else ["--data", text]
    more += [] if re.search("--(size|model|resume)", arguments) else ["--size", "nano"]
    assert message in refusal(capsys, *arguments.split(), *more)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no data called"),
        (b"", "holds no text"),
        (b"\x00\x01\x02 binary", "is not UTF-8 text"),
        ("caf\xe9 au lait".encode("latin-1"), "is not UTF-8 text"),
        (b"x", "too little"),
        (b"to be or not to be", "18 bytes of text is too little for three parts"),
        (b"to be or not to be that is the question\n" * 3, "use a smaller --context, more text, or --documents packed"),
    ],
)
def test_text_that_cannot_be_used(capsys, tmp_path, content, message):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    error = refusal(capsys, *flags(settings(path, tmp_path / "run", context=32, documents="windows")))
    assert message in error
    assert not (tmp_path / "run").exists()


def test_nothing_is_overwritten(capsys, text, copy):
    before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    again = flags(settings(text, copy))
    assert refusal(capsys, *again) == (
        f"{copy} exists and is left as it is: continue it with --resume {copy}, or choose another --out"
    )
    file = copy / "config.json"
    assert refusal(capsys, *flags(settings(text, file))) == f"--out {file} is a file; name a folder"
    assert "cannot be made, because" in refusal(capsys, *flags(settings(text, file / "run")))
    assert before == {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}


def test_a_run_refuses_every_flag_that_differs_even_one_that_is_a_default(capsys, finished):
    error = refusal(capsys, "--resume", finished, "--lr", 0.5, "--seed", 0, "--steps", 12, "--vocab", 300)
    assert "--lr 0.5 (the run has 0.0" in error
    assert "--seed 0 (the run has 3)" in error
    assert "--steps" not in error.partition("Leave")[0]
    assert "--vocab" not in error
    assert "--steps 11 (the run has 12)" in refusal(capsys, "--resume", finished, "--steps", 11)


@pytest.mark.parametrize(
    "name",
    [
        "minigrad.json",
        "tokenizer.json",
        "checkpoints/12/model.safetensors",
        "checkpoints/12/optimizer.safetensors",
        "checkpoints/12/state.json",
    ],
)
@pytest.mark.parametrize("damage", ["cut", "foreign", "missing"])
def test_a_damaged_run_is_refused_and_its_file_named(capsys, copy, name, damage):
    path = copy / name
    if damage == "cut":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif damage == "missing":
        path.unlink()
    elif path.suffix == ".json":
        path.write_text('{"from": "elsewhere"}', encoding="utf-8")
    else:
        save_tensors(path, {"other": np.zeros(3, np.float32)})
    error = refusal(capsys, "--resume", copy, "--steps", 13)
    foreign_weights = damage == "foreign" and name.endswith("safetensors")
    assert ("do not fit the model: missing" if foreign_weights else path.name) in error


def test_a_damaged_setting_is_named(capsys, copy):
    content = record(copy)
    content["settings"]["batch"] = "many"
    write_json(copy / "minigrad.json", content)
    assert "minigrad.json is damaged: batch takes a whole number" in refusal(capsys, "--resume", copy)


def test_a_run_does_not_continue_with_another_text(capsys, tmp_path):
    text = write_text(tmp_path / "words.txt")
    run(text, tmp_path / "run", steps=2)
    text.write_text(text.read_text(encoding="utf-8").replace("question", "answer"), encoding="utf-8")
    error = refusal(capsys, "--resume", tmp_path / "run", "--steps", 4)
    assert "is not the one that" in error
    assert f"--init {tmp_path / 'run'} --out DIR" in error


def test_a_full_disk_ends_the_run_with_1_and_the_checkpoint_before_survives(capsys, monkeypatch, text, tmp_path):
    write = checkpoint.write_tensors

    def write_until_full(path: Path, *rest: Any) -> None:
        if "10" in path.parent.name:
            raise OSError(28, "No space left on device")
        write(path, *rest)

    monkeypatch.setattr(checkpoint, "write_tensors", write_until_full)
    error = refusal(capsys, *flags(settings(text, tmp_path / "run")), code=1)
    assert "cannot save step 10" in error
    assert error.endswith("No space left on device; the checkpoint of step 5 is intact")
    assert checkpoint.load(tmp_path / "run").step == 5


def test_a_disk_that_refuses_the_folder_is_a_fault_not_bad_input(capsys, monkeypatch, text, tmp_path):
    make = Path.mkdir

    def refuse(path: Path, *rest: Any, **options: Any) -> None:
        if path.is_relative_to(tmp_path):
            raise PermissionError(13, "Permission denied")
        make(path, *rest, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)
        error = refusal(capsys, *flags(settings(text, tmp_path / "run")), code=1)
    assert error == f"cannot write the folder {tmp_path / 'run'}: Permission denied"


def test_a_disk_that_refuses_the_tokenizer_is_a_fault_not_bad_input(capsys, monkeypatch, text, tmp_path):
    def refuse(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(disk.os, "fsync", refuse)
        error = refusal(capsys, *flags(settings(text, tmp_path / "run")), code=1)
    assert error == f"cannot write the folder {tmp_path / 'run'}: No space left on device"


def test_a_package_that_is_not_installed_is_named_with_the_way_out(capsys, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'numba'")

    monkeypatch.setattr(train_program, "train", fail)
    assert train_program.main([]) == 1
    assert re.fullmatch(r"train\.py: No module named 'numba'; .* -m pip install -e .*\n", capsys.readouterr().err)


def test_a_name_that_no_file_can_have_is_explained(capsys, text):
    for flag in ("out", "resume", "init"):
        error = refusal(capsys, f"--data={text}", "--size=nano", "--steps=1", f"--{flag}={'x' * 300}")
        assert re.search("name too long|not a run folder|is not a folder", error)


def test_an_error_of_the_system_without_details_is_printed_as_it_is(capsys, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError("cannot load library")

    monkeypatch.setattr(train_program, "train", fail)
    assert refusal(capsys, code=1) == "cannot load library"


def test_a_bug_is_not_reported_as_bad_input(monkeypatch):
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(train_program, "train", fail)
    with pytest.raises(ValueError, match="a bug"):
        train_program.main([])


def test_an_interrupt_names_the_run_that_had_begun(capsys, monkeypatch, text, tmp_path):
    def interrupt() -> None:
        raise KeyboardInterrupt  # as a second Ctrl-C does

    folder = tmp_path / "run"
    stop(monkeypatch, 2, interrupt)
    assert train_program.main(flags(settings(text, folder))) == 130
    again = terminal.command("train.py", "--resume", folder)
    assert capsys.readouterr().err == f"\ninterrupted; continue with: {again}\n"


def test_full_memory_and_an_early_interrupt_are_explained(capsys, monkeypatch):
    def end(error: BaseException) -> int:
        monkeypatch.setattr(preparation, "plan_run", Mock(side_effect=error))
        return train_program.main([])

    assert end(MemoryError()) == 1
    assert "memory is full; take a smaller --size or --batch" in capsys.readouterr().err
    assert end(KeyboardInterrupt()) == 130
    assert "interrupted; a run that had begun continues with --resume DIR" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ({"lr": 1e30}, r"\w+ made \d+ NaN and \d+ infinities out of finite input"),
        (
            {"lr": 1e300},
            r"diverged at step 1: AdamW made weights that are not finite; the learning rate",
        ),
    ],
)
def test_divergence_ends_the_run_with_1_and_names_the_operation(capsys, text, tmp_path, changes, culprit):
    error = refusal(capsys, *flags(settings(text, tmp_path / "run", save_every=1, **changes)), code=1)
    assert re.search(culprit, error)
    assert "no checkpoint was saved yet. A new run with a smaller --lr" in error
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_weights_that_are_not_finite_are_found_before_they_are_saved(capsys, monkeypatch, text, tmp_path):
    take_step = train_program.take_step

    def poison(self: Run) -> tuple[float, float]:
        result = take_step(self)
        if self.step == 7:
            self.model.parameters()[1].data[0] = np.nan
        return result

    monkeypatch.setattr(train_program, "take_step", poison)
    error = refusal(capsys, *flags(settings(text, tmp_path / "run")), code=1)
    assert "training diverged at step 8: " in error
    assert "the checkpoint of step 5 is intact" in error
    assert checkpoint.steps(tmp_path / "run") == [5]


def test_a_second_process_is_refused_and_changes_nothing(capsys, copy):
    with FolderLock() as writer:
        writer.take(copy)
        before = {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
        assert "is being written by another process" in refusal(capsys, "--resume", copy, "--steps", 20)
        assert before == {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
        assert train_program.main(["--resume", str(copy), "--plan"]) == 0
        assert generate.main([str(copy), "--tokens", "3"]) == 0
        assert before == {path: path.read_bytes() for path in copy.rglob("*") if path.is_file()}
    assert train_program.main(["--resume", str(copy), "--steps", "14"]) == 0


def test_of_two_new_runs_in_one_folder_one_is_refused(capsys, monkeypatch, text, tmp_path):
    """Another process makes the folder while this one reads its text."""
    encode = preparation.encode

    def encode_while_another_begins(*arguments):
        (tmp_path / "run").mkdir()
        writer.take(tmp_path / "run")
        return encode(*arguments)

    monkeypatch.setattr(preparation, "encode", encode_while_another_begins)
    with FolderLock() as writer:
        error = refusal(capsys, *flags(settings(text, tmp_path / "run")))
    assert "is being written by another process" in error
    assert list((tmp_path / "run").iterdir()) == []


def test_nothing_is_left_locked_after_a_run(text, tmp_path):
    run(text, tmp_path / "run", steps=2)
    with FolderLock() as lock:
        lock.take(tmp_path / "run")
    run(text, tmp_path / "run2", steps=2)
