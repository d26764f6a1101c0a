"""Profiling changes no bit of any result, and counts every operation once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from minigrad import Tensor
from minigrad.autograd.operators import OPS
from minigrad.autograd.profile import Profile
from tests.models.tiny import TINY, build, tokens
from tests.op_table import TABLE


@pytest.mark.parametrize("name", [name for name in TABLE if name in OPS])
@given(data=st.data())
def test_any_operation_can_be_profiled_and_computes_the_same_bits(name: str, data: st.DataObject) -> None:
    case = data.draw(TABLE[name].cases)

    def run() -> list[bytes]:
        arguments = [Tensor(x.copy(), requires_grad=x.dtype.kind == "f") for x in case.arrays]
        y = OPS[name](*arguments, **case.options)
        y.backward(np.ones(y.shape))
        return [y.data.tobytes(), *(np.asarray(x.grad).tobytes() for x in arguments if x.grad is not None)]

    plain, found = run(), []
    with Profile() as measured:
        found.append(run())
    assert found == [plain]
    assert [(line.name, line.phase, line.calls) for line in measured.lines.values()] == [
        (name, "forward", 1),
        (name, "backward", 1),
    ]
    assert all(line.flops >= 0 and line.bytes_new >= 0 for line in measured.lines.values())


@pytest.mark.parametrize("family", [*TINY, "wiola kv_only"])
def test_profiling_a_model_changes_no_bit(family: str) -> None:
    changes: dict[str, Any] = {"atm": "kv_only", "atm_threshold": 0.3} if "kv_only" in family else {}
    model = build(family.split()[0], dropout=0.2, **changes)
    ids = tokens(0, 2, 9)

    def bits() -> list[bytes]:
        model.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        return [loss.data.tobytes(), *(np.asarray(p.grad).tobytes() for p in model.parameters())]

    plain, found = bits(), []
    with Profile() as measured:
        found.append(bits())
    assert found == [plain]
    assert {name for name, _ in measured.lines} <= set(OPS)
    assert measured.lines["linear_cross_entropy", "backward"].calls == 1
