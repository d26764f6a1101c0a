"""Every random draw as a pure function of (seed, purpose, step, index).

A counter-based generator (Philox; Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") has no hidden
state that must be carried along: the numbers for step 1,000 can be had without drawing those of steps 0 to 999.
So resuming a run, recomputing a layer and splitting the work among processes all see the same numbers.
"""

from __future__ import annotations

import hashlib

import numpy as np


def philox_key(seed: int, purpose: str) -> int:
    """Return the 64-bit key that `seed` and `purpose` (say ``"dropout"``) share.

    >>> philox_key(0, "dropout") == philox_key(0, "data order")
    False
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def generator(seed: int, purpose: str, step: int = 0, index: int = 0) -> np.random.Generator:
    """Return NumPy's generator for one (seed, purpose, step, index).

    `step` and `index` sit in the upper half of Philox's 256-bit counter, draws in the lower half, so two different
    pairs never share a number.

    >>> bool(generator(0, "init").random() == generator(0, "init").random())
    True
    """
    counter = (step << 192) | (index << 128)
    return np.random.Generator(np.random.Philox(key=philox_key(seed, purpose), counter=counter))
