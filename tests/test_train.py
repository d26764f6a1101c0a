"""train.py as a user meets it: what it refuses, what it writes, and what it says."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors import safe_open

import models
import tokenizer
import train as train_program
from minigrad.errors import RunError
from minigrad.formats.json_files import read_json, write_json
from minigrad.formats.safetensors import save_tensors
from minigrad.formats.weights import read_weights
from minigrad.system import hardware
from minigrad.training import checkpoint, metrics
from minigrad.training.run import Run
from tests.small_runs import outcome, quick_runs, record, run, settings, write_text

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True, scope="module")
def _quickly() -> Iterator[None]:
    with quick_runs(pictures=True):
        yield


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_text(tmp_path_factory.mktemp("text") / "words.txt")


@pytest.fixture(scope="module")
def finished(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(text, tmp_path_factory.mktemp("finished") / "run", steps=12, log_every=2).out


@pytest.fixture
def copy(finished: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished, tmp_path / "copy"))


def flags(config: Any) -> list[str]:
    given = {name: value for name, value in vars(config).items() if value not in (None, False)}
    return [f"--{name.replace('_', '-')}" + ("" if value is True else f"={value}") for name, value in given.items()]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 2) -> str:
    """Run the command line, which must end with `code`, and return its one paragraph on standard error."""
    capsys.readouterr()
    try:
        found = train_program.main([str(word) for word in arguments])
    except SystemExit as stop:
        found = stop.code
    error = capsys.readouterr().err
    assert found == code, error
    assert re.fullmatch(r"train\.py: .+\n", error), error
    return error.removeprefix("train.py: ").rstrip()


def test_help_and_a_mistyped_flag_need_neither_numpy_nor_numba():
    script = (
        "import sys\nfrom train import main\n"
        "for word in ('--help', '--stepz', '--threads=0'):\n"
        "    try: main([word])\n"
        "    except SystemExit as stop: print('code', stop.code)\n"
        "assert not {'numpy', 'numba', 'regex', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.findall(r"code \d", done.stdout) == ["code 0", "code 2", "code 2"]
    assert "did you mean --steps?" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--stepz 4", "unknown flag --stepz; did you mean --steps?"),
        ("--learning-rate 1", "unknown flag --learning-rate; did you mean --lr?"),
        ("--model vidia-v2", "unknown model 'vidia-v2'; did you mean 'vidya-v2'? Known: "),
        ("--size nanno", "unknown size of vidya-v2 'nanno'; did you mean 'nano'? Known: auto, nano, "),
        ("--size auot", "unknown size of vidya-v2 'auot'; did you mean 'auto'?"),
        ("--data python-dosc", "there is no data called 'python-dosc'. Did you mean python-docs"),
        ("--steps 5 --minutes 1", "--minutes and --steps both say how long to train; give one of them"),
        ("--steps 5 --tokens 9", "--steps and --tokens both say how long to train; give one of them"),
        ("--vocab 260", "--vocab takes a whole number of at least 261"),
        ("--vocab 300 --tokenizer x", "--vocab is for training a tokenizer, but --tokenizer brings one"),
        ("--init nowhere", "--init nowhere is no folder"),
        ("--tokenizer nowhere", "cannot read nowhere: No such file or directory."),
        ("--resume nowhere", "there is no run folder nowhere"),
        ("--resume", "there is no run under runs/ to continue; name its folder: --resume DIR"),
        ("--resume .", ". is no run folder of train.py: it has no minigrad.json"),
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
    more = [] if re.search("--(steps|resume)", arguments) else ["--steps", "1"]  # should it be accepted, it is short
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
        (b"x", "too few"),
        (b"to be or not to be", "use a smaller --context or more text"),
        (b"to be or not to be that is the question\n" * 8, "the held-out text has"),
    ],
)
def test_text_that_cannot_be_used(capsys, tmp_path, content, message):
    path = tmp_path / "text.txt"
    if content is not None:
        path.write_bytes(content)
    error = refusal(capsys, *flags(settings(path, tmp_path / "run", context=32)))
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
        path.write_text('{"from": "elsewhere"}')
    else:
        save_tensors(path, {"other": np.zeros(3, np.float32)})
    error = refusal(capsys, "--resume", copy)
    foreign_weights = damage == "foreign" and name.endswith("safetensors")
    assert ("do not fit the model: missing" if foreign_weights else path.name) in error


def test_a_damaged_setting_is_named(capsys, copy):
    content = record(copy)
    content["settings"]["batch"] = "many"
    write_json(copy / "minigrad.json", content)
    assert "minigrad.json is damaged: batch takes a whole number" in refusal(capsys, "--resume", copy)


def test_a_run_does_not_go_on_with_another_text(capsys, tmp_path):
    text = write_text(tmp_path / "words.txt")
    run(text, tmp_path / "run", steps=2)
    text.write_text(text.read_text().replace("question", "answer"))
    error = refusal(capsys, "--resume", tmp_path / "run", "--steps", 4)
    assert "is not the one that" in error
    assert f"--init {tmp_path / 'run'} --out DIR" in error


@pytest.fixture
def start_from(text: Path, tmp_path: Path) -> Callable[..., list[str]]:
    """Give the flags of a run of one step in `tmp_path / "new"` that starts from the weights of a folder."""

    def start_from(folder: Path, **changes: Any) -> list[str]:
        return flags(settings(text, tmp_path / "new", init=str(folder), vocab=None, steps=1, **changes))

    return start_from


@pytest.mark.parametrize("plan", [True, False])
def test_a_start_of_another_size_or_family_or_too_long_a_context_is_refused(
    capsys, monkeypatch, finished, tmp_path, start_from, plan
):
    monkeypatch.setitem(models.FAMILIES, "other", models.FAMILIES["vidya-v2"])
    for changes, message in (
        (
            {"size": "micro"},
            f"{finished} holds a vidya-v2 nano, but --size micro was given: a model grows in width only: num_layers is "
            "2, but the wanted size has 10",
        ),
        ({"model": "other"}, f"{finished} holds a model of vidya-v2, but --model other was given"),
        ({"context": 2_049}, "--context 2049 is longer than the model's context of 2048; take at most 2048"),
    ):
        assert refusal(capsys, *start_from(finished, plan=plan, **changes)) == message
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("plan", [True, False])
def test_weights_that_do_not_fit_their_own_config_cannot_be_the_start(capsys, copy, tmp_path, start_from, plan):
    save_tensors(copy / "model.safetensors", {"other": np.zeros(3, np.float32)})
    assert "the weights do not fit the model" in refusal(capsys, *start_from(copy, plan=plan))
    assert not (tmp_path / "new").exists()


def test_a_tokenizer_with_more_tokens_than_the_start_knows_is_refused(capsys, finished, tmp_path, start_from):
    tokenizer.train([], vocab_size=301).save(tmp_path / "large.json")
    error = refusal(capsys, *start_from(finished, tokenizer=str(tmp_path / "large.json"), plan=True))
    assert "has 301 tokens, but the model in" in error
    assert "knows 300: they do not belong together" in error


def test_the_shape_of_the_start_is_kept_whatever_the_size_is_called(capsys, copy, tmp_path, start_from):
    config = json.loads((copy / "config.json").read_text())
    write_json(copy / "config.json", config | {"rope_theta": 50.0, "rms_norm_eps": 1e-3})
    assert "--size nano was given" in refusal(capsys, *start_from(copy))
    assert train_program.main(start_from(copy, size="auto", context=8, save_every=1, log_every=1)) == 0
    again = json.loads((tmp_path / "new" / "config.json").read_text())
    assert again == config | {"rope_theta": 50.0, "rms_norm_eps": 1e-3, "max_position_embeddings": 8}
    assert record(tmp_path / "new")["size"] == "custom"
    command = record(tmp_path / "new")["result"]["command"]
    assert train_program.main(shlex.split(command)[2:]) == 0
    assert outcome(tmp_path / "new-again")["published"] == outcome(tmp_path / "new")["published"]
    shutil.rmtree(copy)
    assert train_program.main(["--resume", str(tmp_path / "new"), "--steps", "2"]) == 0
    assert json.loads((tmp_path / "new" / "config.json").read_text()) == again


def test_size_and_family_follow_from_the_start_and_the_context_may_be_longer(finished, tmp_path, start_from):
    assert train_program.main(start_from(finished, size="auto", context=64)) == 0
    assert json.loads((tmp_path / "new" / "config.json").read_text())["max_position_embeddings"] == 64
    assert (record(tmp_path / "new")["family"], record(tmp_path / "new")["size"]) == ("vidya-v2", "nano")


def test_only_the_steps_themselves_count_as_training(monkeypatch, text, tmp_path):
    now = [0.0]

    def takes(seconds: float, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(run: Run, *given: Any, **options: Any) -> Any:
            now[0] += seconds
            return function(run, *given, **options)

        return timed

    monkeypatch.setattr(train_program, "take_step", takes(1.0, train_program.take_step))
    for name, seconds in {"evaluate": 50.0, "write_sample": 70.0, "save": 90.0}.items():
        monkeypatch.setattr(Run, name, takes(seconds, getattr(Run, name)))
    every = {"log_every": 3, "sample_every": 4, "save_every": 2, "eval_every": 5}
    train_program.train(settings(text, tmp_path / "run", steps=12, **every), clock=lambda: now[0])
    assert [line["tokens_per_second"] for line in metrics.read(tmp_path / "run")] == [32.0] * 7


def test_a_comparison_with_xz_for_which_there_is_no_time_says_so(capsys, text, tmp_path):
    result = run(text, tmp_path / "run", minutes=0.002)
    said = capsys.readouterr().out
    assert result.xz_bits_per_byte is None
    assert "compressing the same text with xz" not in said
    assert "No figure of xz: it would have taken about 0s of the 0s." in said
    assert "No figure of xz: it would have taken" in (tmp_path / "run" / "report.html").read_text()


def test_fields_of_the_config_can_be_set_and_stay_set(capsys, text, tmp_path):
    result = run(text, tmp_path / "run", steps=4, set="rope_theta=777,width=48,norm_eps=1e-6")
    described = read_json(result.out / "config.json")
    assert (described["rope_theta"], described["hidden_size"], described["rms_norm_eps"]) == (777.0, 48, 1e-6)
    assert "--set rope_theta=777,width=48,norm_eps=1e-6" in result.command
    assert train_program.main(["--resume", str(result.out), "--steps", "6"]) == 0
    error = refusal(capsys, "--data", str(text), "--steps", "2", "--set", "widht=3", "--out", str(tmp_path / "other"))
    assert "unknown field of VidyaV2Config 'widht'; did you mean 'width'?" in error
    error = refusal(capsys, "--data", str(text), "--steps", "2", "--set", "width=x", "--out", str(tmp_path / "other"))
    assert "width takes a whole number of at least 1, not 'x'" in error
    assert not (tmp_path / "other").exists()


def test_training_can_start_from_the_weights_of_a_run(text, finished, tmp_path):
    changes = {"steps": 1, "init": str(finished), "vocab": None, "lr": 1e-12, "weight_decay": 0.0}
    run(text, tmp_path / "new", **changes)
    before, after = (read_weights(folder)["model.norm.weight"] for folder in (finished, tmp_path / "new"))
    np.testing.assert_allclose(after, before, atol=1e-9)
    assert (tmp_path / "new" / "tokenizer.json").read_text() == (finished / "tokenizer.json").read_text()


def test_a_run_may_begin_in_a_folder_that_is_there_but_empty(text, tmp_path):
    run(text, tmp_path, steps=1)


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
    def refuse(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        patch.setattr(Path, "mkdir", refuse)
        error = refusal(capsys, *flags(settings(text, tmp_path / "run")), code=1)
    assert error == f"cannot write the folder {tmp_path / 'run'}: Permission denied"


def test_a_package_that_is_not_installed_is_named_with_the_way_out(capsys, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'numba'")

    monkeypatch.setattr(train_program, "train", fail)
    assert train_program.main([]) == 1
    assert re.fullmatch(r"train\.py: No module named 'numba'; .* -m pip install -e \.\n", capsys.readouterr().err)


def test_a_name_that_no_file_can_have_is_explained(capsys, text):
    for flag in ("out", "resume", "init"):
        error = refusal(capsys, f"--data={text}", "--size=nano", "--steps=1", f"--{flag}={'x' * 300}")
        assert re.search("name too long|no run folder|is no folder", error)


def test_an_error_of_the_system_that_says_little_is_passed_on_as_it_is(capsys, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError("cannot load library")

    monkeypatch.setattr(train_program, "train", fail)
    assert refusal(capsys, code=1) == "cannot load library"


def test_our_own_mistakes_are_not_dressed_up_as_bad_input(monkeypatch):
    def fail(*_: Any, **__: Any) -> None:
        raise ValueError("a bug")

    monkeypatch.setattr(train_program, "train", fail)
    with pytest.raises(ValueError, match="a bug"):
        train_program.main([])


def test_full_memory_and_an_early_interrupt_are_explained(capsys, monkeypatch):
    def end(error: BaseException) -> int:
        monkeypatch.setattr(train_program, "Preparation", Mock(side_effect=error))
        return train_program.main([])

    assert end(MemoryError()) == 1
    assert "memory is full; take a smaller --size or --batch" in capsys.readouterr().err
    assert end(KeyboardInterrupt()) == 130
    assert "interrupted; a run that had begun continues with --resume" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "culprit"),
    [
        ({"lr": 1e4}, r"\w+ made \d+ NaN and \d+ infinities out of finite input"),
        ({"lr": 1e300}, r"weight holds numbers"),
    ],
)
def test_divergence_ends_the_run_with_1_and_names_the_culprit(capsys, text, tmp_path, changes, culprit):
    error = refusal(capsys, *flags(settings(text, tmp_path / "run", save_every=1, **changes)), code=1)
    assert re.search(culprit, error)
    assert "no checkpoint was saved yet. A smaller --lr" in error
    assert not (tmp_path / "run" / "checkpoints").exists()


def test_poisoned_weights_are_found_before_they_are_saved(capsys, monkeypatch, text, tmp_path):
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


def test_the_run_folder_holds_what_a_hugging_face_folder_holds_and_ours(finished):
    assert {path.name for path in finished.iterdir()} == {
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json",
        "minigrad.json", "checkpoints", "metrics.jsonl", "report.html",
    }  # fmt: skip
    config = json.loads((finished / "config.json").read_text())
    assert config["architectures"] == ["LlamaForCausalLM"]
    assert config["model_type"] == "llama"
    assert config["tie_word_embeddings"] is True
    assert (config["vocab_size"], config["hidden_size"], config["num_hidden_layers"]) == (300, 32, 2)
    ids = json.loads((finished / "generation_config.json").read_text())
    assert ids == {"bos_token_id": 0, "eos_token_id": 0, "pad_token_id": 0}
    with safe_open(finished / "model.safetensors", "np") as file:
        assert file.metadata() == {"format": "pt"}
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118
        assert "model.layers.1.self_attn.q_proj.weight" in file.keys()  # noqa: SIM118
    assert {path.name for path in (finished / "checkpoints").iterdir()} == {"10", "12"}
    assert {path.name for path in (finished / "checkpoints" / "12").iterdir()} == {
        "model.safetensors", "optimizer.safetensors", "state.json",
    }  # fmt: skip


def test_metrics_have_exactly_the_promised_fields(finished):
    always = {
        "step", "tokens", "loss", "bits_per_byte", "learning_rate", "gradient_norm", "seconds", "tokens_per_second",
        "memory_bytes",
    }  # fmt: skip
    lines = metrics.read(finished)
    assert [line["step"] for line in lines] == [1, 2, 4, 6, 8, 10, 12]
    for line in lines:
        evaluated = {"val_loss", "val_bits_per_byte"} if line["step"] in (10, 12) else set()
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
    assert content["chosen"] == {"lr": content["chosen"]["lr"], "warmup": 1}
    assert content["result"]["steps"] == 12
    assert content["result"]["command"].startswith("python train.py --model vidya-v2 --size nano --data ")


def test_the_report_and_the_summary_compare_with_xz(capsys, text, tmp_path):
    result = run(text, tmp_path / "run", steps=2)
    said = capsys.readouterr().out
    assert result.xz_bits_per_byte is not None
    assert f"{result.val_bits_per_byte:.2f} against {result.xz_bits_per_byte:.2f} bits per byte" in said
    assert f"repeat   {result.command}\n" in said
    assert f"write    python generate.py {result.out}\n" in said
    page = (tmp_path / "run" / "report.html").read_text()
    assert "against" in page
    assert "<svg" in page


def test_output_that_is_no_terminal_is_plain_lines(capsys, text, tmp_path):
    run(text, tmp_path / "run", steps=3)
    said = capsys.readouterr().out
    assert not re.search(r"[\r\x1b]", said)
    assert "what it writes after 3 steps:\n    | " in said
    assert re.search(r"^step 3/3  loss \d+\.\d{3}  \d+\.\d{3} bits per byte  held-out", said, re.MULTILINE)


def test_a_plan_writes_nothing(capsys, text, tmp_path):
    assert train_program.main([*flags(settings(text, tmp_path / "run")), "--plan"]) == 0
    said = capsys.readouterr().out
    assert "30 steps" in said
    assert "compiling" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_continued_run_has_the_threads_it_began_with(copy, monkeypatch):
    hardware.prepare(2)
    assert train_program.main(["--resume", str(copy)]) == 0
    assert hardware.threads() == 1


def test_resume_alone_continues_the_run_written_last(capsys, monkeypatch, text, tmp_path):
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        run(text, Path("runs") / name, steps=1)
    assert train_program.main(["--resume"]) == 0
    assert f"report   {Path('runs/b/report.html')}" in capsys.readouterr().out


def start(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "train.py", *map(str, arguments)],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_saves_and_sets_the_exit_code(text, tmp_path, number, code):
    process = start(*flags(settings(text, tmp_path / "run", steps=100_000, save_every=100_000)))
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith("step "):
            break
    process.send_signal(number)
    _, error = process.communicate()
    assert process.returncode == code
    step = checkpoint.load(tmp_path / "run").step
    command = f"python train.py --resume {tmp_path / 'run'}"
    assert error == f"stopped after step {step:,} and saved; continue with: {command}\n"


@pytest.mark.parametrize("lines", [1, 14])
def test_a_reader_who_leaves_is_no_error(text, tmp_path, lines):
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
    """A generate.py that runs while training goes on finds the old weights or the new ones, whole."""
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
