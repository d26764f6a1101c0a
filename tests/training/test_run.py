"""One step, one evaluation, one sample, one checkpoint of a run."""

from __future__ import annotations

import dataclasses
import json
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import models
import tokenizer
from minigrad import nn
from minigrad.adaptive.context import AdaptiveContext
from minigrad.adaptive.signals import Signals
from minigrad.data.tokens import token_files
from minigrad.errors import InputError, RunError
from minigrad.formats.json_files import read_json
from minigrad.generation.decoding import document
from minigrad.optim import decay_start, warmup_stable_decay
from minigrad.training.folder import checkpoint
from minigrad.training.folder.checkpoint import Sample, Totals
from minigrad.training.guests import Adapting
from minigrad.training.keeping import restore, save
from minigrad.training.planning.plan import Plan
from minigrad.training.run import Run
from minigrad.training.validation import evaluate, prompt_of, write_sample
from train import accumulate_gradients, take_step


def adapted(needs: list[float]) -> AdaptiveContext:
    context = AdaptiveContext.up_to(100)
    for place, need in enumerate(needs):
        context.note_norm(abs(need))
        context.decide(place, Signals(need, 3.0, 1.0, float("nan"), 0.0, 512))
    return context


def weights(run: Run) -> list[bytes]:
    return [parameter.data.tobytes() for parameter in run.model.parameters()]


def gradients(run: Run) -> list[np.ndarray[Any, Any]]:
    accumulate_gradients(run, run.batch())
    return [np.array(parameter.grad) for parameter in run.model.parameters()]


def test_a_step_moves_every_weight_and_leaves_no_gradient(make):
    run = make()
    before = weights(run)
    rate, norm = take_step(run)
    assert all(old != new for old, new in zip(before, weights(run), strict=True))
    assert (run.step, rate) == (1, pytest.approx(0.01 / 3))
    assert norm > 0
    assert not any(np.any(parameter.grad) for parameter in run.model.parameters())


def test_training_lowers_the_loss(make):
    run = make(steps=60)
    first = evaluate(run, everything=True).loss
    for _ in range(60):
        take_step(run)
    assert evaluate(run, everything=True).loss < 0.7 * first


@pytest.mark.parametrize("parts", [2, 4])
def test_the_gradients_of_the_parts_of_a_step_add_up_to_those_of_the_whole(make, parts):
    whole = gradients(make(dtype="float64", batch=8, dropout=0.3))
    split = gradients(make(dtype="float64", batch=8 // parts, accumulate=parts, dropout=0.3))
    for one, other in zip(whole, split, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-14)


def test_dropout_differs_from_step_to_step_and_part_to_part_but_not_between_runs(make):
    run, same = make(dropout=0.5, lr=1e-12, batch=1, accumulate=2), make(dropout=0.5, lr=1e-12, batch=1, accumulate=2)
    assert [take_step(run) for _ in range(3)] == [take_step(same) for _ in range(3)]
    assert take_step(run)[1] != take_step(make(lr=1e-12, batch=1, accumulate=2))[1]


def test_every_part_of_every_step_draws_its_own_dropout(make, monkeypatch):
    drawn = []
    set_step = nn.set_step

    def note(*given, first_row):
        drawn.append((*given[1:], first_row))
        set_step(*given, first_row=first_row)

    monkeypatch.setattr(nn, "set_step", note)
    run = make(dropout=0.5, accumulate=2, seed=7)
    for _ in range(3):
        take_step(run)
    batches = [run.plan.source.batch(seed=7, step=step, batch_size=4) for step in range(3)]
    expected = [(7, step, part.first_row) for step, batch in enumerate(batches) for part in batch.parts(2)]
    assert drawn == expected
    assert len(set(drawn)) == 6


def test_the_rate_follows_the_schedule_and_is_the_peak_while_the_end_is_unknown(make):
    run, endless = make(steps=20), make(steps=None)
    for step in range(20):
        run.step = endless.step = step
        start = decay_start(20)
        expected = warmup_stable_decay(step, peak=0.01, warmup=3, decay_start=start, steps=20)
        assert run.learning_rate() == expected
        assert endless.learning_rate() == (expected if step < start else 0.01)


def test_a_sample_begins_as_a_validation_document_and_is_kept(make):
    run = make()
    sample = write_sample(run)
    assert sample.startswith(run.text.tokenizer.decode(run.text.validation.tokens[1:9]))
    assert run.samples == [Sample(0, sample)]
    assert not any(special in sample for special in run.text.tokenizer.specials)
    assert write_sample(make()) == sample
    take_step(run)
    assert write_sample(run) != sample


def test_a_sample_does_not_reach_into_the_next_document(make):
    run = make()
    validation = token_files.prepare(["so", "long " * 50], run.text.tokenizer)
    run.text = replace(run.text, validation=validation)
    assert run.text.tokenizer.decode(prompt_of(run.text)[1:]) == "so"
    assert prompt_of(run.text)[0] == run.text.tokenizer.end_of_text_id


def test_a_sample_begins_as_generate_would_begin_it(make):
    run = make()
    vocabulary = replace(run.text.tokenizer.vocabulary, before=("<|system|>",))
    tok = tokenizer.Tokenizer(vocabulary)
    validation = token_files.prepare(["to be or not"], tok)
    run.text = replace(run.text, tokenizer=tok, validation=validation)
    assert prompt_of(run.text) == document(tok, "to be or not")[:9]
    assert write_sample(run).startswith("to be")


def test_a_saved_run_continues_from_where_it_was(make):
    run = make(dropout=0.1)
    for _ in range(4):
        take_step(run)
    write_sample(run)
    save(run)
    again = make(dropout=0.1)
    restore(again, checkpoint.load(run.folder.path))
    assert (again.step, again.samples, again.totals) == (4, run.samples, run.totals)
    assert again.seconds() == 4.0  # two seconds before, two now
    assert [take_step(again) for _ in range(3)] == [take_step(run) for _ in range(3)]
    assert weights(again) == weights(run)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("updates", None),
        ("updates", "x"),
        ("updates", -1),
        ("updates", 1.5),
        ("seconds", []),
        ("seconds", -1),
        ("since_logged", {}),
        ("since_logged", dataclasses.asdict(Totals()) | {"steps": -1}),
        ("samples", 3),
        ("samples", [4]),
        ("samples", [{"step": 3}]),
    ],
)
def test_a_garbled_state_is_refused(make, name, value):
    run = make()
    save(run)
    saved = checkpoint.load(run.folder.path)
    saved.state[name] = value
    with pytest.raises(InputError, match=rf"state\.json of step 0 in .* is damaged: {name}"):
        restore(make(), saved)


def test_a_checkpoint_of_another_model_is_refused(make):
    run = make()
    save(run)
    saved = checkpoint.load(run.folder.path)
    other = make()
    other.model = models.build("vidya-v2", vocab_size=300, num_layers=1)
    with pytest.raises(InputError, match="the weights do not fit the model"):
        restore(other, saved)
    del saved.moments["model.norm.weight.m"]
    with pytest.raises(InputError, match=r"missing: model\.norm\.weight\.m"):
        restore(make(), saved)


def test_a_loss_that_is_not_finite_names_the_operation_and_changes_nothing(make):
    run = make()
    run.model.parameters()[0].data[...] = 1e30
    before = weights(run)
    with pytest.raises(RunError, match=r"diverged at step 1: \w+ made \d+ NaN and \d+ infinities out of finite input"):
        take_step(run)
    assert weights(run) == before
    assert run.step == run.optimizer.steps == 0


@pytest.mark.parametrize(
    "act", [lambda run: save(run), lambda run: evaluate(run, everything=False), lambda run: write_sample(run)]
)
def test_damaged_weights_are_neither_saved_nor_measured_nor_sampled(make, act):
    run = make()
    run.model.parameters()[3].data[0] = np.inf
    with pytest.raises(RunError, match=r"model\.layers\.\S+ holds numbers that are not finite"):
        act(run)
    assert not list(run.folder.path.iterdir())


def test_the_number_of_steps_is_stored_before_it_takes_effect(make):
    run = make(steps=None)
    for decay, course in (([(40, 50)], None), ([(40, 50), (45, 47)], "40:50,45:47")):
        run.folder.fix_steps(decay)
        chosen = read_json(run.folder.path / "minigrad.json")["chosen"]
        assert chosen == {"steps": decay[-1][1], "decay_start": 40, "decay": course}


def test_the_steps_leave_time_for_the_rivals_after_the_last_one(make, monkeypatch):
    run = make()
    monkeypatch.setattr(run, "clock", lambda: 0.0)
    monkeypatch.setattr(Plan, "seconds_for_rivals", lambda plan: 0.0)
    without = run.seconds_for_steps()
    monkeypatch.setattr(Plan, "seconds_for_rivals", lambda plan: 20.0)
    assert run.seconds_for_steps() == pytest.approx(without - 20)


def test_the_steps_leave_time_for_the_last_sample_and_checkpoint(make, monkeypatch):
    run, seconds = make(), {"evaluated batch": 0.0, "sample": 0.0, "save": 0.0}
    monkeypatch.setattr(run, "clock", lambda: 0.0)
    monkeypatch.setattr(run.pace, "seconds_of", lambda kind, otherwise: seconds[kind])
    monkeypatch.setattr(Plan, "seconds_to_write", 0.0)
    without = run.seconds_for_steps()
    seconds |= {"sample": 5.0, "save": 7.0}
    assert run.seconds_for_steps() == pytest.approx(without - 12)
    monkeypatch.setattr(Plan, "seconds_to_write", 20.0)
    assert run.seconds_for_steps() == pytest.approx(without - 32)


def test_weights_are_checked_once_in_each_step(make, monkeypatch):
    run, checks = make(), []
    loss = run.model.loss

    def noting(*given, **options):
        checks.append(len(given[0]))
        return loss(*given, **options)

    monkeypatch.setattr(run.model, "loss", noting)
    for _ in range(2):
        take_step(run)
        evaluate(run, everything=False)
        write_sample(run)
        save(run)
    assert checks.count(8) == 2  # the check computes the loss of as many tokens as the context has
    restore(run, checkpoint.load(run.folder.path))
    write_sample(run)
    assert checks.count(8) == 3


def test_an_adaptive_context_cuts_the_same_tokens_and_decides_every_few_steps(make):
    run, fixed = make(adaptive_context=True, context=16), make(context=16)
    run.before_step()
    assert (run.context, fixed.context) == (4, 16)
    assert run.batch().tokens.tolist() == fixed.batch().tokens.tolist()
    assert run.batch().layout.lengths.max() == 4 < fixed.batch().layout.lengths.max()
    for _ in range(51):
        take_step(run)
    (guest,) = run.guests
    assert [decision.place for decision in guest.context.decisions] == [25, 50]
    assert guest.context.gradient_norm > 0


def test_a_checkpoint_with_the_context_of_another_run_is_refused(make):
    run, fixed = make(adaptive_context=True), make()
    save(run)
    with pytest.raises(InputError, match=r"step 0 in .* has a state called .context., which this program does"):
        restore(fixed, checkpoint.load(run.folder.path))
    longer = make(adaptive_context=True, context=16)
    with pytest.raises(InputError, match=r"state\.json of step 0 .*: context\.largest is 8, and that of this run 16"):
        restore(longer, checkpoint.load(run.folder.path))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ({"smallest": 2}, r"context\.largest is missing"),
        (asdict(adapted([])) | {"current": 9}, "the context must lie between 12 and 100, not be 9"),
        (asdict(adapted([0.1])) | {"decisions": [{"place": 1}]}, r"context\.decisions\[0\]\.before is"),
    ],
)
def test_a_damaged_context_in_a_checkpoint_is_refused(make, damage, message):
    run = make(adaptive_context=True)
    save(run)
    saved = checkpoint.load(run.folder.path)
    saved.state["context"] = damage
    with pytest.raises(InputError, match=rf"state\.json of step 0 in .* is damaged: {message}"):
        restore(run, saved)


@given(st.lists(st.floats(-1, 1), max_size=5))
def test_a_checkpoint_keeps_every_bit_of_a_context(needs):
    context, again = Adapting(100), Adapting(100)
    context.context = adapted(needs)
    again.restore(json.loads(json.dumps(context.state())))
    assert again.context == context.context
