"""What a checkpoint holds when several processes train: the moments of all, written by the first."""

from __future__ import annotations

import numpy as np
import pytest

import tokenizer
from minigrad.errors import InputError, RunError
from minigrad.training.folder import checkpoint
from minigrad.training.keeping import restore, save
from minigrad.training.run import Guest
from tests.distributed.rooms import Room, together
from train import take_step


def test_the_first_process_writes_what_one_process_continues_from(make, tmp_path):
    def run_some(world: Room) -> list[str]:
        run = make(world=world, batch=4, dtype="float64", dropout=0.2)
        for _ in range(3):
            take_step(run)
        save(run)
        assert run.world.rank > 0 or "the checkpoint of step 3 is intact" in world.words[-1]
        return [take_step(run) for _ in range(3)]

    steps = together(2, run_some)
    assert checkpoint.steps(tmp_path / "run") == [3]
    alone = make(batch=4, dtype="float64", dropout=0.2)
    restore(alone, checkpoint.load(tmp_path / "run"))
    for one, other in zip([take_step(alone) for _ in range(3)], steps[0], strict=True):
        assert one == pytest.approx(other, rel=1e-9)

    def continue_in_three(world: Room) -> list[str]:
        run = make(world=world, batch=4, dtype="float64", dropout=0.2)
        restore(run, checkpoint.load(tmp_path / "run"))
        return [take_step(run) for _ in range(3)]

    for one, other in zip(together(3, continue_in_three)[2], steps[0], strict=True):
        assert one == pytest.approx(other, rel=1e-9)


def test_a_tokenizer_that_was_deleted_is_written_again(make):
    run = make()
    file = run.folder.path / "tokenizer.json"
    file.write_text("as it is", encoding="utf-8")
    save(run)
    assert file.read_text(encoding="utf-8") == "as it is"
    file.unlink()
    save(run)
    assert tokenizer.load(file.parent).encode("to be") == run.text.tokenizer.encode("to be")


class Counting(Guest):
    """Keeps an array of its own type."""

    def __init__(self, name: str = "counts") -> None:
        self.array_name, self.counts = name, np.zeros(2, np.int64)

    def arrays(self, run):
        return {self.array_name: self.counts}


def test_the_arrays_of_a_guest_keep_their_type(make):
    run, again = make(), make()
    run.guests.append(Counting())
    take_step(run)
    run.guests[-1].counts += [3, 2**40]
    save(run)
    again.guests.append(Counting())
    restore(again, checkpoint.load(run.folder.path))
    assert again.guests[-1].counts.tolist() == [3, 2**40]


@pytest.mark.parametrize("which", ["of a guest", "weight", "moment"])
def test_a_guest_keeps_no_array_under_a_name_that_is_taken(make, which):
    run = make()
    weight, _ = next(iter(run.model.named_parameters()))
    name = {"of a guest": "counts", "weight": weight, "moment": f"{weight}.m"}[which]
    run.guests += [Counting(), Counting(name)]
    with pytest.raises(InputError, match=f"a checkpoint has another array called '{name}': rename that of Counting"):
        run.begin()


def test_processes_with_different_weights_neither_begin_nor_save(make, tmp_path):
    def spoil(world: Room) -> None:
        run = make(world=world)
        weight = run.model.parameters()[0].data[0]
        weight[0] += world.rank
        with pytest.raises(RunError, match="process 1 has other weights after step 0 than process 0"):
            run.begin()
        weight[0] -= world.rank
        take_step(run)
        weight[0] += world.rank
        with pytest.raises(RunError, match="process 1 has other weights after step 1 than process 0"):
            save(run)

    together(2, spoil)
    assert not checkpoint.steps(tmp_path / "run")


def test_a_kill_between_the_model_and_the_checkpoint_leaves_no_older_model_for_good(make, monkeypatch):
    """A run whose last checkpoint is there takes no step more, so the model beside it must be there before."""
    run = make()
    take_step(run)
    write, found = checkpoint.save, []

    def see(folder, step, **parts):
        found.append((step, (folder / "model.safetensors").exists()))
        return write(folder, step, **parts)

    monkeypatch.setattr(checkpoint, "save", see)
    save(run)
    run.writer.wait()
    assert found == [(1, True)]


@pytest.mark.parametrize("kind", ["weights", "moments"])
def test_a_checkpoint_with_values_that_are_not_finite_is_refused_and_an_older_one_named(make, tmp_path, kind):
    run = make()
    for _ in range(2):
        take_step(run)
        save(run)
    saved = checkpoint.load(tmp_path / "run")
    name = max(getattr(saved, kind))
    getattr(saved, kind)[name].flat[0] = np.nan
    said = rf"step 2 in .*run is damaged: {name} has elements that are not finite. Delete .* to continue from step 1"
    with pytest.raises(InputError, match=said):
        restore(make(), saved)


def test_a_checkpoint_of_another_shape_is_refused_by_its_name(make, tmp_path):
    run = make()
    for _ in range(2):
        take_step(run)
        save(run)
    saved = checkpoint.load(tmp_path / "run")
    saved.moments.pop(next(iter(saved.moments)))
    with pytest.raises(InputError, match=r"the optimizer of step 2 in .*missing: .* Delete .* to continue from step 1"):
        restore(make(), saved)
