"""Declared settings: the values they accept, and the messages of refused ones."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad.errors import InputError
from minigrad.options import Group, assignments, checked_number, nearest, option, options, unknown, validate


@dataclass(frozen=True)
class Settings:
    model: str = option("vidya-v2", "the model family", group="what to train")
    steps: int | None = option(None, "updates of the weights", at_least=1)
    lr: float | None = option(None, "peak learning rate", above=0)
    dropout: float = option(0.0, "share of activations dropped", at_least=0, below=1)
    batch: int = option(8, "sequences per update", at_least=1, at_most=64)
    eval_every: int = option(100, "steps between two evaluations", at_least=1)
    top_p: float = option(1.0, "mass kept", above=0, at_most=1)
    precision: str = option("float32", "how numbers are stored", choices=("float32", "bfloat16"))
    resume: str | None = option(None, "continue the run in DIR", value="DIR", bare="", none_means="")
    vocab: int | None = option(None, "vocabulary")
    plan: bool = option(False, "print the plan and stop")


def test_values_given_from_python_are_checked_by_the_same_rules():
    validate(Settings(steps=3, lr=1, resume=Path("runs/a")))
    for settings, message in [
        (Settings(steps=-1), "steps takes a whole number of at least 1, not -1"),
        (Settings(steps=True), "steps takes a whole number of at least 1, not True"),
        (Settings(batch=None), "batch takes a whole number of at least 1 and at most 64, not None"),
        (Settings(lr=float("inf")), "lr takes a finite number above 0, not inf"),
        (Settings(top_p=1.5), "top_p takes a finite number above 0 and at most 1, not 1.5"),
        (Settings(precision="int8"), "precision takes one of float32, bfloat16, not 'int8'"),
        (Settings(model=3), "model takes text, not 3"),
        (Settings(plan=1), "plan takes true or false, not 1"),
    ]:
        with pytest.raises(InputError) as caught:
            validate(settings)
        assert str(caught.value) == message


def test_a_number_of_numpy_is_as_good_as_one_of_python_and_becomes_one():
    settings = Settings(steps=np.int64(3), lr=np.float32(0.5), top_p=np.float64(1), batch=np.uint8(2))
    validate(settings)
    kept = settings.steps, settings.lr, settings.top_p, settings.batch
    assert kept == (3, 0.5, 1.0, 2)
    assert [type(each) for each in kept] == [int, float, float, int]
    assert type(checked_number("n", np.int16(3), int)) is int
    for settings, message in [
        (Settings(steps=np.int64(0)), f"steps takes a whole number of at least 1, not {np.int64(0)!r}"),
        (Settings(steps=np.float64(2)), f"steps takes a whole number of at least 1, not {np.float64(2)!r}"),
    ]:
        with pytest.raises(InputError) as caught:
            validate(settings)
        assert str(caught.value) == message


def test_a_bound_is_written_for_a_reader_and_never_rounded():
    @dataclass(frozen=True)
    class Bounds:
        ids: int = option(0, "", at_least=-10, at_most=10**9)
        theta: float = option(1e4, "", above=1, at_most=1e15)
        decay: float = option(0.9, "", at_least=0.01, at_most=0.9999999)
        alpha: float = option(8.0, "", below=1e6)

    assert [each.expectation for each in options(Bounds)] == [
        "a whole number of at least -10 and at most 1,000,000,000",
        "a finite number above 1 and at most 1e+15",
        "a finite number of at least 0.01 and at most 0.9999999",
        "a finite number below 1,000,000",
    ]


@dataclass(frozen=True)
class Lists:
    stop: tuple[str, ...] = option((), "stop before", filled=True)
    ban: tuple[int, ...] = option((), "never", at_least=0)


def test_a_tuple_of_values_is_checked_one_by_one():
    stop, ban = options(Lists)
    assert (stop.many, stop.kind, ban.many, ban.kind) == (True, str, True, int)
    assert stop.convert("a") == "a"
    validate(Lists(stop=("a", "b"), ban=(0, 5)))
    validate(listed := Lists(ban=[0, np.int64(5)]))
    assert listed == Lists(ban=(0, 5))
    for settings, message in [
        (Lists(stop=("a", "")), "stop takes text that is not empty, not ''"),
        (Lists(ban=(1, -2)), "ban takes a whole number of at least 0, not -2"),
        (Lists(ban=3), "ban takes a list or a tuple, not 3; each element is a whole number of at least 0"),
    ]:
        with pytest.raises(InputError) as caught:
            validate(settings)
        assert str(caught.value) == message


def test_the_closest_name_is_found_or_none():
    assert nearest("VIDYA_V2", ["gpt2", "vidya-v2"]) == "vidya-v2"
    assert nearest("zzz", ["gpt2", "vidya-v2"]) is None
    assert nearest("x" * 900_000, ["gpt2", "x" * 100]) == "x" * 100  # by its beginning, and so at once
    assert str(unknown("size", "zzz", ["nano", "mini"])) == "unknown size 'zzz'. Known: nano, mini"


def test_options_come_in_the_order_of_the_fields_with_their_types():
    assert [each.name for each in options(Settings)][:4] == ["model", "steps", "lr", "dropout"]
    steps = next(each for each in options(Settings) if each.name == "steps")
    assert (steps.kind, steps.optional, steps.default, steps.spelling) == (int, True, None, "--steps")
    vocab = next(each for each in options(Settings) if each.name == "vocab")
    assert vocab.spelling == "--vocab"


@given(st.text())
def test_any_text_is_converted_or_refused_by_name(text):
    for each in options(Settings):
        try:
            value = each.convert(text)
        except InputError as refused:
            message = str(refused)
        else:
            message = f"{each.spelling} takes " if each.accepts(value) or value is None else "a wrong value"
        assert message.startswith(f"{each.spelling} takes ")


def test_assignments_are_split_at_commas_and_the_first_equals_sign():
    assert assignments(None) == {}
    assert assignments("a=1, b=x=y") == {"a": "1", "b": "x=y"}
    assert assignments("a=1, b=,") == {"a": "1", "b": ""}
    for text, wrong in (("a=1,b", "b"), ("=3", "=3"), ("a=1, =3", "=3"), (",", ","), (" , ", " , ")):
        with pytest.raises(InputError, match=f"^--set takes NAME=VALUE, with commas between several, not '{wrong}'$"):
            assignments(text)
    with pytest.raises(InputError, match="--set gives width twice: 1 and 2"):
        assignments("width=1, width=2")


@dataclass(frozen=True)
class Paper(Group):
    heading = "paper"

    size: str = option("A4", "the format")


@dataclass(frozen=True)
class Printer(Paper):
    heading = "printer"

    copies: int | None = option(None, "how many", group="count")
    colour: bool = option(False, "in colour")


@dataclass(frozen=True, kw_only=True)
class ChosenPrinter(Printer):
    copies: int


def test_the_heading_of_an_option_is_that_of_the_class_that_introduces_it():
    headings = {each.name: each.group for each in options(ChosenPrinter)}
    assert headings == {"size": "paper", "copies": "count", "colour": "printer"}
    assert options(Settings)[1].group == "options"
    ChosenPrinter(copies=1).check()  # a group without conditions
