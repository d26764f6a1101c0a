"""The costs of training, compared with hand counts and with the sizes of the arrays."""

from __future__ import annotations

import dataclasses
import gc
import math
import tracemalloc

import numpy as np
import pytest

import models
from minigrad.adapters import adapt, adapt_tokens
from minigrad.distributed.world import ALONE
from minigrad.nn.language_model import LanguageModel
from minigrad.optim import AdamW
from minigrad.system import blas, forks, hardware
from minigrad.training import optimizers
from minigrad.training.planning import costs
from minigrad.training.settings import RunSettings
from tests.models import tiny

NANO = models.skeleton("vidya-v2", "nano")


def test_operations_are_those_of_each_matrix_and_of_attention_counted_by_hand():
    # nano: queries 96 x 96, keys and values 48 x 96, output 96 x 96, three matrices 240 x 96, in 6 layers; the head.
    matrices = 6 * (2 * 96 * 96 + 2 * 48 * 96 + 3 * 240 * 96) + 4_096 * 96
    attention = 6 * 2 * 48 * 256 / 2 * 2
    assert costs.flops_per_token(NANO, 256) == 6 * (matrices + attention)
    assert costs.flops_per_token(NANO, 512) - costs.flops_per_token(NANO, 256) == 6 * attention


def test_xz_takes_memory_when_that_of_the_activations_is_free_again():
    training = costs.memory(NANO, 8, 64)
    small, large = (dataclasses.replace(training, xz=training.activations + more) for more in (-1, 1_000))
    assert (small.total, large.total) == (training.total, training.total + 1_000)
    assert costs.of_xz(2_000, 500) == 12 * 2_500
    assert costs.of_xz(1 << 30, 500) == costs.of_xz(1 << 23, 500)  # of a long text, an excerpt


def test_the_state_is_the_memory_of_weights_gradients_and_moments():
    model = models.build("vidya-v2", "nano", vocab_size=300, num_layers=2)
    moments = [array for pair in AdamW(model.parameters()).moments() for array in pair]
    held = sum(parameter.data.nbytes + np.asarray(parameter.grad).nbytes for parameter in model.parameters())
    memory = costs.memory(model, 2, 16)
    assert memory.state == held + sum(array.nbytes for array in moments)
    assert memory.total == memory.state + memory.activations + memory.snapshot + memory.program


def test_an_optimizer_may_keep_less_than_adamw_and_checkpoints_are_written_from_a_copy():
    alone = costs.memory(NANO, 8, 64)
    found = alone.with_optimizer(-1_000, snapshot=5_000)
    assert (found.state, found.snapshot, found.total) == (alone.state - 1_000, 5_000, alone.total + 4_000)


def test_a_replica_needs_a_gradient_of_its_own():
    one, three = (costs.memory(NANO, 6, 64, replicas=replicas) for replicas in (1, 3))
    assert three.state - one.state == 2 * 4 * NANO.num_parameters()
    assert three.activations - one.activations == 2 * 4_096 * 96 * 4  # of the head's matrix, in each thread


def test_a_copy_of_the_process_needs_pages_of_its_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(hardware, "threads", lambda: 3)
    monkeypatch.setattr(blas, "can_use_one_thread", lambda: True)
    every = dict.fromkeys(("log_every", "eval_every", "save_every", "sample_every"), 1)
    settings = RunSettings(batch=6, context=256, lr=0.1, warmup=0, optimizer="adamw", threads=3, **every)
    needed = []
    for are_possible in (False, True):
        monkeypatch.setattr(forks, "ARE_POSSIBLE", are_possible)
        needed.append(costs.memory_of_run(settings, NANO, ALONE, None))
    assert needed[1].total - needed[0].total == 2 * 75_000_000


def test_a_stage_has_gradients_and_moments_of_its_own_layers():
    whole = costs.memory(NANO, 8, 256)
    stage = whole.for_stage(4 * (NANO.num_parameters() - 500_000))
    assert stage.state == 4 * (NANO.num_parameters() + 3 * 500_000)
    assert stage.activations == whole.activations


def test_a_teacher_needs_its_weights_and_one_more_chunk_of_logits():
    alone = costs.memory(NANO, 8, 64)
    both, shared = (
        alone.with_teacher(models.skeleton("vidya-v2", "micro"), 8 * 64, is_shared) for is_shared in (False, True)
    )
    assert both.state - alone.state == 4 * models.count("vidya-v2", "micro")
    assert (shared.state, shared.activations) == (alone.state, both.activations)
    assert both.activations - alone.activations == 4 * 8 * 64 * 4_096


@pytest.mark.parametrize(("rank", "replay", "own"), [(None, 0.5, 1), (None, 0.0, 1), (8, 0.0, 1), (8, 0.5, 0)])
def test_a_reference_has_weights_of_its_own_unless_replay_binds_those_under_adapters(rank, replay, own):
    every = dict.fromkeys(("log_every", "eval_every", "save_every", "sample_every"), 1)
    how = {"objective": "grpo", "adapter_rank": rank, "replay": replay, "optimizer": "adamw"}
    settings = RunSettings(batch=6, context=256, lr=0.1, warmup=0, threads=1, **how, **every)
    alone, both = (costs.memory_of_run(settings, NANO, ALONE, teacher) for teacher in (None, NANO))
    assert both.state - alone.state == own * 4 * NANO.num_parameters()


def test_frozen_weights_need_no_gradient_and_no_moments():
    adapting = models.skeleton("vidya-v2", "nano")
    adapt(adapting, 8)
    trained = 6 * 8 * (2 * (96 + 96) + 2 * (96 + 48) + 3 * (96 + 240))  # queries and output, keys and values, the block
    whole, thin = costs.memory(NANO, 8, 64, replicas=2), costs.memory(adapting, 8, 64, replicas=2)
    assert thin.state == 4 * (NANO.num_parameters() + 5 * trained)
    assert whole.activations - thin.activations == 2 * 4 * 4_096 * 96  # the gradients of the head's matrix
    spared = costs.flops_per_token(NANO, 64) + 6 * trained - costs.flops_per_token(adapting, 64)
    assert spared == 2 * (NANO.num_parameters() - 13 * 96)  # all but the weights of the norms
    adapt_tokens(adapting, [1, 2])
    rows = costs.memory(adapting, 8, 64, replicas=2)
    assert rows.state - thin.state == 4 * 5 * 2 * 96
    assert rows.activations - thin.activations == 2 * 4 * 4_096 * 98  # each replica has a copy of the head, and wider


def test_activations_grow_with_the_tokens_of_a_step_and_the_state_does_not():
    none, small, large = (costs.memory(NANO, batch, 64) for batch in (0, 2, 8))
    assert large.activations - none.activations == 4 * (small.activations - none.activations)
    assert none.activations == 4_096 * 96 * 4  # the gradient of the head's matrix
    assert large.state == small.state


def _stored_per_token(model: LanguageModel) -> float:
    """Return how many float32 elements per token the forward pass of a loss leaves in memory."""
    ids = tiny.tokens(0, 4, 129)
    model.loss(ids[:, :-1], ids[:, 1:])  # compiles kernels, and makes tables that stay
    gc.collect()
    tracemalloc.start()
    loss = model.loss(ids[:, :-1], ids[:, 1:])
    stored = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert loss.requires_grad  # what is stored for the backward pass is stored until here
    return stored / 4 / ids[:, 1:].size


@pytest.mark.parametrize("family", models.FAMILIES)
def test_layers_store_what_their_family_counts(family: str):
    few, many = (models.build(family, "nano", vocab_size=tiny.VOCAB, num_layers=layers) for layers in (6, 12))
    counted = many.config.activations_per_token() - few.config.activations_per_token()
    assert _stored_per_token(many) - _stored_per_token(few) == pytest.approx(counted, rel=0.04)


def test_recomputed_layers_keep_their_inputs_and_one_layer_at_a_time():
    kept, again = (costs.memory(NANO, 8, 64, recomputed=recomputed) for recomputed in (False, True))
    inner = NANO.config.activations_per_token()
    assert kept.activations - again.activations == 8 * 64 * (inner - inner // 6 - 6 * 96) * 4


def test_logits_computed_in_chunks_are_counted_once():
    whole, parts = (models.skeleton("vidya-v2", "nano", vocab_size=size) for size in (8_192, 16_384))
    scores = [8 * 256 * 8_192, 8 * 256 * 16_384 // 2]
    tables = [8_192 * 96, 2 * 16_384 * 96]
    found = [costs.memory(model, 8, 256).activations for model in (whole, parts)]
    assert found[1] - found[0] == 4 * (scores[1] + tables[1] - scores[0] - tables[0])


def test_a_larger_model_or_a_slower_machine_is_slower():
    micro, machine = models.skeleton("vidya-v2", "micro"), costs.Rates(1e11, 1e9)
    assert costs.tokens_per_second(micro, 256, machine) < costs.tokens_per_second(NANO, 256, machine)
    half = costs.tokens_per_second(NANO, 256, costs.Rates(5e10, 5e8))
    assert costs.tokens_per_second(NANO, 256, machine) == pytest.approx(2 * half)


def test_threads_that_share_every_product_take_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs.hardware, "threads", lambda: 2)
    machine = costs.Rates(math.inf, 1e9)
    alone, shared = (costs.tokens_per_second(NANO, 256, machine, replicas=count) for count in (2, 1))
    assert alone == pytest.approx(1.5 * shared)
    assert alone == costs.tokens_per_second(NANO, 256, machine)


def test_faster_products_shorten_products_and_nothing_else():
    slow, fast = (1 / costs.tokens_per_second(NANO, 256, costs.Rates(rate, 1e9)) for rate in (1e11, 4e11))
    assert slow - fast == pytest.approx(costs.flops_per_token(NANO, 256) * (1 / 1e11 - 1 / 4e11))


def test_what_the_optimizer_multiplies_is_shared_by_the_tokens_of_a_step():
    # By hand, in a layer: two matrices of 96 x 96, two of 48 x 96, three of 96 x 240; five times 3 n^2 m + n^3 of each.
    flops = 6 * 5 * (2 * 4 * 96**3 + 2 * (3 * 48**2 * 96 + 48**3) + 3 * (3 * 96**2 * 240 + 96**3))
    assert optimizers.update_flops_per_token("muon", NANO, 2_048) == flops / 2_048
    assert optimizers.update_flops_per_token("adamw", NANO, 2_048) == 0
    machine = costs.Rates(1e11, 1e9)
    plain, with_update = (1 / costs.tokens_per_second(NANO, 256, machine, update) for update in (0.0, flops / 2_048))
    assert 1.0 < (with_update - plain) * 1e11 * 2_048 / flops < 2.0  # small products are slower than large ones


def test_the_machine_is_measured(monkeypatch):
    monkeypatch.setattr(costs, "_SECONDS", 0.0)
    assert min(costs.measure_rates()) > 1e6
