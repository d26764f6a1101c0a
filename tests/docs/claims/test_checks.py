"""Every expression of claims.toml gives the value that the page shows."""

from __future__ import annotations

import numpy as np
import pytest

from docs.claims import checks
from docs.claims.table import Claim, read

COMPUTED = [claim for claim in read() if claim.compute]


@pytest.mark.parametrize("claim", COMPUTED, ids=lambda claim: claim.says)
def test_the_right_value_is_what_is_computed(claim: Claim) -> None:
    value = eval(claim.compute, dict(vars(checks)))
    if isinstance(claim.value, bool):
        assert value is claim.value
    else:
        for got, wanted in zip(*map(parts, (value, claim.value)), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=claim.within, atol=1e-12)


def parts(value: object) -> list[object]:
    return list(value) if isinstance(value, list | tuple) else [value]


def test_most_claims_are_computed() -> None:
    assert len(COMPUTED) > 125
    assert len({claim.compute for claim in COMPUTED}) > 120
