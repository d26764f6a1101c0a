"""The stages of a pipeline together compute what one process computes, and each keeps what belongs to its layers."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import models
from minigrad import Tensor, nn, no_grad
from minigrad.data.tokens.batches import Batch
from minigrad.distributed.pipeline import Pipeline, check_layers, largest_stage, layer_cuts, owners
from minigrad.distributed.world import ALONE, World
from minigrad.errors import InputError, RunError
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import AdamW
from minigrad.programs.decoder import Decoder
from minigrad.training.folder import checkpoint
from minigrad.training.keeping import restore, save
from minigrad.training.parallel import Replicas
from minigrad.training.validation import check_finite
from models.gpt2 import GPT2
from tests.distributed.rooms import Room, together
from tests.models import tiny
from train import forward_backward, take_step

LENGTHS = [5, 9, 2, 7, 8, 1, 6, 4]


def build(family: str, **changes: Any) -> LanguageModel:
    """Build a tiny model of four layers; dropout shows that each part knows its place in the batch."""
    one_layer = {"value_residual": False} if family == "vidya-v2" else {}
    return tiny.build(family, **{"num_layers": 4, "dropout": 0.2} | one_layer | changes)


def batch() -> Batch:
    rows = np.random.default_rng(0).integers(0, tiny.VOCAB, (2, sum(LENGTHS))).astype(np.int32)
    rows[1, 3:8] = -100
    return Batch(rows[0], rows[1], nn.Layout.packed(LENGTHS))


def gradients(model: LanguageModel) -> dict[str, np.ndarray[Any, Any]]:
    return {name: each.grad.copy() for name, each in model.named_parameters() if each.has_gradient}


def alone(model: LanguageModel, parts: list[Batch]) -> tuple[float, dict[str, Any]]:
    work, targets = Replicas(model, 1, seed=3), batch().num_targets
    nats = sum(work.run(forward_backward, part, step=7, num_targets=targets) for part in parts)
    return nats, gradients(model)


def in_stages(world: World, model: LanguageModel, parts: list[Batch]) -> tuple[float, dict[str, Any]]:
    nats = Pipeline(model, world, seed=3).run(parts, step=7, num_targets=batch().num_targets)
    return nats, gradients(model)


@pytest.mark.parametrize(
    ("family", "changes"),
    [
        ("gpt2", {}),
        ("gpt2", {"tied_head": False}),
        ("vidya-v1", {}),
        ("vidya-v2", {}),
        ("vidya-v2", {"tied_head": False}),
        ("vsla", {"num_layers": 5}),
    ],
)
@pytest.mark.parametrize(("stages", "recomputed"), [(2, False), (3, True), (4, False)])
def test_the_gradients_are_those_of_one_process(family, changes, stages, recomputed):
    """With dropout, and some targets that do not count. The same bits, but for a head that is the embedding."""
    parts = batch().parts(4)
    model = build(family, **changes)
    model.recompute_layers(recomputed)
    nats, expected = alone(model, parts)

    def stage(world: Room) -> tuple[float, dict[str, Any], set[str]]:
        own = build(family, **changes)
        own.recompute_layers(recomputed)
        of = owners(own, world.size)
        return *in_stages(world, own, parts), {n for n, p in own.named_parameters() if of[id(p)] == world.rank}

    found = together(stages, stage)
    assert [each[0] for each in found] == [0] * (stages - 1) + [nats]
    assert sorted(name for *_, own in found for name in own) == sorted(expected)  # each has one owner
    head = next(name for name, each in model.named_parameters() if each is model.head())
    for _, computed, own in found:
        assert computed.keys() - own <= {head}
        for name in own:
            if model.lm_head is None and name == head:
                np.testing.assert_allclose(computed[name], expected[name], rtol=1e-4, atol=1e-7)
            else:
                assert computed[name].tobytes() == expected[name].tobytes(), name


class Halves(GPT2):
    """Keeps its layers in two lists."""

    lower: list[nn.Module]
    upper: list[nn.Module]

    def hidden(self, tokens: Tensor, layout: nn.Layout, cache: Any = None) -> Tensor:
        x = self.wte(tokens)
        for number, layer in enumerate([*self.lower, *self.upper]):
            x = layer(x, layout, cache, number)
        return self.ln_f(x)


class Doubled(nn.Wrapper):
    """Doubles what a layer computes."""

    def forward(self, *arguments: Any) -> Tensor:
        return self.inner(*arguments) * 2.0


def in_halves(*, wraps: bool) -> Halves:
    model: Any = build("gpt2", tied_head=False)
    model.__class__, layers = Halves, model.h
    del model.h
    model.lower, model.upper = layers[:2], tuple(layers[2:])
    if wraps:
        nn.replace(model, {"lower.1": Doubled(layers[1]), "upper.0": Doubled(layers[2])})
    return model


class _Halved(nn.Head):
    def factors(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return x * 0.5, self.weight


def test_a_head_of_another_kind_computes_the_loss_of_the_last_stage() -> None:
    nats = []
    for compute in (alone, functools.partial(in_stages, ALONE)):
        model = build("vidya-v2", tied_head=False)
        plain = model.loss(batch().tokens, batch().targets, layout=batch().layout).item()
        model.lm_head = _Halved(model.config.width, model.config.vocab_size)
        model.initialise(0)
        nats.append(compute(model, [batch()])[0])  # type: ignore[operator]
        assert nats[-1] != pytest.approx(plain, abs=1e-3)
    assert nats[0] == pytest.approx(nats[1], rel=1e-6)


@pytest.mark.parametrize("wraps", [False, True])
def test_layers_are_found_wherever_a_model_keeps_them(wraps):
    parts = batch().parts(4)
    model = in_halves(wraps=wraps)
    check_layers(model, "gpt2", 2)
    nats, expected = alone(model, parts)
    found = together(2, lambda world: in_stages(world, in_halves(wraps=wraps), parts))
    assert [each[0] for each in found] == [0, nats]
    for _, computed in found:
        assert all(computed[name].tobytes() == expected[name].tobytes() for name in computed)
    assert {name for _, computed in found for name in computed} == expected.keys()


@pytest.mark.parametrize("optimizer", ["adamw", "muon", "sgd"])
def test_stages_follow_the_losses_of_one_process(make, optimizer):
    settings = {"context": 16, "dtype": "float64", "dropout": 0.2, "optimizer": optimizer, "lr": 1e-3}
    one = make(batch=2, accumulate=4, **settings)
    expected = [(take_step(one), one.totals.loss) for _ in range(20)]

    def stage(world: Room) -> tuple[list[Any], bool, list[bytes]]:
        run = make(world=world, batch=4, accumulate=2, pipeline=True, **settings)
        run.begin()
        losses = [(take_step(run), run.totals.loss) for _ in range(20)]
        before = [parameter.data.tobytes() for parameter in run.model.parameters()]
        check_finite(run)
        after = [parameter.data.tobytes() for parameter in run.model.parameters()]
        return losses, before == after, after

    first, second = together(2, stage)
    np.testing.assert_allclose(np.array([[*a, b] for a, b in first[0]]), np.array([[*a, b] for a, b in expected]), 1e-9)
    assert (first[0], first[2]) == (second[0], second[2])
    assert not first[1]  # the weights of the other stage were those of the beginning
    for own, parameter in zip(first[2], one.model.parameters(), strict=True):
        np.testing.assert_allclose(np.frombuffer(own), parameter.data.ravel(), rtol=1e-6, atol=1e-9)


def test_a_stage_keeps_the_moments_of_its_layers_and_touches_no_other_gradient(make):
    def stage(world: Room) -> tuple[int, int, set[str]]:
        run = make(world=world, pipeline=True)
        run.begin()
        take_step(run)
        kept = sum(len(moment) for part in run.optimizer._parts for moment in part.moments)
        written = {name for name, each in run.model.named_parameters() if np.any(each.node.gradient)}
        return kept, largest_stage(run.model, 2), written

    (first, largest, early), (second, _, late) = together(2, stage)
    model = make().model
    assert first + second == 2 * model.num_parameters()
    assert max(first // 2, second // 2 + model.head().size) == largest
    assert early & late == {"model.embed_tokens.weight"}
    assert early | late == {name for name, _ in model.named_parameters()}


@pytest.mark.parametrize(("size", "settings"), [(1, {}), (2, {"pipeline": True}), (3, {})])
def test_a_checkpoint_continues_in_stages_or_without(make, tmp_path, size, settings):
    common = {"batch": 4, "dtype": "float64", "dropout": 0.2, "lr": 1e-3}

    def run_some(world: Room) -> list[Any]:
        run = make(world=world, pipeline=True, **common)
        run.begin()
        for _ in range(3):
            take_step(run)
        save(run)
        return [take_step(run) for _ in range(3)]

    expected = together(2, run_some)[0]
    assert checkpoint.steps(tmp_path / "run") == [3]

    def continue_it(world: Room) -> list[Any]:
        run = make(world=world, **common, **settings)
        restore(run, checkpoint.load(tmp_path / "run"))
        return [take_step(run) for _ in range(3)]

    found = together(size, continue_it)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-7)
    assert found == expected or not settings


def test_a_loss_that_is_not_finite_ends_all_stages_with_the_same_message(make):
    def diverge(world: Room) -> str:
        run = make(world=world, pipeline=True)
        run.begin()
        run.model.model.layers[0].mlp.down_proj.weight.data[...] = 1e30
        with pytest.raises(RunError) as caught:
            take_step(run)
        return str(caught.value)

    first, second = together(2, diverge)
    assert first == second
    assert "diverged at step 1: " in first


@given(st.sampled_from(["gpt2", "vidya-v2"]), st.sampled_from(["nano", "micro", "mini", "small"]), st.integers(1, 6))
def test_all_layers_are_divided_and_no_stage_but_the_last_is_without_one(family, size, stages):
    model = models.skeleton(family, size)
    cuts = layer_cuts(model, stages)
    lengths = [stop - start for start, stop in itertools.pairwise(cuts)]
    assert (cuts[0], cuts[-1], len(lengths)) == (0, model.config.num_layers, stages)
    assert min(lengths[:-1], default=1) >= 1
    assert lengths[-1] >= (stages == 1)
    assert sorted({*owners(model, stages).values()}) == list(range(stages))


@pytest.mark.parametrize(
    ("family", "changes", "stages", "message"),
    [
        ("vidya-v2", {"value_residual": True}, 2, "but the layers of vidya-v2 read those of several"),
        ("wiola", {}, 2, "but the layers of wiola read those of several; take another --model, or leave out"),
        (
            "gpt2",
            {"experts": 4},
            2,
            "--pipeline cannot be given with modules that add to the loss, such as experts",
        ),
        ("gpt2", {}, 3, "2 layers cannot be divided among 3 processes: start 2 or fewer"),
    ],
)
def test_models_that_cannot_be_divided_are_refused(family, changes, stages, message):
    with pytest.raises(InputError, match=message):
        check_layers(tiny.build(family, **changes), family, stages)


class Adding(nn.Wrapper):
    """Adds to the loss."""

    def forward(self, x):
        if (current := nn.loss_pass()) is not None:
            current.add((x * x).mean())
        return self.inner(x)


def test_what_only_the_last_stage_could_compute_is_refused():
    def step(world: Room, model: LanguageModel, part: Batch) -> None:
        Pipeline(model, world, parts=2).accumulate(None, part, 0)

    own = dataclasses.replace(batch(), objective=lambda x, head, targets, weights: x.sum())
    with pytest.raises(InputError, match="a batch has another objective"):
        together(2, lambda world: step(world, build("gpt2"), own))
    model = build("gpt2", tied_head=False)
    name, block = next((name, each) for name, each in model.named_modules() if name.endswith("mlp"))
    nn.replace(model, {name: Adding(block)})
    with pytest.raises(InputError, match=r"modules that add to the loss, .*because only the last stage computes one"):
        step(World(), model, batch())


def test_a_model_that_fits_is_not_refused():
    check_layers(build("vidya-v2"), "vidya-v2", 4)


def told_by_both(model: LanguageModel) -> float:
    """Return how far the logits of the program are from those of the model."""
    model.eval()
    decoder = Decoder(model)
    assert decoder.has_program
    written = decoder.step([5], model.new_cache(1))
    with no_grad():
        read = model([[5]]).data[:, 0]
    model.train()
    return float(abs(written - read).max())


@pytest.mark.parametrize(("family", "changes"), [("gpt2", {}), ("vsla", {"num_layers": 5}), ("vidya-v1", {})])
def test_each_stage_writes_samples_with_the_newest_weights_of_all(family: str, changes: dict[str, Any]) -> None:
    def work(world: World) -> list[float]:
        model = build(family, **changes)
        optimizer = AdamW(model.parameters(), lr=0.05)
        optimizer.divide_among(world, owners(model, 2))
        stage, apart = Pipeline(model, world, seed=3), [told_by_both(model)]
        for step in range(3):
            stage.run([batch()], step=step, num_targets=batch().num_targets)
            optimizer.step()
            optimizer.zero_grad()
        optimizer.complete()
        return [*apart, told_by_both(model)]

    for before, after in together(2, work):
        assert before < 1e-5
        assert after < 1e-4
