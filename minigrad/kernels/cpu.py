"""What this processor's registers can hold, and so how large a block of a matrix product is kept in them.

* `float32`: vector registers of 16 numbers (AVX-512), 8 (AVX2) or 4 (NEON). A block of rows x columns sums stays in
  rows * columns / lanes of them, as many as leave room for one row of the right factor.
* `bfloat16`: the same registers hold pairs of bfloat16, multiplied and added in float32 by one instruction
  (AVX512-BF16).
* `tiles`: AMX has eight registers of 16 rows x 64 bytes, and one instruction multiplies 16 x 32 by 32 x 16 bfloat16
  numbers, adding in float32. Four of them hold the sums, two each factor. float32 is multiplied there too, each number
  taken apart into three pieces (`minigrad.kernels.codegen.bfloat16_parts`), and so are the tiles of attention.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from minigrad.kernels.jit import host_features
from minigrad.system.hardware import may_use_tiles


@dataclass(frozen=True)
class Block:
    """The part of a product that the innermost loop holds in registers."""

    kind: str  # float32, bfloat16 or tiles
    rows: int
    columns: int
    lanes: int  # numbers in a register, or in a row of a tile register
    chunk: int = 1  # words of the left factor that lie together, row by row
    pieces: int = 0  # bfloat16 numbers that make one number of a factor; 0 where it stays float32


def _float32_block(features: set[str]) -> Block | None:
    if "avx512f" in features:
        return Block("float32", rows=12, columns=32, lanes=16)  # 24 of 32 registers
    if {"avx2", "fma"} <= features:
        return Block("float32", rows=6, columns=16, lanes=8)  # 12 of 16
    if "neon" in features:
        return Block("float32", rows=12, columns=8, lanes=4)  # 24 of 32
    return None


def _small_block(features: set[str]) -> Block:
    """For products of small matrices: fewer rows, so that less is wasted where a side is no multiple of them."""
    if "avx512f" in features or not ({"avx2", "fma"} <= features or "neon" in features):
        return Block("float32", rows=8, columns=32, lanes=16)
    return Block("float32", 4, 16, 8) if "avx2" in features else Block("float32", 8, 8, 4)


def _bfloat16_block(features: set[str]) -> Block | None:
    if {"avx512f", "amx-tile", "amx-bf16"} <= features and may_use_tiles():
        return Block("tiles", rows=32, columns=32, lanes=16, chunk=16, pieces=1)
    if "avx512bf16" in features:
        return Block("bfloat16", rows=12, columns=32, lanes=16, pieces=1)
    return None


_FEATURES = host_features()
FLOAT32, BFLOAT16 = _float32_block(_FEATURES), _bfloat16_block(_FEATURES)
SPLIT = replace(BFLOAT16, pieces=3) if BFLOAT16 is not None and BFLOAT16.kind == "tiles" else None
"""The blocks for this processor; None where it has no instructions for one."""
SMALL = SPLIT or _small_block(_FEATURES)
"""The block for the tiles of attention, in which plain loops work where there are no instructions for it."""
