"""The settings of generation: checked when they are made, changed by name, and each of them a flag."""

from __future__ import annotations

from typing import Any

import pytest

from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.generation.settings import GenerateConfig, Sampling
from minigrad.options import options

PARSER = Parser(GenerateConfig, prog="generate.py", description="Write.")


def test_every_setting_is_a_flag_with_the_same_default() -> None:
    config, _ = PARSER.read(["runs/a"])
    assert all(getattr(config, each.name) == each.default for each in options(Sampling))


def test_flags_may_be_repeated_and_python_takes_strings_and_lists() -> None:
    words = ["runs/a", "--stop", "\n", "--stop", "END", "--ban", "5", "--ban", "7"]
    config, given = PARSER.read(words)
    assert config == GenerateConfig(run="runs/a", stop=("\n", "END"), ban=(5, 7))
    assert given == {"run", "stop", "ban"}
    assert Sampling(stop="x") == Sampling(stop=["x"]) == Sampling(stop=("x",))
    assert Sampling(stop=None, ban=[5]) == Sampling(ban=(5,))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--temperature", "-1"], "--temperature takes a finite number of at least 0, not '-1'"),
        (["--top-p", "0"], "--top-p takes a finite number above 0 and at most 1, not '0'"),
        (["--stop", ""], "--stop takes text that is not empty, not ''"),
        (["--tokens", "0"], "--tokens takes a whole number of at least 1 and at most 1,000,000,000, not '0'"),
        (["--ban", "the"], "--ban takes a whole number of at least 0 and at most 1,000,000,000, not 'the'"),
        (["--stop"], "--stop needs a value: text that is not empty"),
    ],
)
def test_a_bad_flag_gets_one_sentence(words: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        PARSER.read(["runs/a", *words])
    assert str(caught.value).startswith(message)


def test_values_of_python_are_checked_when_they_are_given() -> None:
    for wrong, message in (
        ({"stop": ""}, "stop takes text that is not empty, not ''"),
        ({"stop": ["a", ""]}, "stop takes text that is not empty, not ''"),
        ({"stop": 5}, "stop takes a list or a tuple, not 5; each element is text that is not empty"),
        ({"top_k": 0}, "top_k takes a whole number of at least 1 and at most 1,000,000,000, not 0"),
    ):
        with pytest.raises(InputError) as caught:
            Sampling(**wrong)
        assert str(caught.value) == message


def test_fields_are_changed_by_name() -> None:
    config = GenerateConfig(run="runs/a", seed=3)
    assert config.changed({"tokens": 5}) == GenerateConfig(run="runs/a", seed=3, tokens=5)
    with pytest.raises(InputError, match="unknown setting of generation 'temp'"):
        config.changed({"temp": 5})


def test_penalties_are_known() -> None:
    assert not Sampling().penalises
    assert Sampling(repetition_penalty=1.1).penalises
    assert Sampling(frequency_penalty=-0.5).penalises
    assert Sampling(presence_penalty=0.5).penalises


@pytest.mark.parametrize("name", ["draft", "explain", "page", "journal"])
def test_a_name_of_a_file_is_not_empty(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} takes text that is not empty, not ''"):
        GenerateConfig(run="runs/a", **{name: ""})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"chat": True, "teach": True}, "--teach asks which of several answers is best; leave out --chat"),
        (
            {"chat": True, "explain": "a.html"},
            "--explain shows how the text after a prompt came about; leave out --",
        ),
        ({"explain": "a.html", "prompt": ["a", "b"]}, "--explain shows how one text came about: give one prompt"),
        (
            {"explain": "a.html", "adaptive_context": True},
            "--explain reads the text with the whole context; leave out --",
        ),
        ({"explain": "a.html", "samples": 2}, "--explain shows how one text came about: give one prompt"),
        ({"page": "a.html", "stop": ["."]}, "a page has no setting for --stop; leave it out"),
        ({"page": "a.html", "repetition_penalty": 1.1}, "a page has no setting for --repetition-penalty"),
        ({"teach": True, "alternatives": 3}, "--teach shows whole answers; leave out --alternatives"),
        ({"journal": "mine.jsonl"}, "--journal is for --teach; leave it out, or give --teach"),
        ({"draft_tokens": 3}, "--draft-tokens is for --draft; leave it out, or give --draft"),
        ({"chat": True, "samples": 2}, "--chat writes one answer to each message; leave out --samples"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        GenerateConfig(run="runs/a", **settings).check()
