"""One step, one look, one sample, one checkpoint of a run under way."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
import tokenizer
from minigrad import checkpoint, corpus, data, nn
from minigrad.budget import Budget
from minigrad.corpus import Corpus
from minigrad.errors import InputError, RunError
from minigrad.evaluate import token_byte_lengths
from minigrad.optim import AdamW, decay_start, warmup_stable_decay
from minigrad.plan import Text
from minigrad.settings import TrainConfig
from minigrad.training import Run
from tests.small_runs import TINY, WORDS

TRAIN, HELD_OUT = (
    [" ".join([*WORDS[i:], *WORDS[:i]]) * 3 for i in range(12)],
    ["to be or not to be that is it " * 9, "so"],
)
TOK = tokenizer.train(TRAIN, vocab_size=300)


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Run]:
    def make(folder: Path | None = None, steps: int | None = 20, dtype: str = "float32", **changes: Any) -> Run:
        numbers = {"batch": 2, "context": 8, "lr": 0.01, "warmup": 3, "steps": steps}
        settings = TrainConfig(size="nano", **{**numbers, **changes})
        shape = {name: getattr(TINY, name) for name in ("num_layers", "width", "num_heads", "num_kv_heads", "head_dim")}
        model = models.build(
            "vidya-v2", vocab_size=300, feed_forward=64, dtype=dtype, dropout=settings.dropout, **shape
        )
        files = [data.prepare(documents, TOK, folder=tmp_path / "tokens") for documents in (TRAIN, HELD_OUT)]
        return Run(
            settings=settings,
            folder=folder or tmp_path / "run",
            record={"settings": {}, "chosen": {}},
            budget=Budget(steps, None if steps else 60.0),
            tokenizer=TOK,
            corpus=Corpus("words", "words", (*TRAIN, *HELD_OUT)),
            text=Text("words", 14, files[0], files[1], TOK.used),
            byte_lengths=token_byte_lengths(TOK, 300),
            model=model,
            optimizer=AdamW(model.parameters(), weight_decay=settings.weight_decay),
            matmul_rate=1e11,
            clock=lambda: 2.0,
        )

    return make


def weights(run: Run) -> list[bytes]:
    return [parameter.data.tobytes() for parameter in run.model.parameters()]


def gradients(run: Run) -> list[np.ndarray[Any, Any]]:
    run._accumulate_gradients()
    return [np.array(parameter.grad) for parameter in run.model.parameters()]


def test_a_step_moves_every_weight_and_leaves_no_gradient(make):
    run = make()
    before = weights(run)
    rate, norm = run.take_step()
    assert all(old != new for old, new in zip(before, weights(run), strict=True))
    assert (run.step, rate) == (1, pytest.approx(0.01 / 3))
    assert norm > 0
    assert not any(np.any(parameter.grad) for parameter in run.model.parameters())


def test_training_lowers_the_loss(make):
    run = make(steps=60)
    first = run.look(everything=True).loss
    for _ in range(60):
        run.take_step()
    assert run.look(everything=True).loss < 0.7 * first


@pytest.mark.parametrize("parts", [2, 4])
def test_the_gradients_of_the_parts_of_a_step_add_up_to_those_of_the_whole(make, parts):
    whole = gradients(make(dtype="float64", batch=8, dropout=0.0))  # masks belong to a batch
    split = gradients(make(dtype="float64", batch=8 // parts, accumulate=parts, dropout=0.0))
    for one, other in zip(whole, split, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-14)


def test_dropout_differs_from_step_to_step_and_part_to_part_but_not_between_runs(make):
    run, same = make(dropout=0.5, lr=1e-12, batch=1, accumulate=2), make(dropout=0.5, lr=1e-12, batch=1, accumulate=2)
    assert [run.take_step() for _ in range(3)] == [same.take_step() for _ in range(3)]
    assert run.take_step()[1] != make(lr=1e-12, batch=1, accumulate=2).take_step()[1]


def test_every_part_of_every_step_draws_its_own_dropout(make, monkeypatch):
    drawn = []
    set_step = nn.set_step
    monkeypatch.setattr(nn, "set_step", lambda *given: (drawn.append(given[1:]), set_step(*given)))
    run = make(dropout=0.5, accumulate=2, seed=7)
    for _ in range(3):
        run.take_step()
    assert drawn == [(7, number) for number in range(6)]


def test_the_rate_follows_the_schedule_and_is_the_peak_while_the_end_is_unknown(make):
    run, endless = make(steps=20), make(steps=None)
    for step in range(20):
        run.step = endless.step = step
        start = decay_start(20)
        expected = warmup_stable_decay(step, peak=0.01, warmup=3, decay_start=start, steps=20)
        assert run.learning_rate() == expected
        assert endless.learning_rate() == (expected if step < start else 0.01)


def test_measurements_average_over_the_steps_since_the_last_line(make):
    run, single = make(), make()
    norms = [run.take_step()[1] for _ in range(4)]
    line = run.measurements(0.01, norms[-1], seconds=2.0, score=None)
    losses = []
    for _ in range(4):
        single.take_step()
        losses.append(single.measurements(0.01, 1.0, 1.0, None)["loss"])
    assert line["loss"] == pytest.approx(np.mean(losses))
    assert (line["step"], line["tokens"], line["tokens_per_second"], line["seconds"]) == (4, 64, 32.0, 2.0)
    assert "val_loss" not in line
    seen = [data.batch(run.text.train, seed=0, step=step, batch_size=2, context=8)[1] for step in range(4)]
    num_bytes = sum(int(run.byte_lengths[targets].sum()) for targets in seen)
    assert line["bits_per_byte"] == pytest.approx(sum(losses) * 16 / math.log(2) / num_bytes)
    run.take_step()
    assert set(run.measurements(0.01, 1.0, 1.0, run.look(everything=False))) - set(line) == {
        "val_loss",
        "val_bits_per_byte",
    }


def test_a_sample_begins_as_a_held_out_document_and_is_kept(make):
    run = make()
    sample = run.write_sample()
    assert sample.startswith(TOK.decode(run.text.held_out.tokens[1:9]))
    assert run.samples == [{"step": 0, "text": sample}]
    assert not any(special in sample for special in TOK.specials)
    assert make().write_sample() == sample
    run.take_step()
    assert run.write_sample() != sample


def test_a_sample_does_not_reach_into_the_next_document(make, tmp_path):
    run = make()
    run.text = Text("", 2, run.text.train, data.prepare(["so", "long " * 50], TOK, folder=tmp_path), TOK.used)
    assert TOK.decode(run._sample_prompt()[1:]) == "so"
    assert run._sample_prompt()[0] == TOK.end_of_text_id


def test_a_saved_run_continues_from_where_it_was(make):
    run = make(dropout=0.1)
    for _ in range(4):
        run.take_step()
    run.write_sample()
    run.save()
    again = make(dropout=0.1)
    again.restore(checkpoint.load(run.folder))
    assert (again.step, again.samples, again.since_logged) == (4, run.samples, run.since_logged)
    assert again.seconds() == 4.0  # two seconds before, two now
    assert [again.take_step() for _ in range(3)] == [run.take_step() for _ in range(3)]
    assert weights(again) == weights(run)


@pytest.mark.parametrize(
    ("name", "value"),
    [("updates", None), ("updates", "x"), ("seconds", []), ("since_logged", {}), ("samples", 3), ("samples", [4])],
)
def test_a_garbled_state_is_refused(make, name, value):
    run = make()
    run.save()
    saved = checkpoint.load(run.folder)
    saved.state[name] = value
    with pytest.raises(InputError, match=r"state\.json of step 0 in .* lacks or garbles"):
        make().restore(saved)


def test_a_checkpoint_of_another_model_is_refused(make):
    run = make()
    run.save()
    saved = checkpoint.load(run.folder)
    other = make()
    other.model = models.build("vidya-v2", vocab_size=300, num_layers=1)
    with pytest.raises(InputError, match="the weights do not fit the model"):
        other.restore(saved)
    del saved.moments["model.norm.weight.m"]
    with pytest.raises(InputError, match=r"missing: model\.norm\.weight\.m"):
        make().restore(saved)


def test_a_loss_that_is_not_finite_names_the_operation_and_changes_nothing(make):
    run = make()
    run.model.parameters()[0].data[...] = 1e30
    before = weights(run)
    with pytest.raises(RunError, match=r"diverged at step 1: \w+ made \d+ NaN and \d+ infinities out of finite input"):
        run.take_step()
    assert weights(run) == before
    assert run.step == run.optimizer.steps == 0


@pytest.mark.parametrize("act", [lambda run: run.save(), lambda run: run.look(False), lambda run: run.write_sample()])
def test_damaged_weights_are_neither_saved_nor_measured_nor_sampled(make, act):
    run = make()
    run.model.parameters()[3].data[0] = np.inf
    with pytest.raises(RunError, match=r"model\.layers\.\S+ holds numbers that are not finite"):
        act(run)
    assert not run.folder.exists()


def test_steps_are_written_down_before_they_count(make, tmp_path):
    run = make(steps=None)
    run.budget.steps = 50
    run.folder.mkdir()
    run.fix_steps()
    assert checkpoint.read_json(run.folder / "minigrad.json")["chosen"] == {"steps": 50, "decay_start": 40}


def test_why_there_is_no_figure_of_xz_is_kept_apart(make, monkeypatch):
    assert make().ask_xz()[1] == ""
    assert make(minutes=1e-5).ask_xz() == (None, "it would have taken about 0s of the 0s")
    monkeypatch.setattr(corpus, "xz_bits_per_byte", lambda *_: None)
    assert make().ask_xz() == (None, "this Python lacks lzma")


def test_weights_are_looked_over_once_in_each_step(make, monkeypatch):
    run, looks = make(), []
    loss = run.model.loss
    monkeypatch.setattr(run.model, "loss", lambda *given: (looks.append(len(given[0])), loss(*given))[1])
    for _ in range(2):
        run.take_step()
        run.look(everything=False)
        run.write_sample()
        run.save()
    assert looks.count(1) == 2  # a single text is what the weights are looked over with
    run.restore(checkpoint.load(run.folder))
    run.write_sample()
    assert looks.count(1) == 3
