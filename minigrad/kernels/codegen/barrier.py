"""A barrier: threads that compute one thing together wait until all of them have come this far.

To hand work to another thread and to wait for it through the operating system takes some ten microseconds. A pass over
one token has a hundred steps. Each step needs the results of the step before, and many take less than that. So threads
stay in one loop and count themselves in a number in memory that all of them see.
"""

from __future__ import annotations

import os
import platform
from typing import Any

from llvmlite import ir

from minigrad.kernels.codegen.llvm import INT64, WORD, declare, int64
from minigrad.kernels.jit import emits, types
from minigrad.typing import Array

_SPINS = 1 << 8  # looks at the number, some microseconds, before another program may have the processor


def arrive_and_wait(arrived: Array, goal: int) -> None:
    """Add 1 to arrived[0] (int64), and wait until it is `goal`: the threads times the barriers up to this one.

    What a thread wrote before is seen by all after it. Plain Python runs this body, on one thread.
    """
    arrived[0] += 1
    assert arrived[0] >= goal


@emits(arrive_and_wait, types.void, None, types.int64)
def _emit(builder: Any, arrived: Any, goal: Any) -> None:
    number = arrived.data
    builder.atomic_rmw("add", number, int64(1), "seq_cst")
    start, (look, tired, done) = builder.block, map(builder.append_basic_block, ("look", "tired", "done"))
    builder.branch(look)
    builder.position_at_end(look)
    spins = builder.phi(INT64)
    spins.add_incoming(int64(0), start)
    count = builder.load_atomic(number, "seq_cst", 8)
    more = builder.add(spins, int64(1))
    builder.cbranch(builder.icmp_signed(">=", count, goal), done, tired)
    builder.position_at_end(tired)
    _rest(builder)
    with builder.if_then(builder.icmp_unsigned("==", builder.urem(more, int64(_SPINS)), int64(0))):
        _give_way(builder)
    spins.add_incoming(more, builder.block)
    builder.branch(look)
    builder.position_at_end(done)


def _rest(builder: Any) -> None:
    """Tell the processor that this is a waiting loop, so that it saves power and leaves its units to a sibling.

    On ARM the hint for that (yield) does nothing on most processors; to empty the pipeline (isb) takes about as long as
    the pause of x86.
    """
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        builder.call(declare(builder, "llvm.x86.sse2.pause", ir.VoidType(), []), [])
    elif machine in ("arm64", "aarch64"):
        whole_system = ir.Constant(WORD, 15)
        builder.call(declare(builder, "llvm.aarch64.isb", ir.VoidType(), [WORD]), [whole_system])


def _give_way(builder: Any) -> None:
    """Let another thread have the processor, which may be one that this one waits for."""
    builder.call(declare(builder, "SwitchToThread" if os.name == "nt" else "sched_yield", WORD, []), [])
