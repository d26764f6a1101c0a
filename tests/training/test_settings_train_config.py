"""All settings together: the defaults exclude nothing, and groups that exclude each other are refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import tokenizer
from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.generation.settings import GenerateConfig
from minigrad.options import options, validate
from minigrad.training.settings import TrainConfig


def test_the_defaults_exclude_nothing():
    TrainConfig().check()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (TrainConfig(vocab=300, init="a"), "--init brings one"),
        (TrainConfig(tokenizer="vidya-v1", init="a"), "--tokenizer vidya-v1 trains a tokenizer, but --init brings one"),
        (TrainConfig(resume="a", out="b"), "--out cannot be given with it"),
        (TrainConfig(adapter_rank=4), "--adapter-rank trains beside the weights of a trained model: name its folder"),
        (TrainConfig(objective="sft"), "--objective sft teaches a trained model: name its folder with --init"),
        (TrainConfig(objective="dpo", init="a", data="task:facts"), "--objective dpo needs --data FILE.jsonl, pairs"),
        (
            TrainConfig(objective="sft", init="a", data="task:facts", skip_broken=True),
            "--skip-broken is for --objective sft and a file of conversations; leave it out",
        ),
        (
            TrainConfig(objective="sft", init="a", data="task:arithmetic", question_noise=0.1),
            "--question-noise changes the problem of a task, but not its answer: leave it out",
        ),
        (
            TrainConfig(objective="sft", init="a", data="b.jsonl", adaptive_context=True),
            "--adaptive-context is for pre-training",
        ),
        (
            TrainConfig(objective="distill", teacher="a", adaptive_context=True),
            "--adaptive-context cannot be given with a --teacher",
        ),
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings, message):
    with pytest.raises(InputError, match=message):
        settings.check()


def test_questions_without_noise_can_be_wished_for_whatever_is_taught():
    for data in ("task:arithmetic", "b.jsonl"):
        TrainConfig(objective="sft", init="a", data=data, question_noise=0.0).check()
    TrainConfig(objective="sft", init="a", data="b.jsonl", question_noise=0.1).check()


def test_what_several_processes_cannot_do_together_is_refused():
    for objective in ("reinforce", "best-of-n", "grpo", "dpo", "distill"):
        TrainConfig(objective=objective).check_processes(1)
        with pytest.raises(InputError, match=f"--objective {objective} lets models make its batches"):
            TrainConfig(objective=objective).check_processes(2)
    TrainConfig(objective="sft").check_processes(2)


def test_a_pipeline_needs_several_processes_and_nothing_that_reads_all_weights_in_a_step():
    TrainConfig(pipeline=True).check()
    TrainConfig(pipeline=True).check_processes(2)
    TrainConfig(pipeline=True, resume="runs/a").check_processes(1)  # one process may continue it
    with pytest.raises(InputError, match="--pipeline divides the layers among several processes: start it with mpiex"):
        TrainConfig(pipeline=True).check_processes(1)
    refused = ("objective", "distill"), ("adapter_rank", 2), ("ema", 0.9), ("ema", 0.0), ("adaptive_context", True)
    for flag, value in refused:
        with pytest.raises(InputError, match=f"--pipeline cannot be given with --{flag.replace('_', '-')}"):
            TrainConfig(pipeline=True, **{flag: value}).check()


def test_the_defaults_are_allowed():
    validate(TrainConfig())
    validate(GenerateConfig(run="runs/a"))


def test_the_smallest_vocabulary_is_that_of_a_tokenizer_without_merges():
    smallest = 256 + len(tokenizer.SPECIAL_TOKENS)
    TrainConfig(vocab=smallest).check()
    assert tokenizer.train(["text"], vocab_size=smallest).vocab_size == smallest
    with pytest.raises(InputError, match="--vocab takes at least 261"):
        TrainConfig(vocab=smallest - 1).check()


def test_a_flag_that_both_programs_have_means_the_same_in_both():
    parsers = (Parser(kind, prog="", description="")._parser for kind in (TrainConfig, GenerateConfig))
    train, write = (parser.format_help() for parser in parsers)
    for flag in ("--threads N", "--seed N"):
        assert flag in train
        assert flag in write


def test_the_flags_stand_in_the_order_of_their_groups():
    titles = list(dict.fromkeys(each.group for each in options(TrainConfig)))
    lengths = "how long (one of these)"
    assert titles == ["model", "data", lengths, "optimisation", "teaching", "adapters", "processes", "output"]
    assert [each.name for each in options(TrainConfig)][:2] == ["model", "size"]


def test_paths_are_kept_as_text() -> None:
    asked = TrainConfig(data=Path("a.txt"), held_out=Path("b.txt"), tokenizer=Path("c"))  # type: ignore[arg-type]
    assert (asked.data, asked.held_out, asked.tokenizer) == ("a.txt", "b.txt", "c")


@pytest.mark.parametrize(
    "name", ["data", "decay", "held_out", "init", "out", "replay_text", "set", "teacher", "tokenizer"]
)
def test_an_empty_text_is_refused(name):
    with pytest.raises(InputError, match=f"{name} takes text that is not empty, not ''"):
        TrainConfig(**{name: ""}).check()
