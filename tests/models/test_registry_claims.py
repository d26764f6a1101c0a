"""The documents' figures are printed beside the true ones, and only where the two differ."""

from __future__ import annotations

import models
from models.registry import CLAIMS, compare_claim


def test_every_claim_is_of_a_published_size_and_differs_from_the_truth() -> None:
    for (family, size), claim in CLAIMS.items():
        assert size in models.FAMILIES[family][2]
        assert abs(models.count(family, size) / claim.parameters - 1) > 0.015, (family, size)


def test_the_documents_count_and_the_true_one_are_both_given() -> None:
    line = compare_claim("gpt2", "300m", models.skeleton("gpt2", "300m"))
    assert "its document says 300,124,416 parameters, the shape has 355,871,744" in line
    assert "37.8 GFLOP forward per token, which is 0.808 in the published context" in line
    assert compare_claim("vidya-v2", "nano", models.skeleton("vidya-v2", "nano")) == ""
    assert compare_claim("vidya-v2", "2.0", models.skeleton("vidya-v2", "2.0")) != ""
    assert compare_claim("vidya-v2", "2.0", models.skeleton("vidya-v2", "2.0", num_layers=2)) == ""  # another shape
    assert compare_claim("vidya-v2", "2.0", models.skeleton("vidya-v2", "2.0", vocab_size=8_192)) == ""
    assert compare_claim("gpt2", "300m", models.skeleton("gpt2", "300m", context_length=1_024)) == ""
