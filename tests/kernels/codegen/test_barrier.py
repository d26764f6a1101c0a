"""A barrier counts who has arrived; that threads really wait is tested by the programs that need it."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from llvmlite import binding, ir

from minigrad.kernels.codegen import barrier
from minigrad.kernels.codegen.barrier import arrive_and_wait


def test_the_last_to_arrive_passes() -> None:
    arrived = np.array([2], np.int64)
    arrive_and_wait(arrived, 3)
    assert arrived[0] == 3
    with pytest.raises(AssertionError):  # plain Python has one thread: another one would never come
        arrive_and_wait(arrived, 8)


@pytest.mark.parametrize(
    ("machine", "system", "emitted"),
    [
        ("AMD64", "nt", ['void @"llvm.x86.sse2.pause"()', 'i32 @"SwitchToThread"()']),
        ("aarch64", "posix", ['void @"llvm.aarch64.isb"(i32 15)', 'i32 @"sched_yield"()']),
        ("arm64", "posix", ['void @"llvm.aarch64.isb"(i32 15)', 'i32 @"sched_yield"()']),
        ("riscv64", "posix", ['i32 @"sched_yield"()']),
    ],
)
def test_a_waiting_thread_rests_and_gives_way_on_every_system(
    monkeypatch: pytest.MonkeyPatch, machine: str, system: str, emitted: list[str]
) -> None:
    monkeypatch.setattr(barrier.platform, "machine", lambda: machine)
    monkeypatch.setattr(barrier, "os", SimpleNamespace(name=system))
    module = ir.Module()
    builder = ir.IRBuilder(ir.Function(module, ir.FunctionType(ir.VoidType(), []), "wait").append_basic_block())
    barrier._rest(builder)
    barrier._give_way(builder)
    builder.ret_void()
    assert [line.partition("call ")[2] for line in str(module).splitlines() if "call" in line] == emitted
    binding.parse_assembly(str(module)).verify()
