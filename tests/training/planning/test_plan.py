"""The plan: estimates of the cost, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import models
from minigrad.data.corpus import Corpus
from minigrad.data.tokens.token_files import TokenFile
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.errors import InputError
from minigrad.evaluate.rivals import xz_seconds
from minigrad.finetuning.epochs import EpochSource
from minigrad.system import hardware
from minigrad.training.guests import plan_rows
from minigrad.training.planning import choices, costs, description
from minigrad.training.planning.description import describe, summarise
from minigrad.training.planning.plan import Plan
from minigrad.training.settings import RunSettings, TrainConfig
from tests.distributed.rooms import Meeting

NANO = models.skeleton("vidya-v2", "nano")
RATES = costs.Rates(products=1e11, elements=1e9)
READING = ("windows", "packed")


class Ids:
    """A tokenizer with sizes only."""

    def __init__(self, used: int = 4_096) -> None:
        self.vocab_size, self.used = 4_096, used
        self.specials, self.end_of_text_id = {"<|endoftext|>": 0}, 0


def joined(description: str) -> str:
    """Return a plan without its line breaks."""
    return " ".join(description.split())


def chosen(settings: TrainConfig) -> RunSettings:
    return choices.choose_settings(replace(settings, size="nano"), NANO, RATES, text_tokens=1_000_000)


def text(train: int = 1_000, validation: int = 1_000, used: int = 4_096) -> TokenizedCorpus:
    places = [np.arange(count) for count in (train, validation)]
    rows = [np.minimum(place, place[::-1]) > 0 for place in places]  # each is one document, between zeros
    files = [TokenFile(row.astype(np.uint16), 3 * len(row), "") for row in rows]
    return TokenizedCorpus(Corpus("a text", "a text", ("one", "two"), ("three",)), Ids(used), *files, np.ones(4_096))


def planned(settings: TrainConfig, words: TokenizedCorpus | None = None) -> Plan:
    found = chosen(choices.name_text(settings))
    return Plan(found, NANO, words or text(), RATES, rows=plan_rows(found))


def test_too_little_text_to_train_on_is_refused():
    small = TrainConfig(steps=5, context=16, documents="windows")
    planned(small, text(17, 17)).check()
    with pytest.raises(InputError, match="the text has 16 tokens"):
        planned(small, text(train=16)).check()
    packed = TrainConfig(steps=5, context=16)
    planned(packed, text(2, 2)).check()
    with pytest.raises(InputError, match="the text has 1 token and the context is 16: there must be 2 tokens"):
        planned(packed, text(train=1)).check()


def test_a_validation_text_may_be_shorter_than_a_window():
    short = planned(TrainConfig(steps=5, context=16, documents="windows"), text(validation=10))
    short.check()
    assert short.evaluated_tokens == 9


def test_what_does_not_fit_into_memory_is_refused_with_the_figures(monkeypatch):
    five = planned(TrainConfig(steps=5))
    needed = five.memory().total
    monkeypatch.setattr(hardware, "available_memory_bytes", lambda: needed)
    assert not five.lack_of_memory()
    monkeypatch.setattr(hardware, "available_memory_bytes", lambda: 0)  # not known: nothing is refused
    assert not five.lack_of_memory()
    monkeypatch.setattr(hardware, "available_memory_bytes", lambda: needed - 1)
    assert re.match(
        r"training 975,072 parameters needs about .* MB are free\. End other programs, or begin a run with a smaller",
        five.lack_of_memory(),
    )
    assert f" refused {five.lack_of_memory()} machine" in joined(describe(five, Path("a")))


def test_the_time_of_the_evaluation_is_that_of_the_tokens_that_it_reads():
    windows, packed = (planned(TrainConfig(minutes=1, documents=way), text(validation=10_001)) for way in READING)
    assert windows.evaluated_tokens == 77 * 256 + 144  # each after the first has 128 new ones, the last has the rest
    assert packed.evaluated_tokens == windows.evaluated_tokens  # one document
    row = (np.arange(10_001) % 100).astype(np.uint16)  # documents of 100 tokens
    many = replace(text(), validation=TokenFile(row, 30_003, ""))
    assert planned(TrainConfig(minutes=1), many).evaluated_tokens == 10_000
    assert planned(TrainConfig(minutes=1), many).seconds_after() < packed.seconds_after()


def test_more_validation_text_takes_more_time_after_the_last_step():
    short, long = (planned(TrainConfig(minutes=1), text(validation=n)).seconds_after() for n in (10**4, 10**6))
    assert 0 < short < long


def test_rivals_are_computed_only_if_the_minutes_allow_it():
    ten, one, steps = (TrainConfig(**limit) for limit in ({"minutes": 10}, {"minutes": 1}, {"steps": 9}))
    small, large = text(), text(train=20_000_000)  # of three bytes for each token
    assert [planned(settings, small).too_long_for_rivals() for settings in (ten, one, steps)] == ["", "", ""]
    assert [planned(settings, large).too_long_for_rivals() for settings in (ten, steps)] == ["", ""]
    assert planned(one, large).too_long_for_rivals() == "it would have taken about 15s of the 1m 00s"


@given(st.floats(0.1, 600), st.integers(1_000, 10**9))
def test_no_text_is_so_long_that_its_rivals_use_up_the_minutes(minutes, train):
    settings = replace(chosen(TrainConfig(steps=9)), minutes=minutes)
    file = TokenFile(np.zeros(2, np.uint16), train, "")
    long = replace(text(), train=file, validation=replace(file, num_bytes=train // 16))
    with_rivals, without = (Plan(settings, NANO, words, RATES).seconds_after() for words in (long, text(2, 2)))
    assert with_rivals - without <= 0.15 * 60 * minutes
    assert xz_seconds(train, 3_000) < 12


@pytest.mark.parametrize("limit", [{"steps": 50}, {"minutes": 3.0}, {"tokens": 9_000}])
def test_the_plan_describes_the_model_the_text_and_the_length_of_the_run(limit):
    said = describe(planned(TrainConfig(**limit)), Path("runs/a"))
    assert "vidya-v2 nano: 975,072 parameters, 6 layers of width 96" in said
    assert "100 GFLOP/s" in joined(said)
    assert ("3m 00s: about" in said) == ("minutes" in limit)
    names = [name for line in said.splitlines() if (name := line[:14].strip()) not in ("", "variables")]
    assert names == ["model", "text", "vocabulary", "step", "memory", "machine", "speed", "length", "run folder"]
    assert max(map(len, said.splitlines())) < 80
    assert said.endswith("run folder  runs/a")


def test_the_brief_plan_has_six_lines_and_more_only_for_what_is_unusual(monkeypatch):
    monkeypatch.setattr(description.environment, "FOUND", {})
    plan = planned(TrainConfig(minutes=10.0), text(train=20_000_000))
    lines = summarise(plan, Path("runs/a")).splitlines()
    assert [line[:14].strip() for line in lines] == ["model", "text", "arithmetic", "length", "memory", "run folder"]
    assert re.fullmatch(r"  arithmetic +(bfloat16|float32) .+ at 100 GFLOP/s: about [\d,]+ tokens/s", lines[2])
    assert re.fullmatch(r"  memory +about [\d.]+ MB; the same command with --plan says more", lines[4])
    assert lines[0] in describe(plan, Path("runs/a"))
    monkeypatch.setattr(description.environment, "FOUND", {"OPENBLAS_CORETYPE": "Haswell"})
    claimed = summarise(
        replace(plan, claim="49m, but 3", caution="read before", rows={"context": "adapts"}), Path("runs/a")
    )
    names = [name for line in claimed.splitlines() if (name := line[:14].strip())]
    unusual = ["claimed", "caution", "variables", "context"]
    assert names == ["model", "text", *unusual, "arithmetic", "length", "memory", "run folder"]


def test_the_plan_says_how_many_documents_pieces_and_tokens_a_step_holds():
    row = np.append(np.tile(np.arange(40), 25), 0)
    words = replace(text(), train=TokenFile(row.astype(np.uint16), 3_000, ""))
    settings = TrainConfig(steps=5, batch=4, context=16)

    def said(**changes: Any) -> str:
        return joined(describe(planned(replace(settings, **changes), words), Path("a")))

    assert "4 x 16 tokens: about 0 documents and 4.8 pieces of longer ones, peak" in said()  # 3 of 40 tokens
    assert "4 x 16 tokens x 2 parts: about 0 documents and 9.6 pieces of longer ones, peak" in said(accumulate=2)
    assert "4 x 50 tokens: about 5 documents and 0 pieces of longer ones, peak" in said(context=50)
    assert "400 x 16 tokens: about 0 documents and 480 pieces" in said(batch=400)
    assert "4 x 16 tokens in windows that cross documents, peak" in said(documents="windows")


def test_the_cost_of_attention_is_that_of_the_documents():
    row = np.append(np.tile(np.arange(40), 25), 0)
    short = replace(text(), train=TokenFile(row.astype(np.uint16), 3_000, ""))
    plans = [planned(TrainConfig(steps=5, documents=way), short) for way in ("packed", "windows")]
    assert plans[0].flops_per_token() == costs.flops_per_token(NANO, 40)
    assert plans[1].flops_per_token() == costs.flops_per_token(NANO, 256)


def test_the_plan_says_between_which_bounds_the_context_adapts():
    fixed, adaptive = (planned(TrainConfig(steps=5, adaptive_context=adapts)) for adapts in (False, True))
    said = joined(describe(adaptive, Path("a")))
    assert "context adapts between 32 and 256 tokens, and begins with 64; memory and speed are those of" in said
    assert adaptive.memory() == fixed.memory()
    assert adaptive.flops_per_token(32) < adaptive.flops_per_token() == fixed.flops_per_token(256)


def test_the_plan_of_a_pipeline_counts_the_parts_of_a_step_and_the_layers_of_a_stage():
    world = Meeting(2).rooms[0]
    data, stages = (
        replace(planned(TrainConfig(steps=5, batch=8, accumulate=4, pipeline=each)), world=world)
        for each in (False, True)
    )
    assert "processes 2, which share the sequences of a step and its update;" in joined(describe(data, Path("a")))
    assert "processes 2, which share the layers; speed" in joined(describe(stages, Path("a")))
    assert stages.memory().state < data.memory().state
    assert stages.memory().activations > 2 * data.memory().activations  # four parts wait for their gradients
    stages.check()
    with pytest.raises(InputError, match="6 layers cannot be divided among 7 processes: start 6 or fewer"):
        replace(stages, world=Meeting(7).rooms[0]).check()
    replace(data, world=Meeting(7).rooms[0]).check()


@pytest.mark.parametrize(("threads", "can_be_set", "is_said"), [(4, False, True), (4, True, False), (1, False, False)])
def test_the_plan_says_that_the_threads_of_blas_cannot_be_set(monkeypatch, threads, can_be_set, is_said):
    monkeypatch.setattr(description.hardware, "threads", lambda: threads)
    monkeypatch.setattr(description.blas, "can_use_one_thread", lambda: can_be_set)
    said = describe(planned(TrainConfig(steps=5)), Path("runs/a"))
    assert ("no replicas because the threads of NumPy's BLAS cannot be set" in joined(said)) == is_said


@pytest.mark.parametrize("found", [{}, {"OMP_NUM_THREADS": "2"}, {"OPENBLAS_CORETYPE": "Haswell"}])
def test_the_plan_warns_of_variables_that_name_another_processor(monkeypatch, found):
    monkeypatch.setattr(description.environment, "FOUND", found)
    said = joined(describe(planned(TrainConfig(steps=5)), Path("runs/a")))
    assert ("variables OPENBLAS_CORETYPE=Haswell is set: libraries compute as" in said) == ("OPENBLAS" in str(found))
    assert all(f"{name}={value}; matrix products at" in said for name, value in found.items())


def test_a_text_that_is_read_too_often_is_warned_of():
    often, seldom = (
        joined(describe(planned(TrainConfig(steps=50), text(train=count)), Path("a"))) for count in (1_000, 90_000)
    )
    assert "; the text is read so often that the last pass teaches almost nothing, and the model" in often
    assert "take less time, or more --data" in often
    assert "so often" not in seldom


def test_a_model_of_one_layer_is_described_in_the_singular():
    one = replace(planned(TrainConfig(steps=5)), model=models.skeleton("vidya-v2", "nano", num_layers=1))
    assert "parameters, 1 layer of width 96" in joined(describe(one, Path("runs/a")))


def test_a_vocabulary_that_the_text_does_not_fill_is_mentioned():
    said = joined(describe(planned(TrainConfig(steps=5), text(used=300)), Path("runs/a")))
    assert "the tokenizer has 300, and the other rows of the model stay unused" in said
    assert "unused" not in describe(planned(TrainConfig(steps=5)), Path("runs/a"))


def test_the_plan_of_a_continued_run_is_for_the_steps_that_are_left():
    plans = (replace(planned(TrainConfig(steps=50)), done=done) for done in (0, 20, 50))
    whole, half, finished = (joined(describe(each, Path("runs/a"))) for each in plans)
    per_step = planned(TrainConfig(steps=50)).settings.tokens_per_step
    assert f"length 50 steps: {50 * per_step:,} tokens, " in whole
    assert f"length 50 steps (20 are done): {30 * per_step:,} tokens, " in half
    assert "length ended after 50 steps; a larger --steps continues this run" in finished


def test_a_teacher_takes_time_for_the_tokens_that_it_reads():
    alone = planned(TrainConfig(steps=5))
    lessons = [Mock(wraps=alone.source, teacher=NANO, read_by_teacher=share) for share in (1.0, 0.5, 0.0)]
    whole, half, none = (replace(alone, lessons=each) for each in lessons)
    reading = [1 / each.tokens_per_second() - 1 / alone.tokens_per_second() for each in (whole, half, none)]
    own = costs.tokens_per_second(NANO, alone.source.attended_length(), RATES)
    assert reading == pytest.approx([1 / (3 * own), 1 / (6 * own), 0.0])


def test_the_plan_of_lessons_counts_the_tokens_that_the_steps_read():
    """An epoch has as many steps as it needs, so a step may read less than it has room for."""
    source = EpochSource(np.full(40, 25), 256)
    lessons = Mock(wraps=source, teacher=None, learns_text=False, summary=lambda: "sums")
    teaching = replace(planned(TrainConfig(steps=100, batch=8, context=256)), lessons=lessons)
    said = joined(describe(teaching, Path("runs/a")))
    assert "length 100 steps: 100,000 tokens, 100.0 passes" in said
    assert "lessons sums" in said
    begun = joined(describe(replace(teaching, done=40), Path("runs/a")))
    assert "length 100 steps (40 are done): 60,000 tokens, 60.0 passes" in begun


def test_the_plan_of_a_continued_run_of_minutes_is_for_the_tokens_that_are_left():
    whole = planned(TrainConfig(minutes=5.0))
    half = replace(whole, done=1_234, used=(300 - whole.seconds_after()) / 2)  # at whichever speed
    assert half.tokens_to_come() == pytest.approx(whole.tokens_to_come() / 2)
    assert "length 5m 00s (1,234 steps done): about " in joined(describe(half, Path("runs/a")))


def test_minutes_that_the_work_after_the_last_step_uses_up_are_too_short_for_an_estimate():
    short = planned(TrainConfig(minutes=0.05))
    said = joined(summarise(short, Path("runs/a")))
    assert "length 3s: too short for an estimate; the run makes at least two steps" in said
    begun = joined(describe(replace(short, done=9, used=1.0), Path("runs/a")))
    assert "length 3s (9 steps done): too short for an estimate; " in begun


def test_a_pass_is_worth_what_all_readings_before_it_leave():
    words = text(train=90_000)
    beginning = planned(TrainConfig(steps=1_000), words)
    continued = replace(beginning, done=990)
    assert "the last pass teaches" in joined(describe(beginning, Path("runs/a")))
    assert "the last pass teaches" in joined(describe(continued, Path("runs/a")))


def test_the_plan_counts_what_follows_the_last_step():
    large = text(train=20_000_000)  # of three bytes for each token, so the rivals take 15 seconds
    assert re.search(r"in about [12]\ds run folder", joined(describe(planned(TrainConfig(steps=2), large), Path("a"))))
    ten_minutes = [planned(TrainConfig(minutes=10), words) for words in (text(), large)]
    tokens = [re.search(r"about ([\d,]+) tokens, ", joined(describe(each, Path("a")))) for each in ten_minutes]
    short, long = (int(found[1].replace(",", "")) for found in tokens if found)
    assert long < short
