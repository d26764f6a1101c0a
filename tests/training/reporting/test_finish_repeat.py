"""The command that repeats a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from minigrad.cli.parser import Parser
from minigrad.system.terminal import command
from minigrad.training.reporting.finish import repeat_command
from minigrad.training.settings import TrainConfig
from tests.command_words import command_words
from tests.distributed.rooms import Meeting

PARSER = Parser(TrainConfig, prog="train.py", description="")
USED = TrainConfig(data="words.txt", size="nano", steps=30, seed=3, batch=2, context=16, lr=0.01, warmup=3, threads=1)
TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1) | st.sampled_from(["-words.txt", "--data"])


@given(
    data=TEXT, steps=st.integers(1, 10**9), lr=st.none() | st.floats(1e-300, 1e300), seed=st.integers(0),
    dropout=st.floats(0, 0.99), tokenizer=st.none() | TEXT, precision=st.sampled_from(["float32", "float64"]),
)  # fmt: skip
def test_the_command_holds_every_setting_exactly(**settings):
    config = TrainConfig(size="nano", **settings)
    words = command_words(repeat_command(config, Path("runs/a b")))
    assert words[:2] == command_words(command("train.py"))
    assert PARSER.read(words[2:])[0] == replace(config, out="runs/a b-again")


def test_the_command_of_a_run_in_stages_has_one_part_for_each():
    first, second, third = repeat_command(replace(USED, minutes=3.0), Path("runs/a"), [10, 20]).split(" && ")
    assert "--steps 10 " in first
    assert "--minutes" not in first
    assert first.endswith("--out runs/a-again")
    assert second == command("train.py", "--resume", Path("runs/a-again"), "--steps", 20)
    assert third == command("train.py", "--resume", Path("runs/a-again"), "--steps", 30)


def test_a_run_of_several_processes_is_repeated_by_as_many_where_they_can_share_the_batch():
    two, three = (Meeting(size).rooms[0] for size in (2, 3))
    first, second = repeat_command(replace(USED, batch=6), Path("runs/a"), [10], world=two).split(" && ")
    assert first.startswith("mpiexec -n 2 ")
    assert "--batch 3 " in first
    assert second.startswith("mpiexec -n 2 ")
    assert "--batch 2 " in repeat_command(replace(USED, batch=6), Path("runs/a"), world=three)
    alone = repeat_command(replace(USED, batch=8), Path("runs/a"), world=three)
    assert "mpiexec" not in alone
    assert "--batch 8 " in alone
    assert "--pipeline " in repeat_command(replace(USED, batch=6, pipeline=True), Path("runs/a"), world=two)
    assert "--pipeline" not in repeat_command(replace(USED, batch=8, pipeline=True), Path("runs/a"), world=three)
