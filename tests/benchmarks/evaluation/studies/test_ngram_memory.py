"""Tables of n-grams learn as AdaGrad says, see no other text, and survive a kill as part of a run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import models
from benchmarks.evaluation import one_run
from benchmarks.evaluation.one_run import make, read_result
from benchmarks.evaluation.studies.ngram_memory import Remembering, Table, keys_of
from benchmarks.evaluation.study import ROOT
from minigrad import nn
from minigrad.errors import InputError
from models.vidya_v2 import VidyaV2Config
from tests.benchmarks.evaluation.studies.toy import toy_study
from tests.killed_runs import Killed, kill, stop
from tests.small_runs import quick_runs, settings
from train import train

FILE = ROOT / "benchmarks/evaluation/studies/ngram_memory.py"
ARM = f"""
model = "{FILE}:Remembering"
unequal_parameters = "the tables are rows that are only looked up"
attributes = {{ orders = [2, 3], rows = 512 }}
"""


def test_the_rows_that_were_read_move_as_if_all_rows_were_updated() -> None:
    rng = np.random.default_rng(0)
    table = Table(5, 3)
    table.initialise()
    values, squares = np.zeros((6, 3)), np.zeros(6)
    for _ in range(4):
        keys, weights = rng.integers(0, 6, 8), rng.normal(size=(8, 3)).astype(np.float32)
        (table.look_up(keys) * weights).sum().backward()
        table.update(0.1)
        gradient = np.zeros((6, 3))
        np.add.at(gradient, keys, weights)
        gradient[5] = 0
        squares += np.square(gradient).mean(axis=1)
        values -= 0.1 * gradient / (np.sqrt(squares)[:, None] + 1e-12)
    np.testing.assert_allclose(table.values.data, values, atol=1e-5)
    assert not table.values.data[5].any()
    assert np.abs(table.values.data[:5]).min() > 0


@pytest.mark.parametrize("order", [2, 3])
def test_a_key_depends_on_the_tokens_of_its_own_ngram_alone(order: int) -> None:
    tokens, layout = np.random.default_rng(0).integers(0, 300, 24), nn.Layout.rectangular(2, 12)
    keys = keys_of(tokens, layout, order, 1 << 40)
    assert (keys.reshape(2, 12)[:, : order - 1] == 1 << 40).all()
    for place in range(24):
        changed = tokens.copy()
        changed[place] += 1
        (moved,) = np.nonzero(keys_of(changed, layout, order, 1 << 40) != keys)
        inside = [each for each in range(place, place + order) if each // 12 == place // 12 and each % 12 >= order - 1]
        assert moved.tolist() == inside


def test_a_text_in_pieces_is_refused() -> None:
    shape = {"vocab_size": 13, "num_layers": 1, "width": 12, "num_heads": 3, "num_kv_heads": 1, "head_dim": 4}
    model = Remembering(VidyaV2Config(**shape, feed_forward=20))
    model.initialise(1)
    with pytest.raises(InputError, match="in pieces"):
        model(np.ones((1, 3), np.int64), cache=model.new_cache(1, 3))


def test_steps_that_several_threads_share_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(models.FAMILIES, "vidya-v2", models.FAMILIES["vidya-v2"])  # which an arm replaces
    study, job = toy_study(tmp_path, ARM)
    text, guests = Path(job.corpus), one_run.install(study, study.named(job.arm))
    with quick_runs(), pytest.raises(InputError, match="one thread of one process must update the tables"):
        train(settings(text, tmp_path / "run", batch=4, threads=2), guests=guests)


def test_a_killed_run_goes_on_with_its_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(models.FAMILIES, "vidya-v2", models.FAMILIES["vidya-v2"])  # which an arm replaces
    study, job = toy_study(tmp_path, ARM)
    places = [tmp_path / name / "run" for name in ("whole", "killed")]
    with quick_runs():
        make(study, job, places[0])
        stop(monkeypatch, 8, kill)
        with pytest.raises(Killed):
            make(study, job, places[1])
        make(study, job, places[1])
        one_run.open_test(study, job, places[1])
    whole, killed = (read_result(place) for place in places)
    assert whole is not None
    assert killed is not None
    assert killed["documents"] == whole["documents"]
    assert killed["test"]
    tables = [models.load(place).model.embedding_dropout.tables for place in places]
    for one, other in zip(*tables, strict=True):
        assert np.count_nonzero(one.values.data) > 100
        np.testing.assert_array_equal(one.values.data, other.values.data)
