"""Every random draw as a pure function of (seed, purpose, step, index).

A counter-based generator (Philox; Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3") has no
hidden state: the numbers of step 1,000 are computed without drawing those of steps 0 to 999. So a resumed run, a
recomputed layer and work that is split among threads all get the same numbers.
"""

from __future__ import annotations

import functools
import hashlib

import numpy as np


@functools.lru_cache(maxsize=64, typed=True)  # 7 and 7.0 are equal, but not their keys
def philox_key(seed: int, purpose: str) -> int:
    """Return the 64-bit key of a seed and a purpose (such as ``"dropout"``).

    >>> philox_key(0, "dropout") == philox_key(0, "data order")
    False
    """
    digest = hashlib.blake2b(f"{seed}/{purpose}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def generator(seed: int, purpose: str, step: int = 0, index: int = 0) -> np.random.Generator:
    """Return NumPy's generator for one (seed, purpose, step, index).

    `step` and `index` are the upper half of Philox's 256-bit counter, and draws advance the lower half, so two
    different pairs never use the same counter.

    >>> bool(generator(0, "init").random() == generator(0, "init").random())
    True
    """
    counter = (int(step) << 192) | (int(index) << 128)  # NumPy's integers have 64 bits
    return np.random.Generator(np.random.Philox(key=philox_key(seed, purpose), counter=counter))
