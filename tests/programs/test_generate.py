"""generate.py as a user runs it: the text alone on standard output, everything else on standard error."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

import generate as program
import models
import tokenizer
from minigrad.generation.settings import GenerateConfig
from minigrad.nn.module import Module
from models import loading
from tests.small_runs import quick_runs, run, write_text

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("run")
    with quick_runs():
        return run(write_text(place / "words.txt"), place / "run", steps=20).out


@pytest.fixture
def write(folder: Path, capsys: pytest.CaptureFixture[str]):
    def write(*arguments: object, code: int = 0) -> str:
        capsys.readouterr()
        assert program.main([str(folder), *map(str, arguments)]) == code
        return capsys.readouterr().out

    return write


def refusal(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    code = program.main([str(word) for word in arguments])
    error = capsys.readouterr().err
    assert code == 2
    assert re.fullmatch(r"generate\.py: .+\n", error), error
    return error


def test_the_prompt_comes_first_and_the_seed_decides_the_rest(write):
    first = write("--prompt", "to be", "--tokens", 30)
    assert first.startswith("to be")
    assert len(first) > len("to be\n")
    assert write("--prompt", "to be", "--tokens", 30) == first
    assert write("--prompt", "to be", "--tokens", 30, "--seed", 1) != first


def test_temperature_zero_needs_no_seed_and_equals_top_k_one(write):
    greedy = write("--temperature", 0, "--tokens", 20)
    assert write("--temperature", 0, "--tokens", 20, "--seed", 5) == greedy
    assert write("--top-k", 1, "--tokens", 20, "--seed", 5) == greedy


def test_several_samples_differ_and_a_rule_stands_between_them(write):
    texts = write("--samples", 3, "--tokens", 20, "--temperature", 1).removesuffix("\n").split("\n\n---\n\n")
    assert len(set(texts)) == 3
    assert write("--tokens", 20, "--temperature", 1).removesuffix("\n") == texts[0]


def test_several_prompts_give_what_each_gives_alone(write):
    options, prompts = ("--tokens", 12, "--samples", 2), ("to be", "or not to be that", "")
    together = write(*options, *(word for prompt in prompts for word in ("--prompt", prompt)))
    assert together == "\n\n---\n\n".join(write(*options, "--prompt", each)[:-1] for each in prompts) + "\n"


def test_generation_stops_before_the_stop_string(write):
    free = write("--tokens", 60).removesuffix("\n")
    stop = free[20:23]
    assert write("--tokens", 60, "--stop", stop).removesuffix("\n") == free[: free.index(stop)]


def test_an_empty_text_is_reported(folder, capsys):
    free = ("--temperature", "0", "--tokens", "3")
    program.main([str(folder), *free])
    written = capsys.readouterr()
    assert "nothing was written" not in written.err
    program.main([str(folder), *free, "--stop", written.out[0]])
    said = capsys.readouterr()
    assert said.out == "\n"
    assert "[nothing was written: the text ended at once, with a special token or a --stop string]" in said.err


def test_of_several_stop_strings_the_first_in_the_text_ends_it(write):
    free = write("--tokens", 60).removesuffix("\n")
    words = free[30:33], free[20:23]
    written = write("--tokens", 60, "--stop", words[0], "--stop", words[1])
    assert written.removesuffix("\n") == free[: min(map(free.index, words))]


def test_log_probabilities_are_listed_on_standard_error(folder, capsys):
    program.main([str(folder), "--prompt", "to be", "--tokens", "3", "--alternatives", "2"])
    said = capsys.readouterr()
    rows = [line for line in said.err.splitlines() if re.match(r" *-\d", line)]
    assert "each token with its log-probability, then the most likely ones in its place" in said.err
    assert [len(re.findall(r"-\d+\.\d{3} '", row)) for row in rows] == [3, 3, 3]
    assert "-0." not in said.out


def test_a_draft_model_writes_the_same_greedy_text_and_must_have_the_same_tokenizer(write, folder, capsys, tmp_path):
    alone = write("--tokens", 30, "--temperature", 0)
    program.main([str(folder), "--tokens", "30", "--temperature", "0", "--draft", str(folder)])
    said = capsys.readouterr()
    assert said.out == alone
    assert re.search(r"for the first; \d\d% of them proposed by the draft\]", said.err)
    other = Path(shutil.copytree(folder, tmp_path / "other"))
    tokenizer.train([], vocab_size=300).save(other)
    assert f"{other} has another tokenizer than {folder}" in refusal(capsys, folder, "--draft", other)
    assert "nowhere is not a run folder" in refusal(capsys, folder, "--draft", "nowhere")


def test_weights_can_be_rounded_when_they_are_loaded(write, folder, capsys):
    exact = write("--tokens", 30, "--temperature", 0)
    assert write("--tokens", 30, "--temperature", 0, "--quantize", "float16") == exact
    assert len(write("--tokens", 30, "--quantize", "int4")) > 1
    assert len(write("--tokens", 30, "--cache-format", "int8")) > 1
    assert "--cache-format takes one of float32, bfloat16, int8" in refusal(capsys, folder, "--cache-format", "int4")
    assert "leave out --cache-format" in refusal(capsys, folder, "--page", "p.html", "--cache-format", "int8")
    assert "--quantize takes one of float16, bfloat16, int8, int4" in refusal(capsys, folder, "--quantize", "int5")


def test_generation_continues_beyond_the_context_and_a_longer_prompt_is_mentioned(folder, capsys):
    program.main([str(folder), "--tokens", "60"])
    assert "[60 tokens, " in capsys.readouterr().err
    program.main([str(folder), "--tokens", "60", "--adaptive-context"])
    assert "; context: 16 from token 0 on" in capsys.readouterr().err
    program.main([str(folder), "--prompt", "to be or not " * 20, "--tokens", "2"])
    notes = capsys.readouterr().err
    assert re.search(r"\[the prompt has \d+ tokens, more than the context of 16: its last part is used\]", notes)


def test_the_speed_is_printed_on_standard_error_only(folder, capsys):
    program.main([str(folder), "--tokens", "5"])
    said = capsys.readouterr()
    assert re.search(r"\[5 tokens, [\d,]+ tokens/s, after \d+\.\d\d s for the first\]", said.err)
    assert "tokens/s" not in said.out


def test_the_speed_is_printed_after_a_stop_string_too(folder, capsys, write):
    free = write("--tokens", "60").removesuffix("\n")
    program.main([str(folder), "--tokens", "60", "--stop", free[20:23]])
    assert re.search(r"\[\d+ tokens, [\d,]+ tokens/s, after \d+\.\d\d s for the first\]", capsys.readouterr().err)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "RUN is missing"),
        (("nowhere/at/all",), "there is no folder nowhere/at/all; train.py makes such folders, and "),
        (("RUN", "--temprature", 1), "unknown flag --temprature; did you mean --temperature?"),
        (("RUN", "--max-tokens", 1), "unknown flag --max-tokens; did you mean --tokens?"),
        (("RUN", "--top-p", 2), "--top-p takes a finite number above 0 and at most 1, not '2'"),
        (("RUN", "--prompt", "\udcff"), "--prompt is not UTF-8 text: its character 1 is 0xff"),
        (("RUN", "--temperature", -1), "--temperature takes a finite number of at least 0, not '-1'"),
        (("RUN", "--stop", ""), "--stop takes text that is not empty, not ''"),
        (("RUN", "--tokens", 0), "--tokens takes a whole number of at least 1"),
        (("RUN", "--ban", 300), "ban takes ids of tokens, from 0 to 299, not 300"),
    ],
)
def test_a_bad_argument_gets_one_paragraph(capsys, folder, arguments, message):
    assert message in refusal(capsys, *(folder if word == "RUN" else word for word in arguments))


def test_a_folder_that_is_no_run_or_lacks_its_tokenizer_is_refused(capsys, folder, tmp_path):
    assert "config.json" in refusal(capsys, tmp_path)
    for name in ("config.json", "model.safetensors"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    assert "tokenizer.json" in refusal(capsys, tmp_path)
    tokenizer.train([], vocab_size=301).save(tmp_path)
    assert "has 301 tokens, but the model knows 300: they do not belong together" in refusal(capsys, tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    weights = (folder / "model.safetensors").read_bytes()
    (tmp_path / "model.safetensors").write_bytes(weights[: len(weights) // 2])
    assert "is damaged" in refusal(capsys, tmp_path)


def test_a_mistyped_folder_gets_the_runs_beside_it(capsys, folder):
    assert refusal(capsys, folder.parent).endswith(f"it has no config.json; did you mean {folder}?\n")
    mistyped = folder.parent / "rnu"
    assert refusal(capsys, mistyped).endswith(f"there is no folder {mistyped}; did you mean {folder}?\n")


def test_a_run_before_its_first_checkpoint_has_no_weights(capsys, tmp_path):
    (tmp_path / "minigrad.json").write_text("{}", encoding="utf-8")
    assert "has no weights yet" in refusal(capsys, tmp_path)


@pytest.mark.parametrize("more", [(), ("--page", "page.html"), ("--chat",)])
def test_a_model_that_cannot_generate_is_refused_before_anything_is_written(capsys, tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path)
    models.build("wiola", size="nano", vocab_size=300, num_layers=2, gcla_summary="paper").save(tmp_path)
    tokenizer.train([], vocab_size=300).save(tmp_path)
    assert program.main([str(tmp_path), "--prompt", "to be", *more]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "cannot continue a text" in said.err
    assert not (tmp_path / "page.html").exists()


def test_a_draft_model_that_cannot_generate_is_refused_before_the_prompt_is_written(capsys, folder, tmp_path):
    models.build("wiola", size="nano", vocab_size=300, num_layers=2, gcla_summary="paper").save(tmp_path)
    tokenizer.load(folder).save(tmp_path)
    assert program.main([str(folder), "--prompt", "to be", "--draft", str(tmp_path)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert f"{tmp_path} cannot continue a text" in said.err


def test_a_package_that_is_not_installed_is_named_with_the_way_out(capsys, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'numba'")

    monkeypatch.setattr(program, "generate", fail)
    assert program.main(["runs/run"]) == 1
    assert re.fullmatch(r"generate\.py: No module named 'numba'; .* -m pip install -e .*\n", capsys.readouterr().err)


def test_a_name_that_no_file_can_have_is_bad_input(capsys):
    assert re.search("name too long|is not a run folder", refusal(capsys, "x" * 300))


def test_an_error_of_the_system_without_details_is_printed_as_it_is(capsys, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise OSError("cannot load library")

    monkeypatch.setattr(program, "generate", fail)
    assert program.main(["runs/run"]) == 1
    assert capsys.readouterr().err == "generate.py: cannot load library\n"


def test_a_bug_is_not_reported_as_bad_input(monkeypatch):
    def fail(config: object) -> Iterator[str]:
        raise ValueError("a bug")
        yield ""

    monkeypatch.setattr(program, "generate", fail)
    with pytest.raises(ValueError, match="a bug"):
        program.main(["runs/run"])


def test_interrupted_generation_ends_its_line(monkeypatch, capsys):
    def interrupted(config: object) -> Iterator[str]:
        yield "to be"
        raise KeyboardInterrupt

    monkeypatch.setattr(program, "generate", interrupted)
    assert program.main(["runs/run"]) == 130
    assert capsys.readouterr().out == "to be\n"


def test_a_closed_pipe_is_no_error(folder):
    assert program.main([str(folder), "--tokens", "2"]) == 0  # kernels are compiled, of which the next one says nothing
    process = subprocess.Popen(
        [sys.executable, "generate.py", str(folder), "--tokens", "100000"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.read(1)
    process.stdout.close()
    assert process.wait() == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_a_great_number_of_samples_takes_memory_only_as_they_are_written(folder):
    many = GenerateConfig(run=str(folder), prompt=("to be",), samples=10**8, tokens=1)
    tracemalloc.start()
    with closing(program.generate(many)) as texts:
        first = "".join(itertools.islice(texts, 6))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert first.count("to be") == 3
    assert peak < 4 * 10**8  # bytes; a list of that length has twice as many


def test_nothing_is_promised_of_a_cache_that_may_keep_nothing(folder, monkeypatch, capsys):
    monkeypatch.setattr("minigrad.kernels.jit.is_stored", lambda kernel: False)
    program.main([str(folder), "--tokens", "1"])
    assert "[compiling kernels, once on this machine, which can take a minute or more]" in capsys.readouterr().err


def test_help_needs_neither_numpy_nor_numba():
    script = (
        "import sys\nfrom generate import main\n"
        "try: main(['--help'])\n"
        "except SystemExit as stop: assert stop.code == 0\n"
        "assert not {'numpy', 'numba', 'regex'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "--repetition-penalty X" in done.stdout


def test_control_characters_do_not_reach_the_terminal(monkeypatch, capsys):
    monkeypatch.setattr(program, "generate", lambda config: (part for part in ("\x1b[31mred", " bell\x07", "\n")))
    program.main(["runs/run"])
    assert capsys.readouterr().out == "\ufffd[31mred bell\ufffd\n"


def test_a_link_to_nowhere_is_named(capsys, tmp_path):
    (tmp_path / "minigrad.json").write_text("{}", encoding="utf-8")
    (tmp_path / "config.json").symlink_to("elsewhere.json")
    error = refusal(capsys, tmp_path)
    assert f"{tmp_path / 'config.json'} is a link to elsewhere.json, where there is no file" in error


def test_full_memory_is_a_fault_with_a_way_out(capsys, monkeypatch, folder):
    def fill(*_: object, **__: object) -> None:
        raise MemoryError

    monkeypatch.setattr(program, "generate", fill)
    assert program.main([str(folder)]) == 1
    assert "memory is full; take a smaller model, or fewer --tokens or --samples" in capsys.readouterr().err


@pytest.mark.parametrize(
    "changes",
    [
        {"num_hidden_layers": 2_000_000},
        {"num_hidden_layers": 900},
        {"head_dim": 10**9},
        {"head_dim": 65_536, "num_attention_heads": 65_536},
        {"vocab_size": 4 * 10**17},
        {"num_attention_heads": 2**63 - 1},
        {"intermediate_size": 2**20, "hidden_size": 2**20},
    ],
)
def test_a_shape_that_the_weights_do_not_have_is_refused_before_anything_is_allocated(
    capsys, monkeypatch, folder, tmp_path, changes
):
    monkeypatch.setattr(Module, "initialise", lambda *_, **__: pytest.fail("memory was allocated"))
    monkeypatch.setattr(loading, "read_each_weight", lambda _: pytest.fail("weights were read"))
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_text(encoding="utf-8"))
    (copy / "config.json").write_text(json.dumps(config | changes), encoding="utf-8")
    assert re.search("describes no vidya-v2 that can be built here|do not fit the model", refusal(capsys, copy))
