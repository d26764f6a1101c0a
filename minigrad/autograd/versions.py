"""Changes in place: each block of memory counts them, so that `backward()` notices a saved array that has changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from minigrad.autograd.gradients import Backward, saved_arrays
from minigrad.typing import Array


class Version:
    """The number of in-place changes to a block of memory; tensors that share memory share one version."""

    __slots__ = ("count",)

    def __init__(self) -> None:
        self.count = 0


class Versioned(Protocol):
    """An array in a block of memory that counts its changes: a tensor."""

    version: Version

    @property
    def data(self) -> Array:
        """The array."""


SavedVersions = tuple[tuple[Version, int], ...]
"""Versions, each with its count when a backward function saved the array."""


def saved_versions(backward: Backward, tensors: Sequence[Versioned]) -> SavedVersions:
    """Return the version, and its count, of every tensor whose array the backward function saves."""
    arrays, saved = saved_arrays(backward), []
    if not arrays:
        return ()
    for tensor in tensors:
        data = tensor.data
        for array in arrays:
            if array is data or may_share_memory(array, data):
                saved.append((tensor.version, tensor.version.count))
                break
    return tuple(saved)


def may_share_memory(a: Array, b: Array) -> bool:
    """Return whether a change of one array may change the other.

    Two arrays that own their memory do not share it, nor do views of two such arrays; NumPy decides all other cases.
    """
    owner, other = a if a.base is None else a.base, b if b.base is None else b.base
    if owner is not other and type(owner) is type(other) is np.ndarray and owner.base is None and other.base is None:
        return False
    return np.may_share_memory(a, b)
