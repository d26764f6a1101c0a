"""The registers of this processor, and the block of a matrix product that they hold.

* `float32`: vector registers of 16 elements (AVX-512), 8 (AVX2) or 4 (NEON). A block of rows x columns sums stays in
  rows * columns / lanes of them, as many as leave registers for one row of the right factor.
* `bfloat16`: the same registers hold pairs of bfloat16, multiplied and added in float32 by one instruction
  (AVX512-BF16), where it is fast.
* `tiles`: AMX has eight registers of 16 rows x 64 bytes, and one instruction multiplies 16 x 32 by 32 x 16 bfloat16
  elements, adding in float32. Four of them hold the sums, two each factor. float32, also that of the tiles of
  attention, is multiplied there with each element split into three bfloat16 parts
  (`minigrad.kernels.codegen.bfloat16_pairs`).
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
    lanes: int  # elements of a register, or of a row of a tile register
    chunk: int = 1  # words of one row of the left factor that are neighbours in its panel
    parts: int = 0  # bfloat16 parts of one element of a factor; 0 where it stays float32


def _float32_block(features: set[str]) -> Block | None:
    if "avx512f" in features:
        return Block("float32", rows=12, columns=32, lanes=16)  # 24 of 32 registers
    if {"avx2", "fma"} <= features:
        return Block("float32", rows=6, columns=16, lanes=8)  # 12 of 16
    if "neon" in features:
        return Block("float32", rows=12, columns=8, lanes=4)  # 24 of 32
    return None


def _small_block(features: set[str]) -> Block:
    """Return the block for products of small matrices: fewer rows, so that less padding is multiplied.

    The loops of the softmax run along its columns: at least 16, because the compiler unrolls a shorter loop into single
    elements instead of using vector registers.
    """
    if "avx512f" in features or not ({"avx2", "fma"} <= features or "neon" in features):
        return Block("float32", rows=8, columns=32, lanes=16)
    return Block("float32", rows=4, columns=16, lanes=8 if "avx2" in features else 4)


def _bfloat16_block(features: set[str]) -> Block | None:
    if {"avx512f", "amx-tile", "amx-bf16"} <= features and may_use_tiles():
        return Block("tiles", rows=32, columns=32, lanes=16, chunk=16, parts=1)
    if "avx512bf16" in features and not _is_slow_at_pairs(features):
        return Block("bfloat16", rows=12, columns=32, lanes=16, parts=1)
    return None


def _is_slow_at_pairs(features: set[str]) -> bool:
    """Whether a product of pairs of bfloat16 takes longer than one of float32, although there is an instruction for it.

    It takes twice as long on an Intel processor of the Sapphire Rapids kind, which multiplies bfloat16 in its tiles; a
    virtual machine may hide them (docs/results_speed.md, "Where bfloat16 is slower"). Such processors have float16
    arithmetic in AVX-512, and lack SSE4A, which those of AMD have.
    """
    return "avx512fp16" in features and "sse4a" not in features


_FEATURES = host_features()
FLOAT32, BFLOAT16 = _float32_block(_FEATURES), _bfloat16_block(_FEATURES)
SPLIT = replace(BFLOAT16, parts=3) if BFLOAT16 is not None and BFLOAT16.kind == "tiles" else None
"""The blocks of this processor; None where it has no fast instructions for one."""
SMALL_VECTORS = _small_block(_FEATURES)
"""The block for small products of float32 elements; plain loops compute it where there are no instructions for it."""
SMALL = SPLIT or SMALL_VECTORS
"""The block for the tiles of attention. Its rows are a multiple of those of SMALL_VECTORS, its columns the same."""
SMALL_BFLOAT16 = None if BFLOAT16 is None else replace(BFLOAT16, rows=SMALL.rows, columns=SMALL.columns)
"""The block for the tiles of attention in bfloat16, in the shape of SMALL; None where none are fast."""
