"""The steps of many machines are computed from those of one, and cost what their messages cost."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.many_machines import Measured, Network, bytes_per_token, efficiency, seconds_per_step, tokens_for

MEASURED = Measured(per_token=5e-4, update=0.05, state_bytes=6e7, arrays=2, small=4)
SLOW = Network("slow", 1e8, 1e-4)


def test_one_node_sends_nothing() -> None:
    assert seconds_per_step(MEASURED, SLOW, 1, 2_048) == 5e-4 * 2_048 + 0.05
    assert efficiency(MEASURED, SLOW, 1, 2_048) == 1


@given(st.sampled_from([2, 8, 64, 512]), st.integers(1, 10**6))
def test_more_tokens_a_node_never_lose_and_a_faster_network_never_harms(nodes: int, tokens: int) -> None:
    assert efficiency(MEASURED, SLOW, nodes, 2 * tokens) >= efficiency(MEASURED, SLOW, nodes, tokens) - 1e-12
    fast = Network("fast", 1e9, 1e-5)
    assert seconds_per_step(MEASURED, fast, nodes, tokens) < seconds_per_step(MEASURED, SLOW, nodes, tokens)


@pytest.mark.parametrize("nodes", [2, 64])
def test_the_tokens_for_an_efficiency_are_the_smallest_power_of_two(nodes: int) -> None:
    tokens = tokens_for(MEASURED, SLOW, nodes, 0.9)
    assert math.log2(tokens).is_integer()
    assert efficiency(MEASURED, SLOW, nodes, tokens // 2) < 0.9 <= efficiency(MEASURED, SLOW, nodes, tokens)


def test_only_what_is_sent_for_data_parallel_depends_on_the_tokens_of_a_step() -> None:
    few, many = (bytes_per_token(14, 288, 14_753_952, 2, tokens) for tokens in (2_048, 20_480))
    assert few["data"] == 10 * many["data"]
    assert (few["tensor"], few["pipeline"]) == (many["tensor"], many["pipeline"])
