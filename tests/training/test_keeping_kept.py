"""What a checkpoint holds beside the weights, and what an older one may hold more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import models
from minigrad.errors import InputError, RunError
from minigrad.optim import Muon
from minigrad.training.folder import checkpoint
from minigrad.training.folder.checkpoint import QuickEvaluation
from minigrad.training.keeping import restore, save, write_what_is_due
from minigrad.training.optimizers import matrices_of
from minigrad.training.run import Guest
from minigrad.training.validation import evaluate
from train import take_step


def weights(run):
    return [parameter.data.tobytes() for parameter in run.model.parameters()]


def turning(run):
    """Let the matrices of a run be updated by Muon."""
    run.optimizer = Muon(run.model.parameters(), matrices=matrices_of(run.model))
    return run


def test_a_run_with_an_average_of_its_weights_continues_and_writes_the_average(make):
    run, again = make(ema=0.7), make(ema=0.7)
    for _ in range(4):
        take_step(run)
    raw = weights(run)
    score = evaluate(run, everything=False)
    save(run)
    assert weights(run) == raw
    found = models.load(run.folder.path).state_dict()
    names = [name for name, _ in run.model.named_parameters()]
    for name, average in zip(names, run.guests[0].average.values(), strict=True):
        np.testing.assert_array_equal(found[name], average)
    restore(again, checkpoint.load(run.folder.path))
    assert evaluate(again, everything=False) == score
    assert [take_step(again) for _ in range(3)] == [take_step(run) for _ in range(3)]
    assert all(map(np.array_equal, again.guests[0].average.values(), run.guests[0].average.values()))
    assert score != evaluate(make(), everything=False)


def test_a_checkpoint_without_the_average_that_a_run_keeps_is_refused(make):
    run = make()
    save(run)
    with pytest.raises(InputError, match=r"missing: .*average"):
        restore(make(ema=0.9), checkpoint.load(run.folder.path))


def test_muon_keeps_no_second_moment_of_matrices_and_refuses_a_checkpoint_that_holds_one(make):
    run = turning(make())
    for _ in range(3):
        take_step(run)
    save(run)
    saved = checkpoint.load(run.folder.path)
    turned = {f"{name}.v" for name, each in run.model.named_parameters() if each.ndim == 2 and "layers" in name}
    assert turned
    assert not turned & saved.moments.keys()
    again = turning(make())
    restore(again, saved)
    assert [take_step(again) for _ in range(2)] == [take_step(run) for _ in range(2)]
    assert weights(again) == weights(run)
    second = {name: np.ones_like(saved.weights[name.removesuffix(".v")]) for name in turned}
    of_adamw = replace(saved, moments=saved.moments | second)
    with pytest.raises(InputError, match="do not fit"):
        restore(turning(make()), of_adamw)


def test_the_best_model_is_kept_and_known_to_a_run_that_continues(make):
    run = make()
    take_step(run)
    evaluate(run, everything=False)
    write_what_is_due(run, stops=False)
    run.writer.wait()
    assert not checkpoint.steps(run.folder.path)
    first = run.best
    kept = {name: array.copy() for name, array in run.model.state_dict().items()}
    run.model.parameters()[0].data *= 30
    take_step(run)
    evaluate(run, everything=True)
    write_what_is_due(run, stops=False)
    save(run)
    assert run.best == first == QuickEvaluation(1, first.bits_per_byte)
    found = models.load(run.folder.path / "best").state_dict()
    assert all(np.array_equal(found[name], array) for name, array in kept.items())
    again = make()
    restore(again, checkpoint.load(run.folder.path))
    assert again.best == first


class Halving(Guest):
    """A guest that publishes half of each weight, by a factor that the checkpoint keeps."""

    def arrays(self, run):
        return {"factor": np.array([0.5], np.float32)}

    def published(self, weights, kept):
        return {name: kept["factor"] * array for name, array in weights.items()}


def test_the_best_model_between_checkpoints_is_written_as_guests_publish_it(make):
    run = make(ema=0.7)
    run.guests.append(Halving())
    for _ in range(3):
        take_step(run)
    evaluate(run, everything=False)
    raw = weights(run)
    write_what_is_due(run, stops=False)
    run.writer.wait()
    assert not checkpoint.steps(run.folder.path)
    assert weights(run) == raw
    found = models.load(run.folder.best).state_dict()
    names = [name for name, _ in run.model.named_parameters()]
    for name, average in zip(names, run.guests[0].average.values(), strict=True):
        np.testing.assert_array_equal(found[name], 0.5 * average)


def test_a_checkpoint_of_the_best_model_is_written_as_that_too(make):
    run = make()
    take_step(run)
    evaluate(run, everything=False)
    write_what_is_due(run, stops=True)
    assert checkpoint.steps(run.folder.path) == [1]
    assert (run.folder.path / "best" / "tokenizer.json").exists()
    found = models.load(run.folder.path / "best").state_dict()
    assert all(np.array_equal(found[name], array) for name, array in run.model.state_dict().items())


def test_a_disk_that_is_full_while_training_goes_on_is_reported_and_the_checkpoint_before_is_whole(make, monkeypatch):
    run = make()
    take_step(run)
    save(run)

    def full(path, arrays, metadata=None):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    take_step(run)
    save(run, wait=False)
    with pytest.raises(RunError, match=r"cannot save step 2 in .*No space left on device; the checkpoint of step 1 is"):
        run.writer.wait()
    assert checkpoint.load(run.folder.path).step == 1
