"""The laws of causality and of caches in the models that runs train: at default shapes, in training, in bfloat16.

Tiny models keep them for any seed and length (test_causality); here a text is longer than every window of attention.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import models
from minigrad import Tensor, no_grad, ops
from minigrad.kernels.gemm import backend as products
from minigrad.nn import Layout
from minigrad.nn.language_model import LanguageModel
from minigrad.typing import Array
from tests.models.defaults import build_default

VOCAB = 512
CUTS = (1, 63, 64, 65, 200, 255)
TEXT = np.random.default_rng(0).integers(0, VOCAB, 256)
TEXT[50:90] = np.repeat(TEXT[50:70], 2)  # Wiola merges equal neighbours
ALLOWED = {"float32": 1e-5, "bfloat16": 1e-2}
"""The share of the largest logit. In bfloat16 the last bits of a sum decide how it is rounded."""

every_family = pytest.mark.parametrize("family", models.FAMILIES)


@functools.cache
def model_of(family: str) -> LanguageModel:
    return build_default(family, vocab_size=VOCAB)


@pytest.fixture(params=ALLOWED)
def precision(request: pytest.FixtureRequest) -> Iterator[str]:
    products.use("auto", request.param)
    yield request.param
    products.use()


def logits(model: LanguageModel, ids: Array, training: bool = False, **options: Any) -> Array:
    """Compute logits as a run does: in training with a graph, in evaluation without one."""
    model.train(training)
    with contextlib.nullcontext() if training else no_grad():
        result: Array = model(ids, **options).data
    return result


def assert_near(precision: str, found: Array, wanted: Array) -> None:
    allowed = ALLOWED[precision] * max(1, np.abs(wanted).max())
    np.testing.assert_allclose(found, wanted, rtol=0, atol=allowed)


def check_causality(model: LanguageModel, training: bool, precision: str) -> None:
    """Compare, up to each cut, a text with one of other tokens after the cut, and with one that ends there."""
    texts = np.tile(TEXT, (len(CUTS), 1))
    after_cut = np.arange(len(TEXT)) >= np.array(CUTS)[:, None]
    whole, changed = (logits(model, ids % VOCAB, training)[~after_cut] for ids in (texts, texts + after_cut))
    if training and (merge_ratio := model.measurements().get("merge_ratio")):
        assert min(merge_ratio) > 0
        assert_near(precision, changed, whole)  # other merges leave other numbers of rows, and so other orders of sums
    else:
        np.testing.assert_array_equal(changed, whole)
    parts = logits(model, texts[~after_cut], training, layout=Layout.packed(CUTS))
    assert_near(precision, parts, whole)


@every_family
@pytest.mark.parametrize("training", [True, False])
def test_no_position_depends_on_a_later_token(family: str, training: bool, precision: str) -> None:
    check_causality(model_of(family), training, precision)


@every_family
def test_a_text_read_in_parts_gives_what_the_whole_gives(family: str, precision: str) -> None:
    model, ids = model_of(family), np.stack([TEXT, TEXT[::-1]])
    cache = model.new_cache(2, len(TEXT))
    parts = [logits(model, part, cache=cache) for part in np.split(ids, [100, *range(250, 256)], axis=1)]
    assert_near(precision, np.concatenate(parts, axis=1), logits(model, ids))


def test_a_leak_that_begins_late_and_in_training_alone_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    model, attention = model_of("vidya-v2"), ops.attention

    def see_one_more(*arrays: Any, offsets: Any, key_ranges: Any = None) -> Tensor:
        lengths = np.diff(offsets)
        positions = np.arange(offsets[-1]) - np.repeat(offsets[:-1], lengths)
        visible = positions + 1 + (model.training & (positions >= 63))
        return attention(*arrays, offsets=offsets, visible=np.minimum(visible, np.repeat(lengths, lengths)))

    monkeypatch.setattr(ops, "attention", see_one_more)
    check_causality(model, False, "float32")
    with pytest.raises(AssertionError):
        check_causality(model, True, "float32")
