"""The counted savings of merging are those of the record, and what each variant computes."""

from __future__ import annotations

import pytest

import models
from benchmarks.wiola_costs import RATIOS, VARIANTS, products
from docs.measurements.records import read


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_counted_savings_are_those_of_the_record(variant: str) -> None:
    config, record = models.configure("wiola", "360m", num_layers=3, vocab_size=8), read()["wiola-costs"]
    for ratio in RATIOS:
        saved = 1 - products(config, 2_048, ratio, True, variant) / products(config, 2_048, 0, True)
        assert record.value(f"{ratio:.2f}", f"{variant}, counted") == pytest.approx(100 * saved, abs=0.051)


def test_where_every_row_attends_only_the_scores_become_fewer() -> None:
    config, length = models.configure("wiola", "360m", num_layers=3, vocab_size=8), 2_048
    full, half = (products(config, length, ratio, True, "kv_only") for ratio in (0, 0.5))
    assert full - half == length * length / 2 * config.width
