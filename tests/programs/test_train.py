"""train.py as a user runs it: the files it writes, its output and its exit codes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import pytest
from safetensors import safe_open

import train as train_program
from minigrad.errors import RunError
from minigrad.formats.json_files import read_json
from minigrad.formats.weights import read_weights
from minigrad.kernels.gemm import backend as products
from minigrad.system import hardware
from minigrad.system.terminal import command
from minigrad.training import keeping, validation
from minigrad.training.folder import checkpoint, metrics
from minigrad.training.run import Run
from minigrad.training.settings import TrainConfig
from models import registry
from tests.command_words import command_words
from tests.killed_runs import killed_at, repeat
from tests.small_runs import flags, outcome, record, refusal, run, settings

ROOT = Path(__file__).parents[2]


def test_only_the_steps_themselves_count_as_training(monkeypatch, text, tmp_path):
    now = [0.0]

    def takes(seconds: float, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(run: Run, *given: Any, **options: Any) -> Any:
            now[0] += seconds
            return function(run, *given, **options)

        return timed

    monkeypatch.setattr(train_program, "take_step", takes(1.0, train_program.take_step))
    for room, name, seconds in (
        (validation, "evaluate", 50.0),
        (validation, "write_sample", 70.0),
        (keeping, "save", 90.0),
    ):
        monkeypatch.setattr(room, name, takes(seconds, getattr(room, name)))
    every = {"log_every": 3, "sample_every": 4, "save_every": 2, "eval_every": 5}
    train_program.train(settings(text, tmp_path / "run", steps=12, **every), clock=lambda: now[0])
    assert [line["tokens_per_second"] for line in metrics.read(tmp_path / "run")] == [32.0] * 7


KERNELS_OF_THE_FIRST_STEP = """
import sys
from pathlib import Path

import train as program
from minigrad.kernels.jit import KERNELS
from tests.small_runs import quick_runs, run

def loaded(*_):
    return {name: len(kernel.signatures) for name, kernel in KERNELS.items()}

def checked(run):
    before = loaded()
    result = take_step(run)
    print({name for name, count in loaded().items() if count > before.get(name, 0)} or "none")
    return result

take_step, program.take_step = program.take_step, checked
with quick_runs():
    run(Path(sys.argv[1]), Path(sys.argv[2]), steps=1, optimizer=sys.argv[3])
"""


@pytest.mark.skipif(numba.config.DISABLE_JIT, reason="nothing is compiled")
@pytest.mark.parametrize("optimizer", ["muon", "adamw", "sgd"])
def test_no_kernel_is_compiled_in_the_first_step(optimizer: str, text: Path, tmp_path: Path) -> None:
    # Its time would be taken for that of every step, and a run of a minute would end after two steps.
    words = [sys.executable, "-c", KERNELS_OF_THE_FIRST_STEP, text, tmp_path / "run", optimizer]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "\nnone\n" in done.stdout, done.stdout + done.stderr


def test_a_comparison_with_xz_for_which_there_is_no_time_says_so(capsys, text, tmp_path):
    result = run(text, tmp_path / "run", minutes=0.002)
    said = capsys.readouterr().out
    assert result.xz_bits_per_byte is None
    assert "compressing the same text with xz" not in said
    assert "(lower is better; no figure of xz: it would have taken about 0s of the 0s)." in said
    assert "no figure of xz: it would have taken" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def test_a_model_that_cannot_generate_is_trained_without_samples(capsys, text, tmp_path):
    run(text, tmp_path / "run", model="wiola", steps=2, sample_every=1, set="gcla_summary=paper")
    said = capsys.readouterr().out
    assert "bits per byte" in said
    assert "generate.py" not in said


def test_a_text_shorter_than_the_context_is_read_several_times_in_a_step(capsys, tmp_path):
    (tmp_path / "short.txt").write_text("to be or not to be, that is the question\n", encoding="utf-8")
    result = run(tmp_path / "short.txt", tmp_path / "run", steps=3, context=64, vocab=261)
    assert "passes over the text" in capsys.readouterr().out
    assert (result.steps, result.tokens) == (3, 3 * 2 * 64)
    assert 0 < result.val_bits_per_byte < 20
    assert result.loss > 0


def test_fields_of_the_config_can_be_set_and_stay_set(capsys, text, tmp_path):
    result = run(text, tmp_path / "run", steps=4, set="rope_theta=777,width=48,norm_eps=1e-6")
    described = read_json(result.out / "config.json")
    assert (described["rope_theta"], described["hidden_size"], described["rms_norm_eps"]) == (777.0, 48, 1e-6)
    assert "--set rope_theta=777,width=48,norm_eps=1e-6" in result.command
    assert train_program.main(["--resume", str(result.out), "--steps", "6"]) == 0
    error = refusal(capsys, "--data", str(text), "--steps", "2", "--set", "widht=3", "--out", str(tmp_path / "other"))
    assert "unknown field of VidyaV2Config 'widht'; did you mean 'width'?" in error
    error = refusal(capsys, "--data", str(text), "--steps", "2", "--set", "width=x", "--out", str(tmp_path / "other"))
    assert "width takes a whole number of at least 1 and at most 1,048,576, not 'x'" in error
    assert not (tmp_path / "other").exists()


def test_a_run_may_begin_in_a_folder_that_is_there_but_empty(text, tmp_path):
    run(text, tmp_path, steps=1)


def test_the_run_folder_holds_what_a_hugging_face_folder_holds_and_ours(finished):
    assert {path.name for path in finished.iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
        "minigrad.json", "checkpoints", "metrics.jsonl", "report.html", "best",
    }  # fmt: skip
    config = json.loads((finished / "config.json").read_text(encoding="utf-8"))
    assert config["architectures"] == ["VidyaV2ForCausalLM"]
    assert config["model_type"] == "vidya-v2"
    assert config["tie_word_embeddings"] is True
    assert (config["vocab_size"], config["hidden_size"], config["num_hidden_layers"]) == (300, 32, 2)
    ids = json.loads((finished / "generation_config.json").read_text(encoding="utf-8"))
    assert ids == {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    with safe_open(finished / "model.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt"}
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118
        assert "model.layers.1.self_attn.q_proj.weight" in file.keys()  # noqa: SIM118
    assert {path.name for path in (finished / "checkpoints").iterdir()} == {"10", "12"}
    assert {path.name for path in (finished / "checkpoints" / "12").iterdir()} == {
        "model.safetensors", "optimizer.safetensors", "state.json",
    }  # fmt: skip


def test_without_the_key_shift_a_run_is_a_llama(text, tmp_path):
    config = read_json(run(text, tmp_path, steps=1, set="key_shift=false").out / "config.json")
    assert (config["architectures"], config["model_type"]) == (["LlamaForCausalLM"], "llama")


def test_a_run_that_began_with_another_recipe_continues_with_it(monkeypatch, text, tmp_path):
    with monkeypatch.context() as earlier:
        earlier.setitem(registry.RECIPES, "vidya-v2", {"key_shift": True})
        killed_at(earlier, 7, settings(text, tmp_path / "run", steps=9))
    result = train_program.train(TrainConfig(resume=str(tmp_path / "run")))
    config = read_json(tmp_path / "run" / "config.json")
    assert (config["key_shift"], config["value_residual"]) == (True, False)
    assert outcome(repeat(result.command, tmp_path)) == outcome(tmp_path / "run")
    assert read_json(run(text, tmp_path / "new", steps=1).out / "config.json")["value_residual"]


def test_metrics_have_exactly_the_promised_fields(finished):
    always = {
        "step", "tokens", "loss", "bits_per_byte", "learning_rate", "gradient_norm", "seconds", "tokens_per_second",
        "memory_bytes",
    }  # fmt: skip
    with_score = {"val_loss", "val_bits_per_byte", "val_loss_repeated", "val_loss_others"}
    lines = metrics.read(finished)
    assert [line["step"] for line in lines] == [1, 2, 4, 6, 8, 10, 12]
    for line in lines:
        evaluated = with_score if line["step"] in (10, 12) else set()
        assert set(line) == always | evaluated
        assert line["tokens"] == line["step"] * 32


def test_minigrad_json_keeps_what_was_asked_apart_from_what_was_chosen(finished):
    content = record(finished)
    assert (content["family"], content["size"], content["seed"]) == ("vidya-v2", "nano", 3)
    assert content["data"].endswith("words.txt")
    assert set(content["versions"]) == {"python", "numpy", "numba"}
    assert content["threads"] == 1
    assert content["hardware"]
    assert content["settings"]["lr"] is None
    lr, precision = content["chosen"]["lr"], "bfloat16" if products.multiplies_bfloat16() else "float32"
    chosen = {"lr": lr, "warmup": 1, "optimizer": "adamw", "weight_decay": 0.1, "beta2": 0.95, "precision": precision}
    assert content["chosen"] == chosen
    assert content["result"]["steps"] == 12
    assert content["result"]["command"].startswith(f"{command('train.py')} --model vidya-v2 --size nano --data ")


def test_the_report_and_the_summary_compare_with_xz(capsys, text, tmp_path):
    result = run(text, tmp_path / "run", steps=2)
    said = capsys.readouterr().out
    assert result.xz_bits_per_byte is not None
    assert (
        f"Validation: {result.val_bits_per_byte:.2f} bits per byte (lower is better; "
        f"xz -9e: {result.xz_bits_per_byte:.2f})." in said
    )
    assert f"repeat   {result.command}\n" in said
    assert f"write    {command('generate.py', result.out)}\n" in said
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "xz -9e: " in page
    assert "<svg" in page


def test_output_that_is_no_terminal_is_plain_lines(capsys, text, tmp_path):
    run(text, tmp_path / "run", steps=3)
    said = capsys.readouterr().out
    assert not re.search(r"[\r\x1b]", said)
    assert "what it writes after 3 steps:\n    | " in said
    assert re.search(r"^3/3 +\d+\.\d{3} +\d+\.\d{3} +\d+\.\d{3} ", said, re.MULTILINE)


def test_a_plan_writes_nothing(capsys, text, tmp_path):
    assert train_program.main([*flags(settings(text, tmp_path / "run")), "--plan"]) == 0
    said = capsys.readouterr().out
    assert "30 steps" in said
    assert "loading kernels" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_continued_run_has_the_threads_it_began_with(copy, monkeypatch):
    hardware.prepare(2)
    assert train_program.main(["--resume", str(copy), "--steps", "13"]) == 0
    assert hardware.threads() == 1


def test_resume_alone_continues_the_run_written_last(capsys, monkeypatch, text, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        run(text, Path("runs") / name, steps=1)
    capsys.readouterr()
    assert train_program.main(["--resume"]) == 0
    said = f"{Path('runs/b')} has ended, after 1 step; a larger --steps continues it\n"
    found = capsys.readouterr().out
    assert found.endswith(said)
    assert "reading" not in found  # neither the text nor the checkpoint is needed to say so
    assert train_program.main(["--resume", "--plan"]) == 0
    assert "length      ended after 1 step; " in capsys.readouterr().out


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "train.py", *map(str, arguments)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.skipif(os.name == "nt", reason="Windows sends no such signals to other processes")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_sets_the_exit_code(text, tmp_path, number, code):
    process = start(*flags(settings(text, tmp_path / "run", steps=100_000, save_every=100_000)))
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("1/100,000 "):
            break
    process.send_signal(number)
    _, error = process.communicate()
    assert process.returncode == code
    step = checkpoint.load(tmp_path / "run").step
    again = command_words(error.partition("continue with: ")[2])
    assert error.startswith(f"stopped after step {step:,} and saved; ")
    assert Path(again[0]).name.startswith("python")
    assert again[1:] == ["train.py", "--resume", str(tmp_path / "run")]


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGHUP")
def test_a_run_whose_terminal_closes_is_saved(text, tmp_path):
    ours, theirs = os.openpty()
    words = flags(settings(text, tmp_path / "run", steps=100_000, save_every=100_000))
    command = [sys.executable, "train.py", *map(str, words)]
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup, if it runs these tests, has it ignored
    process = subprocess.Popen(command, cwd=ROOT, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    signal.signal(signal.SIGHUP, before)
    os.close(theirs)
    said = b""
    while b"/100,000 " not in said:
        said += os.read(ours, 1_000)
    process.send_signal(signal.SIGHUP)
    os.close(ours)
    process.send_signal(signal.SIGHUP)
    assert process.wait() == 129
    assert checkpoint.load(tmp_path / "run").step


@pytest.mark.parametrize("lines", [1, 14])
def test_a_closed_pipe_is_no_error(text, tmp_path, lines):
    process = start(*flags(settings(text, tmp_path / "run", steps=100_000, save_every=100_000)))
    assert process.stdout is not None
    assert process.stderr is not None
    for _ in range(lines):
        process.stdout.readline()
    process.stdout.close()
    assert process.wait() == 141
    error = process.stderr.read()
    process.stderr.close()
    assert "Traceback" not in error
    assert "BrokenPipe" not in error
    if error:  # it had begun to train
        assert error.startswith("stopped after step ")


def test_weights_can_be_read_at_any_moment_of_training(monkeypatch, text, tmp_path):
    """A generate.py that runs during training reads the old weights or the new ones, complete."""
    read = []
    fsync = os.fsync

    def look_then_fsync(descriptor: int) -> None:  # a file is written, and not yet renamed
        if (tmp_path / "run" / "model.safetensors").exists():
            read.append(read_weights(tmp_path / "run"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look_then_fsync)
    run(text, tmp_path / "run", steps=10)
    assert len(read) > 10
    assert not list((tmp_path / "run").glob(".*"))


def test_train_returns_none_for_a_plan_and_raises_for_python_callers(text, tmp_path):
    assert train_program.train(settings(text, None, plan=True)) is None
    with pytest.raises(RunError, match="diverged"):
        train_program.train(settings(text, tmp_path / "run", lr=1e300))
