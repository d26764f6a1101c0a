"""The choices: a size that the time can train, and settings that can be repeated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import models
import tokenizer
from minigrad.data.tokens.token_files import beginning
from minigrad.errors import InputError
from minigrad.nn.language_model import LanguageModel
from minigrad.options import options, validate
from minigrad.training.planning import choices, costs
from minigrad.training.settings import OBJECTIVES, RunSettings, TrainConfig

LADDER = {size: models.skeleton("vidya-v2", size) for size in models.LAPTOP_SIZES}
RATES = costs.Rates(products=1e11, elements=1e9)


def chosen(
    settings: TrainConfig, model: LanguageModel = LADDER["nano"], text_tokens: int = 1_000_000, processes: int = 1
) -> RunSettings:
    return choices.choose_settings(replace(settings, size="nano"), model, RATES, text_tokens, processes)


@given(
    limit=st.sampled_from(["minutes", "steps", "tokens"]),
    amount=st.integers(1, 10**6),
    batch=st.none() | st.integers(1, 64),
    context=st.none() | st.integers(2, 2_048),
)
def test_every_setting_is_chosen_within_its_bounds_and_only_once(limit, amount, batch, context):
    asked = TrainConfig(**{limit: amount}, batch=batch, context=context)
    found = chosen(asked)
    validate(found)
    for name in ("batch", "context", "lr", "warmup", "threads", "log_every", "eval_every", "save_every"):
        assert getattr(found, name) is not None
        assert getattr(asked, name) in (None, getattr(found, name))
    assert chosen(found) == found


def test_tokens_become_whole_steps_rounded_up():
    assert chosen(TrainConfig(tokens=1_000, batch=2, context=16)).steps == 32
    assert chosen(TrainConfig(tokens=1_024, batch=2, context=16)).steps == 32
    assert chosen(TrainConfig(tokens=1_025, batch=2, context=16, accumulate=2)).steps == 17


def test_more_tokens_than_a_record_can_hold_steps_of_are_refused():
    assert chosen(TrainConfig(tokens=2 * 10**9, batch=1, context=2)).steps == 10**9
    with pytest.raises(InputError, match=r"--tokens 2,000,000,001 are 1,000,000,001 steps of 2 tokens"):
        chosen(TrainConfig(tokens=2 * 10**9 + 1, batch=1, context=2))


@pytest.mark.parametrize(("hours", "minutes_at_stake"), [(1, 10), (3, 30), (24 * 7, 30)])
def test_a_run_that_is_killed_loses_a_sixth_of_it_and_half_an_hour_at_most(hours, minutes_at_stake):
    a_minute = chosen(TrainConfig(minutes=6.0, batch=8, context=256)).save_every  # about a sixth of this run
    found = chosen(TrainConfig(minutes=60.0 * hours, batch=8, context=256)).save_every
    assert found == pytest.approx(minutes_at_stake * a_minute, rel=0.3)


def test_a_wider_model_gets_a_smaller_learning_rate():
    rates = [chosen(TrainConfig(steps=5), model).lr or 0 for model in LADDER.values()]
    assert sorted(rates, reverse=True) == rates
    assert rates[-1] < rates[0]


def test_sgd_gets_a_rate_and_a_decay_of_its_own():
    sgd, adamw = (chosen(TrainConfig(steps=5, optimizer=name)) for name in ("sgd", "adamw"))
    assert sgd.lr > 10 * adamw.lr
    assert (sgd.weight_decay, adamw.weight_decay) == (1e-4, 0.1)
    assert chosen(TrainConfig(steps=5, optimizer="sgd", weight_decay=0.0)).weight_decay == 0.0


def test_what_adamw_updates_beside_muon_has_a_longer_memory_of_the_squares():
    asked = [TrainConfig(steps=5, optimizer=name) for name in ("adamw", "muon", "sgd")]
    assert [chosen(each).beta2 for each in asked] == [0.95, 0.99, None]
    assert chosen(TrainConfig(steps=5, optimizer="muon", beta2=0.95)).beta2 == 0.95


def test_dropout_grows_with_the_size_of_the_model_and_the_passes_over_its_text():
    def dropout(size: str, tokens: int, text_tokens: int) -> float:
        return chosen(TrainConfig(tokens=tokens), LADDER[size], text_tokens).dropout

    assert dropout("nano", 15_000_000, 1_900_000) == 0.05  # ten minutes of the default text
    assert dropout("micro", 24_000_000, 1_900_000) == 0.14  # an hour of it
    assert dropout("nano", 4_000_000, 250_000) == 0.2
    assert dropout("mini", 10**9, 10**9) == 0  # new text
    assert dropout("mini", 10**9, 10**6) == dropout("nano", 1_000, 0) == 0.3
    assert chosen(TrainConfig(tokens=10**9, dropout=0.0), text_tokens=1_000).dropout == 0


@pytest.mark.parametrize(
    ("asked", "may_add", "data"),
    [
        (TrainConfig(), True, "python-docs"),
        (TrainConfig(data="python-docs"), False, "python-docs"),
        (TrainConfig(data="book.txt", held_out="page.txt"), False, "book.txt"),
        (TrainConfig(held_out="page.txt"), False, "python-docs"),
        (TrainConfig(init="runs/a"), False, "python-docs"),
        (TrainConfig(teacher="runs/a", objective="distill"), False, "python-docs"),
    ],
)
def test_only_a_new_model_whose_text_is_open_may_get_source_code(asked, may_add, data):
    assert choices.may_add_source(asked) == may_add
    assert choices.name_text(asked) == replace(asked, data=data)
    assert choices.with_source(asked) == replace(asked, data=choices.WITH_SOURCE, held_out="python-docs")


def test_the_help_of_the_text_names_the_passes():
    help_of_data = {each.name: each for each in options(TrainConfig)}["data"].help
    assert f"more than {choices.MOST_PASSES:g} times" in help_of_data


def test_a_context_longer_than_the_model_has_is_refused():
    assert chosen(TrainConfig(context=2_048)).context == 2_048
    with pytest.raises(InputError, match=r"--context 2049 is longer than the model's context of 2048"):
        chosen(TrainConfig(context=2_049))


def test_each_process_gets_a_whole_batch_unless_that_of_all_is_known():
    assert (chosen(TrainConfig()).batch, chosen(TrainConfig(), processes=3).batch) == (8, 24)
    assert chosen(TrainConfig(batch=6), processes=3).batch == 6
    assert chosen(TrainConfig(tokens=12_288), processes=3).steps == 2


def test_a_long_run_reads_twice_as_many_tokens_in_a_step() -> None:
    def batch(**asked: Any) -> int:
        return chosen(TrainConfig(**asked)).batch

    least = choices.LONG_RUN
    assert [batch(tokens=each) for each in (least - 1, least, 100 * least)] == [8, 16, 16]
    assert (batch(tokens=least, context=512), batch(tokens=least, context=2_048)) == (8, 2)
    assert (batch(tokens=least, batch=8), batch(tokens=least, accumulate=2), batch(steps=least)) == (8, 8, 8)
    assert batch(tokens=least, objective="sft", init="runs/base", data="book.txt") == 8
    assert [chosen(TrainConfig(tokens=least), processes=each).batch for each in (2, 3)] == [16, 24]
    assert chosen(TrainConfig(tokens=least, context=150)).batch == 27
    assert chosen(TrainConfig(tokens=least, context=150), processes=2).batch == 26  # processes have equal shares
    assert (batch(minutes=0.1), batch(minutes=1_000.0)) == (8, 16)
    sizes = {size: chosen(TrainConfig(tokens=least), model).batch for size, model in LADDER.items()}
    assert sizes == {"nano": 16, "micro": 16, "mini": 8, "small": 8}


def test_adapters_take_a_larger_learning_rate_than_all_weights():
    how = {"init": "runs/base", "objective": "sft", "data": "book.txt", "steps": 5}
    whole, thin = (chosen(TrainConfig(**how, adapter_rank=rank)).lr for rank in (None, 8))
    assert (whole, thin) == (0.003, 0.01)


def test_what_is_taught_is_learned_beside_replayed_text_unless_that_is_refused():
    taught = {"init": "runs/base", "data": "book.txt", "steps": 5}
    shares = {name: chosen(TrainConfig(objective=name, **taught)).replay for name in OBJECTIVES if name != "distill"}
    assert shares == choices.REPLAY
    assert all(0 < share < 1 for share in shares.values())
    assert chosen(TrainConfig(objective="grpo", replay=0.0, **taught)).replay == 0
    assert chosen(TrainConfig(steps=5)).replay is None
    assert chosen(TrainConfig(objective="distill", teacher="runs/base", steps=5)).replay is None


@pytest.mark.parametrize(
    ("changes", "on_new_processors"),
    [
        ({}, "bfloat16"),
        ({"matmul": "numba"}, "bfloat16"),
        ({"init": "runs/base", "objective": "sft", "data": "book.txt"}, "bfloat16"),
        ({"matmul": "blas"}, "float32"),
        *(({"objective": name}, "float32") for name in ("grpo", "reinforce", "best-of-n")),
        *(({"precision": each}, each) for each in ("float32", "bfloat16", "float64")),
    ],
)
def test_bfloat16_is_chosen_where_the_processors_multiply_it_and_products_take_the_time(changes, on_new_processors):
    asked = TrainConfig(**changes)
    assert choices.choose_precision(asked, gains_by_bfloat16=True) == on_new_processors
    given = changes.get("precision", "float32")
    assert choices.choose_precision(asked, gains_by_bfloat16=False) == given


@given(share=st.floats(0.001, 0.999), steps=st.integers(1, 10**6))
def test_a_warm_up_may_be_a_share_of_the_steps(share, steps):
    found = chosen(TrainConfig(steps=steps, warmup=share))
    assert 1 <= found.warmup <= steps
    assert abs(found.warmup - share * steps) <= 1
    assert chosen(TrainConfig(steps=steps, warmup=found.warmup)) == found  # so the printed command repeats the run
    assert chosen(TrainConfig(tokens=2_048 * steps, batch=8, warmup=share)).warmup == found.warmup


def test_a_longer_model_needs_a_longer_context_too():
    model = models.skeleton("vidya-v2", "nano", context_length=512)
    asked = TrainConfig(steps=5, set="context_length=512")
    with pytest.raises(InputError, match="may have 512 tokens, and this run would train it on 256: give --context"):
        chosen(asked, model)
    stretched = models.skeleton("vidya-v2", "nano", rope_scaling="yarn", rope_factor=4.0)
    with pytest.raises(InputError, match="rope_factor=4: the sequences of the model may have 8192 tokens"):
        chosen(replace(asked, set="rope_scaling=yarn,rope_factor=4"), stretched)
    assert chosen(replace(asked, context=64), model).context == 64  # both were given, so this is on purpose
    assert chosen(replace(asked, context=512), model).context == 512


@pytest.mark.parametrize("before", [(), ("<bos>",), ("<s>", "<bos>")])
@pytest.mark.parametrize("family", models.FAMILIES)
def test_a_model_publishes_the_tokens_that_begin_and_end_its_documents(family: str, before: tuple[str, ...]) -> None:
    trained = tokenizer.train(["to be or not"], 270, special_tokens=["<bos>", "<s>", "</s>"])
    tok = tokenizer.Tokenizer(replace(trained.vocabulary, before=before))
    model = models.skeleton(family, "nano")
    shape = choices.choose_shape(chosen(TrainConfig(steps=5, context=16)), model, tok)
    published = models.variant(model, **shape).config.published()
    ids = (beginning(tok)[0], tok.end_of_text_id)
    assert (published["bos_token_id"], published["eos_token_id"]) == ids
    again = models.FAMILIES[family].config.from_published(published).published()
    assert (again["bos_token_id"], again["eos_token_id"]) == ids
