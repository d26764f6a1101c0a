"""The dial: more time never chooses a smaller model, and the plan says why, and what more time would buy."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import models
from minigrad.training import optimizers
from minigrad.training.planning import choices, costs, scaling
from minigrad.training.planning.dial import Dial
from minigrad.training.settings import RunSettings, TrainConfig

LADDER = {size: models.for_training("vidya-v2", size) for size in models.LAPTOP_SIZES}
RATES, TEXT = costs.Rates(products=1e11, elements=1e9), 4_700_000
GOAL = models.smallest_published("vidya-v2")
DIAL = Dial(LADDER, RATES, TEXT, GOAL)
ENDLESS = replace(DIAL, text_bytes=10**15)
LARGE = models.skeleton("vidya-v2", "nano", context_length=1024)


def settings(asked: TrainConfig, dial: Dial = DIAL) -> RunSettings:
    size = dial.choose(asked)
    named = choices.name_text(replace(asked, size=size))
    return choices.choose_settings(named, dial.candidates[size], dial.rates, int(dial.unique_tokens))


@given(
    limit=st.sampled_from(["minutes", "tokens", "steps"]),
    amount=st.integers(1, 10**6),
    factor=st.integers(1, 100),
    rate=st.floats(1e9, 1e13),
    text=st.integers(1, 10**12),
)
def test_more_of_anything_never_chooses_a_smaller_model(limit, amount, factor, rate, text):
    dial = Dial(LADDER, costs.Rates(rate, rate / 100), text)
    sizes = [dial.choose(TrainConfig(**{limit: each})) for each in (amount, amount * factor)]
    assert models.LAPTOP_SIZES.index(sizes[0]) <= models.LAPTOP_SIZES.index(sizes[1])


def test_no_time_chooses_the_smallest_model_and_unlimited_time_and_text_the_largest_that_was_measured():
    assert ENDLESS.choose(TrainConfig(minutes=1e-6)) == "nano"
    assert ENDLESS.choose(TrainConfig(minutes=1e15)) == "micro"
    assert ENDLESS.choose(TrainConfig(steps=1)) == "nano"
    assert ENDLESS.choose(TrainConfig(tokens=10**24)) == "micro"


def test_a_number_of_tokens_gets_a_size_that_no_larger_one_beats_in_its_time():
    for tokens in (10**6, 10**8, 10**10):
        size = ENDLESS.choose(TrainConfig(tokens=tokens))
        assert ENDLESS.best(tokens / ENDLESS.speed(LADDER[size])) == size


def test_the_passes_of_a_run_are_those_of_the_size_it_gets() -> None:
    for asked in (TrainConfig(minutes=10.0), TrainConfig(minutes=600.0), TrainConfig(tokens=10**7)):
        tokens = asked.tokens or 60 * (asked.minutes or 0) * DIAL.speed(LADDER[DIAL.choose(asked)])
        assert DIAL.passes(asked) == tokens / DIAL.unique_tokens


@pytest.mark.parametrize("context", [64, 256, 1024])
def test_a_number_of_steps_counts_the_tokens_that_its_batch_will_have(context: int) -> None:
    asked = TrainConfig(steps=40_000, context=context)
    batch = choices.choose_settings(replace(asked, size="nano"), LARGE, RATES, text_tokens=10**6).batch
    assert DIAL.seconds(asked, "nano") == DIAL.seconds(replace(asked, batch=batch), "nano")
    assert replace(DIAL, processes=2).seconds(asked, "nano") == 2 * DIAL.seconds(asked, "nano")


@pytest.mark.parametrize("family", models.FAMILIES)
def test_the_sizes_of_every_family_that_have_the_names_of_measured_ones_count_as_measured(family: str) -> None:
    ladder = {size: models.for_training(family, size) for size in models.LAPTOP_SIZES}
    dial = replace(DIAL, candidates=ladder)
    assert [size for size in ladder if dial.is_measured(size)] == ["nano", "micro"]


def test_a_size_that_was_never_measured_is_not_chosen() -> None:
    assert [size for size in LADDER if not DIAL.is_measured(size)] == ["mini", "small"]
    in_layers = {size: optimizers.parameters_in_layers(model) for size, model in LADDER.items()}
    said = {size: scaling.predict(count, 8_000_000, scaling.ALL) for size, count in in_layers.items()}
    assert [size for size, expected in said.items() if not expected.is_measured] == ["mini", "small"]
    assert DIAL.after("mini", 10**10).loss < DIAL.after("micro", 10**10).loss
    assert DIAL.best(1e9) == ENDLESS.best(1e9) == "micro"
    assert replace(DIAL, candidates={"mini": LADDER["mini"]}).best(1e9) == "mini"  # which was asked for
    reason = DIAL.rows(settings(TrainConfig(minutes=600.0)))["size"]
    assert reason.startswith("micro is chosen for this time: ")
    assert re.search(r"; nano 1\.\d\d, mini 1\.\d\d \(never measured\), small ", reason)


def test_a_larger_size_must_be_the_best_after_half_of_the_time() -> None:
    speeds = {size: ENDLESS.speed(LADDER[size]) for size in ("nano", "micro")}
    seconds, later = 60.0, 600_000.0
    while later - seconds > 1:  # where micro gets ahead lies between the two
        middle = (seconds + later) / 2
        nano, micro = (ENDLESS.after(size, middle * speed).loss for size, speed in speeds.items())
        seconds, later = (seconds, middle) if micro < nano else (middle, later)
    assert ENDLESS.best(seconds) == ENDLESS.best(1.9 * seconds) == "nano"
    assert ENDLESS.best(2.1 * seconds) == "micro"
    said = "must be ahead after half of the time"
    assert said in ENDLESS.rows(settings(TrainConfig(minutes=1.5 * seconds / 60), ENDLESS))["size"]
    assert said not in ENDLESS.rows(settings(TrainConfig(minutes=0.5 * seconds / 60), ENDLESS))["size"]


def test_a_text_that_a_larger_model_would_learn_by_heart_gets_the_smallest():
    short = replace(DIAL, text_bytes=10_000)
    assert short.choose(TrainConfig(minutes=1e6)) == "nano"
    row = short.rows(settings(TrainConfig(minutes=10, data="a.txt"), short))["size"]
    assert "nano is the best for this time by the scaling law of vidya-v2 on python-docs; " in row
    assert "a text that counts as 3,100 tokens is too short for nano and micro and mini and small" in row


@pytest.mark.parametrize("limit", [{"minutes": 10.0}, {"steps": 3_000}])
def test_the_plan_says_why_and_what_more_time_would_buy(limit):
    rows = DIAL.rows(settings(TrainConfig(**limit)))
    assert list(rows) == ["size", "more time"]
    assert rows["size"].startswith("nano is the best for this time: 1.")
    assert "bits per byte by the scaling law; micro " in rows["size"]
    twice, ten, goal = rows["more time"].split("; ")
    assert twice.startswith("20m 00s: " if "minutes" in limit else "")
    assert ten.startswith("1h 40m: " if "minutes" in limit else "")
    assert twice.endswith("passes over the text")
    assert re.match(r"compute-optimal 2\.0 on this machine: [\d,]+ days, for 20 new tokens for each parameter", goal)


def test_a_trial_of_seconds_is_not_asked_to_go_on():
    assert list(DIAL.rows(settings(TrainConfig(minutes=1.0)))) == ["size", "more time"]
    assert list(DIAL.rows(settings(TrainConfig(steps=5)))) == ["size"]


def test_of_another_model_or_another_text_only_the_order_is_told():
    source = {"data": choices.WITH_SOURCE}
    teacher = {"objective": "distill", "teacher": "runs/a"}
    unusual = ({"set": "num_heads=6"}, {"held_out": "shakespeare"}, {"optimizer": "sgd"}, teacher)
    for change in ({"data": "shakespeare"}, source, *unusual):
        rows = DIAL.rows(settings(TrainConfig(minutes=10.0, **change)))
        assert "bits per byte" not in rows["size"] + rows["more time"]
        assert "20m 00s: nano, " in rows["more time"]


def test_of_the_default_text_with_source_code_the_losses_are_told():
    asked = TrainConfig(minutes=10.0, data=choices.WITH_SOURCE, held_out="python-docs")
    assert DIAL.rows(settings(asked))["size"].startswith("nano is the best for this time: 1.")


def test_more_time_adds_source_code_where_the_text_is_open():
    minutes = 1.01 * choices.MOST_PASSES * DIAL.unique_tokens / DIAL.speed(LADDER["nano"]) / 60 / 10
    for may_add, said in ((False, "passes over the text"), (True, "nano, and source code would join the text")):
        dial = replace(DIAL, may_add_source=may_add)
        twice, ten, _ = dial.rows(settings(TrainConfig(minutes=minutes), dial))["more time"].split("; ")
        assert twice.endswith("passes over the text")
        assert ten.endswith(said)


def test_without_a_choice_nothing_is_said():
    only = replace(DIAL, candidates={"nano": LADDER["nano"]})
    assert only.rows(settings(TrainConfig(steps=5), only)) == {}


def test_the_time_is_that_of_the_estimated_speed():
    update = optimizers.update_flops_per_token("muon", LADDER["nano"], 2_048)
    speed = costs.tokens_per_second(LADDER["nano"], 256, RATES, update)
    assert DIAL.seconds(TrainConfig(tokens=10**6), "nano") == pytest.approx(10**6 / speed)
    assert DIAL.seconds(TrainConfig(minutes=2.0), "micro") == pytest.approx(120)
