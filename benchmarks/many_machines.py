"""What several processes gain: measured on this machine, and computed from that for 8, 64 and 512 machines.

It measures a training step of one process on all threads and of two with half of them each, in turns; the parts of a
step, the bytes that a process sends in it, and the seconds of these messages; and a step of two processes that divide
the layers (`--pipeline`), through which the batch passes in several parts. It computes steps over networks of other
speeds: the bytes divided by the bandwidth, and a latency for each message. Run with nothing else on the machine, with
the Python of the extra `distributed`:

    python benchmarks/many_machines.py

Between two machines, `mpiexec -n 2 --hosts one,two python benchmarks/many_machines.py --serve '{"size": "mini"}'`
prints the same measurements of their network, and with `"parts": 4` those of a pipeline. Then `--bandwidth` (bytes a
second) and `--latency` (seconds) add a row.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from machine import describe_machine

if TYPE_CHECKING:
    from minigrad.distributed.world import World

STEPS, ROUNDS, CONTEXT, BATCH, VOCABULARY = 8, 2, 256, 8, 8_192
NODES = (8, 64, 512)
PARTS = (4, 8)  # of a batch that passes through a pipeline


class Network(NamedTuple):
    """What a message costs: bytes a second in each direction, and seconds from one machine to the next."""

    name: str
    bandwidth: float
    latency: float


NETWORKS = (
    Network("1 Gbit/s", 1.25e8, 1e-4),
    Network("10 Gbit/s", 1.25e9, 3e-5),
    Network("100 Gbit/s", 1.25e10, 5e-6),
)


class Measured(NamedTuple):
    """The parts of a step of one process alone, and what it would exchange with others.

    Seconds per token of forward and backward pass, and seconds of the update of all parameters; the bytes of all
    gradients, which are those of all weights, in how many arrays; and the number of small sums in a step.
    """

    per_token: float
    update: float
    state_bytes: float
    arrays: int
    small: int


def seconds_per_step(measured: Measured, network: Network, nodes: int, tokens: int) -> float:
    """Return the seconds of a step of this many nodes with this many tokens each.

    Of the gradients and of the weights, each node sends and receives all but its own share, one after the other
    (a reduce-scatter in log2(nodes) messages, an all-gather around a ring in nodes - 1), and updates its share.

    >>> one = Measured(1e-3, 0.1, 1e8, 1, 0)
    >>> seconds_per_step(one, Network("", 1e8, 0.0), 1, 1_000), seconds_per_step(one, Network("", 1e8, 0.0), 2, 1_000)
    (1.1, 2.05)
    """
    hops = math.ceil(math.log2(nodes))
    messages = measured.arrays * (hops + nodes - 1) + 2 * measured.small * hops
    exchanged = 2 * measured.state_bytes * (nodes - 1) / nodes
    compute = measured.per_token * tokens + measured.update / nodes
    return compute + exchanged / network.bandwidth + messages * network.latency


def efficiency(measured: Measured, network: Network, nodes: int, tokens: int) -> float:
    """Return the tokens per second of each node, as a part of those of one node alone."""
    alone = seconds_per_step(measured, network, 1, tokens)
    return alone / seconds_per_step(measured, network, nodes, tokens)


def tokens_for(measured: Measured, network: Network, nodes: int, wanted: float) -> int:
    """Return the least tokens of each node in a step that give the wanted efficiency; a power of two."""
    tokens = 1
    while efficiency(measured, network, nodes, tokens) < wanted:
        tokens *= 2
    return tokens


def bytes_per_token(
    layers: int, width: int, parameters: int, nodes: int, tokens: int, tied: int = 0
) -> dict[str, float]:
    """Return what each node sends for a token of a step, in float32, if the nodes divide a model in one of three ways.

    Data: gradients and weights once in a step, whatever its tokens. Tensor: in each layer, activations are added up
    twice in the forward and twice in the backward pass, and each sum is sent as a reduce-scatter and an all-gather.
    Pipeline: a stage sends activations to the next, and their gradients come back, once for each border of stages; a
    head of `tied` elements that is the embedding belongs to two stages, which exchange its gradient and its values.

    >>> bytes_per_token(14, 288, 14_753_952, 2, 2_048)
    {'data': 28816.3125, 'tensor': 64512.0, 'pipeline': 1152.0}
    >>> bytes_per_token(14, 288, 14_753_952, 2, 2_048, tied=8_192 * 288)["pipeline"]
    5760.0
    """
    share = (nodes - 1) / nodes
    return {
        "data": 2 * 4 * parameters * share / tokens,
        "tensor": layers * 4 * 2 * 4 * width * share,
        "pipeline": 4.0 * width + 4.0 * tied / tokens,
    }


def seconds_of_meetings(world: World, elements: int) -> dict[str, float]:
    """Return the medians of the seconds of a reduce-scatter and an all-gather of this many elements, and of a sum."""
    import numpy as np

    flat, small = np.zeros(elements, np.float32), np.zeros(1)
    cuts = [flat.size * rank // world.size for rank in range(world.size + 1)]
    meetings = {
        "reduce": lambda: world.reduce(flat, cuts),
        "complete": lambda: world.complete(flat, cuts),
        "add": lambda: world.add(small),
    }
    seconds = {}
    for name, meet in meetings.items():
        rounds = []
        for _ in range(6):
            world.add(small)
            start = time.perf_counter()
            meet()
            rounds.append(time.perf_counter() - start)
        seconds[name] = statistics.median(rounds)
    return seconds


def serve(size: str, parts: int = 0) -> None:
    """Measure in the processes of this job, as stages of a pipeline if there are `parts`; the first one prints JSON."""
    from minigrad.distributed.launch import connect
    from minigrad.system import hardware

    world = connect()
    hardware.prepare(None, world.sharing)

    import models
    from minigrad.data.tokens.source import Windows
    from minigrad.distributed.pipeline import Pipeline
    from minigrad.random import generator
    from minigrad.training.optimizers import optimizer_of
    from minigrad.training.parallel import Replicas, num_replicas
    from minigrad.training.settings import RunSettings
    from minigrad.training.workers import fastest
    from train import forward_backward

    model = models.build("vidya-v2", size=size, vocab_size=VOCABULARY, dropout=0.1)
    settings = RunSettings(optimizer="adamw", weight_decay=0.1, beta2=0.95, pipeline=parts > 0)
    optimizer = optimizer_of(model, settings, world)
    text = generator(0, "benchmark").integers(0, VOCABULARY, 1_000_000).astype("uint16")
    windows, times = Windows(text, CONTEXT), list[tuple[float, float, float]]()
    if world.size == 1:
        replicas = fastest(model, BATCH, CONTEXT)
    else:
        replicas = Replicas(model, 1 if parts else num_replicas(model, -(-BATCH // world.size), CONTEXT))
    pipeline = Pipeline(model, world) if parts else None
    for step in range(STEPS + 2):
        start = time.perf_counter()
        batch = windows.batch(seed=0, step=step, batch_size=BATCH)
        if pipeline:
            pipeline.run(batch.parts(parts), step=step, num_targets=batch.num_targets)
        else:
            for share in batch.parts(world.size)[world.rank : world.rank + 1]:
                replicas.run(forward_backward, share, step=step, num_targets=batch.num_targets)
        computed = time.perf_counter()
        optimizer.step(1e-4, max_norm=1.0)
        optimizer.zero_grad()
        times.append((start, computed, time.perf_counter()))
    memory = world.collect(hardware.peak_memory_bytes())
    seconds_of = list(zip(*((c - s, e - c, e - s) for s, c, e in times[2:]), strict=True))
    backward, update, whole = (statistics.median(each) for each in seconds_of)
    sections = seconds_of_meetings(world, model.num_parameters())
    if world.rank == 0:
        found = {"step": whole, "forward_backward": backward, "update": update} | sections
        found |= {
            "memory": memory,
            "parameters": model.num_parameters(),
            "layers": model.config.num_layers,
            "width": model.config.width,
        }
        print(json.dumps(found | {"processes": world.size, "threads": hardware.threads()}), flush=True)


def measure(processes: int, size: str, parts: int = 0) -> dict[str, Any]:
    """Start this many processes, and return what they measure."""
    from minigrad.system import environment

    launcher = [str(Path(sys.executable).with_name("mpiexec")), "-n", str(processes)] if processes > 1 else []
    command = [*launcher, sys.executable, __file__, "--serve", json.dumps({"size": size, "parts": parts})]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, env=environment.as_found()).stdout
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def table(measured: Measured, networks: Sequence[Network]) -> None:
    """Print tokens per second and efficiency by network, nodes and tokens of a node in a step."""
    print(f"{'network':<12}{'nodes':>6}" + "".join(f"{f'{n:,} tokens a node':>26}" for n in (2_048, 32_768)), end="")
    print(f"{'90% from (tokens a node)':>28}")
    for network in networks:
        for nodes in NODES:
            cells = ""
            for tokens in (2_048, 32_768):
                speed = nodes * tokens / seconds_per_step(measured, network, nodes, tokens)
                cells += f"{f'{speed:,.0f} tok/s, {efficiency(measured, network, nodes, tokens):.0%}':>26}"
            print(f"{network.name:<12}{nodes:>6}{cells}{tokens_for(measured, network, nodes, 0.9):>28,}")


def main() -> None:
    """Print tables, then the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--size", default="mini")
    parser.add_argument("--bandwidth", type=float, help="of your own network, in bytes per second")
    parser.add_argument("--latency", type=float, default=1e-4)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.serve:
        serve(**json.loads(asked.serve))
        return

    ways = [(1, 0), (2, 0), *((2, parts) for parts in PARTS)]
    rounds = [[measure(processes, asked.size, parts) for processes, parts in ways] for _ in range(ROUNDS)]
    one, two, *staged = (min(each, key=lambda found: found["step"]) for each in zip(*rounds, strict=True))
    print(
        f"{describe_machine()}; vidya-v2 {asked.size}, {one['parameters']:,} parameters, steps of {BATCH * CONTEXT:,}"
    )
    for found in (one, two):
        print(
            f"{found['processes']} process(es) x {found['threads']} thread(s): step {found['step']:.3f} s, of which "
            f"forward and backward {found['forward_backward']:.3f}, sums and update {found['update']:.3f}"
        )
    print(f"speed of two processes: {one['step'] / two['step']:.2f} of that of one")
    for parts, found in zip(PARTS, staged, strict=True):
        print(
            f"two stages, {parts} parts: step {found['step']:.3f} s, {one['step'] / found['step']:.2f} of the speed of "
            f"one; at most {max(found['memory']) / 1e6:.0f} MB, without stages {max(two['memory']) / 1e6:.0f} MB"
        )
    print("messages: " + ", ".join(f"{name} {1e3 * two[name]:.2f} ms" for name in ("reduce", "complete", "add")))
    measured = Measured(one["forward_backward"] / (BATCH * CONTEXT), one["update"], 4.0 * one["parameters"], 2, 4)
    own = [Network("yours", asked.bandwidth, asked.latency)] if asked.bandwidth else []
    table(measured, [*NETWORKS, *own])
    shape = one["layers"], one["width"], one["parameters"]
    for tokens in (2_048, 32_768):
        sent = bytes_per_token(*shape, 2, tokens, tied=VOCABULARY * one["width"])
        print(f"bytes a token, 2 nodes, {tokens:,} tokens: " + ", ".join(f"{k} {v:,.0f}" for k, v in sent.items()))
    print(json.dumps({"machine": describe_machine(), "rounds": rounds, "measured": measured._asdict()}))


if __name__ == "__main__":
    main()
