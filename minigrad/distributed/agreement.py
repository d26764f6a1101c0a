"""Checks that the processes of a job do the same work: each compares itself with the first."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from typing import Any

from minigrad.distributed.world import World
from minigrad.errors import InputError, RunError


def check_agreement(world: World, facts: Mapping[str, Any]) -> None:
    """Raise InputError in every process if a fact differs between two of them, naming the fact and both values.

    `facts` are values that must be equal in all processes, such as settings and hashes of texts, by name.
    """
    found = world.collect((platform.node(), dict(facts)))
    host, expected = found[0]
    for rank, (node, own) in enumerate(found):
        for name, value in expected.items():
            if own.get(name) != value:
                raise InputError(
                    f"the processes disagree on {name}: process 0 on {host} has {value}, process {rank} on {node} has "
                    f"{own.get(name)}. Every machine needs the same program, the same versions and the same files."
                )


def check_equal(world: World, what: str, digest: str, way_out: str) -> None:
    """Raise RunError in every process if one has another digest of `what` than the first one."""
    digests = world.collect(digest)
    others = [str(rank) for rank, each in enumerate(digests) if each != digests[0]]
    if others:
        which = f"process {others[0]} has" if len(others) == 1 else f"processes {', '.join(others)} have"
        raise RunError(
            f"{which} other {what} than process 0, which must never happen: a memory or a network fault, or machines "
            f"that do not run the same program. {way_out}"
        )
