"""Flags generated from a dataclass: values that are read, values that are refused, and the messages."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.cli.exits import complain, exit_code
from minigrad.cli.parser import Parser
from minigrad.errors import InputError, RunError
from minigrad.options import REQUIRED, option, validate


@dataclass(frozen=True)
class Settings:
    model: str = option("vidya-v2", "the model family", group="what to train")
    steps: int | None = option(None, "updates of the weights", at_least=1)
    lr: float | None = option(None, "peak learning rate", above=0)
    dropout: float = option(0.0, "share of activations dropped", at_least=0, below=1)
    batch: int = option(8, "sequences per update", at_least=1, at_most=64)
    eval_every: int = option(100, "steps between two evaluations", at_least=1)
    offset: float = option(0.0, "what is added")
    top_p: float = option(1.0, "mass kept", above=0, at_most=1)
    precision: str = option("float32", "how numbers are stored", choices=("float32", "bfloat16"))
    resume: str | None = option(None, "continue the run in DIR", value="DIR", bare="", none_means="")
    vocab: int | None = option(None, "vocabulary")
    plan: bool = option(False, "print the plan and stop")


@dataclass(frozen=True)
class Reading:
    run: str = option(REQUIRED, "the run folder", positional=True)
    tokens: int = option(100, "tokens to write", at_least=1)


@dataclass(frozen=True)
class Writing(Reading):
    prompt: tuple[str, ...] = option((), "the beginning of a text")


TRAIN = Parser(Settings, prog="train.py", description="Train.", aliases={"learning_rate": "lr", "vocab_size": "vocab"})
MEANING = Parser(Settings, prog="train.py", description="", stray=lambda word: "model" if word[0] == "v" else "resume")
GENERATE = Parser(Reading, prog="generate.py", description="Write.")


def refusal(parser: Parser[object], *arguments: str) -> str:
    with pytest.raises(InputError) as caught:
        parser.read(arguments)
    return str(caught.value)


def test_no_flags_give_the_defaults_and_nothing_explicit():
    assert TRAIN.read([]) == (Settings(), set())


def test_values_take_the_type_of_their_field_and_are_known_to_be_explicit():
    settings, given_names = TRAIN.read(["--steps", "40", "--lr=0.003", "--eval-every", "7", "--plan", "--vocab", "300"])
    assert settings == Settings(steps=40, lr=0.003, eval_every=7, plan=True, vocab=300)
    assert given_names == {"steps", "lr", "eval_every", "plan", "vocab"}


def test_a_value_equal_to_the_default_is_still_explicit():
    assert TRAIN.read(["--batch", "8"])[1] == {"batch"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], None), (["--resume"], ""), (["--resume", "--plan"], ""), (["--resume", "runs/a"], "runs/a")],
)
def test_a_flag_with_an_optional_value(arguments, expected):
    assert TRAIN.read(arguments)[0].resume == expected


def test_a_list_with_commas_continues_where_its_flag_is_given_again():
    @dataclass(frozen=True)
    class Lists:
        set: str | None = option(None, "fields to change", value="NAME=VALUE,...", none_means="")

    parser = Parser(Lists, prog="train.py", description="Train.")
    assert parser.read(["--set", "a=1,b=2", "--set", "c=3"]) == (Lists("a=1,b=2,c=3"), {"set"})
    assert parser.read(["--set", "a=1"]) == (Lists("a=1"), {"set"})


def test_a_positional_argument_stands_anywhere():
    expected = (Reading(run="runs/nano", tokens=5), {"run", "tokens"})
    assert GENERATE.read(["runs/nano", "--tokens", "5"]) == expected
    assert GENERATE.read(["--tokens", "5", "runs/nano"]) == expected


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--learning-rate", "1"], "unknown flag --learning-rate; did you mean --lr?"),
        (["--vocab_size=1"], "unknown flag --vocab_size; did you mean --vocab?"),
        (["--eval_every", "3"], "unknown flag --eval_every; did you mean --eval-every?"),
        (["--stepz", "3"], "unknown flag --stepz; did you mean --steps?"),
        (["--qqq"], "unknown flag --qqq; see train.py --help"),
        (["--steps", "ten"], "--steps takes a whole number of at least 1, not 'ten'"),
        (["--steps", "0"], "--steps takes a whole number of at least 1, not '0'"),
        (["--steps", "1.5"], "--steps takes a whole number of at least 1, not '1.5'"),
        (["--batch", "65"], "--batch takes a whole number of at least 1 and at most 64, not '65'"),
        (["--lr", "nan"], "--lr takes a finite number above 0, not 'nan'"),
        (["--lr", "inf"], "--lr takes a finite number above 0, not 'inf'"),
        (["--lr", "0"], "--lr takes a finite number above 0, not '0'"),
        (["--lr", "-1"], "--lr takes a finite number above 0, not '-1'"),
        (["--dropout", "1"], "--dropout takes a finite number of at least 0 and below 1, not '1'"),
        (
            ["--precision", "float23"],
            "--precision takes one of float32, bfloat16, not 'float23'; did you mean 'float32'?",
        ),
        (["--steps=--"], "--steps cannot be --, which ends the flags"),
        (["--model=--"], "--model cannot be --, which ends the flags"),
        (["--steps"], "--steps needs a value: a whole number of at least 1"),
        (["--steps", "--plan"], "--steps needs a value: a whole number of at least 1"),
        (["--model", "--plan"], "--model needs a value: text; to give it --plan write --model=--plan"),
        (["--model", "a", "--model", "-x"], "--model needs a value: text; to give it -x write --model=-x"),
        (["--model", "-5", "--model", "-x"], "--model needs a value: text; to give it -x write --model=-x"),
        (["--model", "a", "--model"], "--model needs a value: text"),
        (["--offset", "-1e-1"], "--offset needs a value: a finite number; to give it -1e-1 write --offset=-1e-1"),
        (["--offset", "--plan"], "--offset needs a value: a finite number"),
        (["--precision", "--plan"], "--precision needs a value: one of float32, bfloat16"),
        (["--plan=no"], "--plan is a switch and takes no value, not 'no'"),
        (["steps", "4"], "unexpected argument 'steps'; did you mean --steps?"),
    ],
)
def test_a_bad_command_line_is_refused_with_the_way_out(arguments, message):
    assert refusal(TRAIN, *arguments) == message


def test_a_missing_or_surplus_positional_argument_is_refused():
    assert refusal(GENERATE) == "RUN is missing: the run folder. See generate.py --help"
    assert refusal(GENERATE, "a", "b") == "unexpected argument 'b'; see generate.py --help"
    assert refusal(GENERATE, "a", "-") == "unexpected argument '-'; see generate.py --help"
    assert "is missing" not in refusal(GENERATE, "a", "--help=b")


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("plan", "--plan"),
        ("eval-every", "--eval-every"),
        ("eval_every", "--eval-every"),
        ("bfloat16", "--precision bfloat16"),
        ("vidya", "--model vidya"),
        ("step", "--resume step"),  # a word is matched exactly; a flag may be mistyped
        ("my run", "--resume 'my run'"),
    ],
)
def test_a_word_without_a_flag_is_answered_with_the_flag_that_was_forgotten(word, meant):
    assert refusal(MEANING, word) == f"unexpected argument {word!r}; did you mean {meant}?"


def test_words_that_lack_quotation_marks_are_answered_with_them():
    writing = Parser(Writing, prog="generate.py", description="", stray=lambda word: "prompt")
    assert refusal(writing, "run", "The", "list", "--tokens", "5", "type").endswith("mean --prompt 'The list type'?")
    assert refusal(MEANING, "a.txt", "b.txt").endswith("did you mean --resume a.txt?")


def test_a_word_that_is_like_a_flag_but_not_its_name_gets_no_flag():
    for word in ("extra", "step", "lrs", "vocab-size"):
        assert refusal(TRAIN, word) == f"unexpected argument {word!r}; see train.py --help"
    assert refusal(TRAIN, "float32") == "unexpected argument 'float32'; did you mean --precision float32?"


@pytest.mark.parametrize("before", [[], ["a"], ["a", "--tokens", "5"]])
@pytest.mark.parametrize("word", ["-3", "-.5", "-a b"])
def test_a_number_or_a_word_with_a_space_is_no_flag_wherever_it_stands(before, word):
    if not before:
        assert GENERATE.read([word])[0] == Reading(run=word)
        return
    assert refusal(GENERATE, *before, word) == f"unexpected argument {word!r}; see generate.py --help"


@pytest.mark.parametrize("before", [[], ["a"], ["a", "--tokens", "5"]])
def test_an_unknown_flag_is_named_also_if_its_value_has_a_space(before):
    assert refusal(GENERATE, *before, "--token=5 6") == "unknown flag --token; did you mean --tokens?"


def test_no_word_after_two_dashes_is_a_flag():
    assert GENERATE.read(["--", "--tokens"])[0] == Reading(run="--tokens")
    for before in (["a"], ["a", "--tokens", "5"]):
        message = refusal(GENERATE, *before, "--", "--tokens", "b")
        assert message == "unexpected argument '--tokens'; see generate.py --help"
    assert refusal(TRAIN, "--", "steps") == "unexpected argument 'steps'; did you mean --steps?"


def test_several_positional_arguments_stand_anywhere(capsys):
    @dataclass(frozen=True)
    class Comparing:
        runs: tuple[int, ...] = option(REQUIRED, "the runs", positional=True, at_least=1)
        plan: bool = option(False, "print the plan and stop")

    parser = Parser(Comparing, prog="report", description="Compare.")
    assert parser.read(["1", "--plan", "2", "--", "3"])[0] == Comparing((1, 2, 3), plan=True)
    assert refusal(parser, "--plan") == "RUNS is missing: the runs. See report --help"
    assert refusal(parser, "1", "--plan", "0") == "RUNS takes a whole number of at least 1, not '0'"
    with pytest.raises(SystemExit):
        parser.read(["--help"])
    assert capsys.readouterr().out.startswith("usage: report RUNS ... [flags] [--help]\n")


def test_a_command_line_that_cannot_be_read_is_one_paragraph_and_exits_with_2(capsys):
    def work():
        TRAIN.read(["--steps", "ten"])

    assert exit_code("train.py", work, interrupted="", less_memory="") == 2
    assert capsys.readouterr() == ("", "train.py: --steps takes a whole number of at least 1, not 'ten'\n")


@pytest.mark.parametrize("columns", [50, 80, 200])
def test_help_shows_every_flag_with_its_default_within_the_width(capsys, monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    with pytest.raises(SystemExit) as caught:
        TRAIN.read(["--help"])
    assert caught.value.code == 0
    page = capsys.readouterr().out
    assert max(map(len, page.splitlines())) <= columns
    assert "--eval-every N" in page
    assert "--resume [DIR]" in page
    assert "--precision float32|bfloat16" in page
    joined = " ".join(page.split())
    assert "sequences per update (default: 8)" in joined
    assert "updates of the weights (default: chosen automatically)" in joined
    assert joined.index("what to train: --model") < joined.index("options: --steps")


def test_bad_input_and_faults_have_different_exit_codes(capsys):
    assert complain("train.py", InputError("no such file")) == 2
    assert complain("train.py", RunError("the disk is full")) == 1
    assert capsys.readouterr().err == "train.py: no such file\ntrain.py: the disk is full\n"


@given(
    st.builds(
        Settings,
        model=st.text(),
        steps=st.none() | st.integers(1, 10**400),
        lr=st.none() | st.floats(1e-300, 1e300),
        batch=st.integers(1, 64),
        precision=st.sampled_from(["float32", "bfloat16"]),
        plan=st.booleans(),
    )
)
def test_any_settings_survive_the_command_line(settings):
    arguments = [
        f"--{name}={value}" for name in ("model", "steps", "lr", "batch", "precision")
        if (value := getattr(settings, name)) is not None
    ]  # fmt: skip
    arguments += ["--plan"] if settings.plan else []
    assert TRAIN.read(arguments)[0] == settings


@given(st.lists(st.sampled_from(["--steps", "--plan", "--resume", "4", "x", "-", "--", "--lr=", "=", ""]) | st.text()))
def test_any_command_line_is_read_or_refused_and_never_crashes(arguments):
    try:
        settings, _ = TRAIN.read(arguments)
    except InputError:
        return
    validate(settings)


def test_only_the_standard_library_is_needed():
    script = "import sys, json; import minigrad.cli.parser; print(json.dumps([*sys.modules]))"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    assert not {"numpy", "numba", "matplotlib", "safetensors", "tqdm"} & set(json.loads(done.stdout))


def test_a_flag_that_is_given_several_times_has_a_tuple_of_values():
    @dataclass(frozen=True)
    class Stops:
        stop: tuple[str, ...] = option((), "stop before this string")

    parser = Parser(Stops, prog="generate.py", description="Write.")
    assert parser.read(["--stop", "a", "--stop", "b"]) == (Stops(("a", "b")), {"stop"})
