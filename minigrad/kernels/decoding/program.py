"""The program of a pass over one token of each text: a table of steps, which one loop carries out in order.

A step reads and writes registers: parts of a row of memory that each text has. Addresses, places and sizes are whole
numbers, so a step is a row of such numbers, whatever the model.
"""

from __future__ import annotations

from typing import NamedTuple

from minigrad.kernels.decoding.kept import Kept
from minigrad.typing import Array

EMBED, RMS_NORM, OFFSET_RMS_NORM, LAYER_NORM, LINEAR, ROTATE, STORE, ATTEND = range(8)
GELU, EXACT_GELU, SWIGLU, SIGMOID_GATE, ADD, SUMMARISE, ATTEND_TO_FEW, BLEND, JOIN = range(8, 17)
"""What a step does; see `minigrad.kernels.decoding.machine`."""


class Step(NamedTuple):
    """One step, as a row of the table."""

    code: int
    source: int = 0  # the first element of the register that is read
    target: int = 0  # the first element of the register that is written
    inputs: int = 0  # elements that are read for each element of an output, or altogether
    outputs: int = 0
    weight: int = 0  # the address of a matrix (outputs, inputs), of a table, or of the weights of a norm
    bias: int = 0  # the address of a bias, or of the offset of a norm; 0: there is none
    adds: int = 0  # 1: the result is added to the target; of an embedding: 1 if it is that of the position;
    # of a key: 1 if half of it is stored with the next token
    layer: int = 0
    waits: int = 0  # 1: threads wait for each other before this step, because it uses what others wrote
    format: int = 0  # of the lines of the matrix or table; see `minigrad.kernels.codegen.line_products`
    scales: int = 0  # the address of the scales of its lines or groups


class Pattern(NamedTuple):
    """Which of the stored keys an attention step sees; by default all of them."""

    window: int = 0  # only this many of the newest keys, one by one; 0: all
    block: int = 0  # of the keys before those, the means of blocks of this many; 0: none
    top_k: int = 0  # only this many keys with the highest scores; 0: all
    entropy: float = -1  # means only if the relative entropy of the attention to the newest keys is above this


class Heads(NamedTuple):
    """The heads of all attention steps, the pattern of each layer, and the angles of all positions."""

    num_heads: int
    kv_heads: int
    size: int
    patterns: Array  # (layers, 4) float64: a `Pattern` in each row
    cosine: Array  # (positions, size / 2); no rows where a model has no rotary positions
    sine: Array
    interleaved: bool


class Texts(NamedTuple):
    """What the pass reads of each text, and where its keys and values are stored."""

    tokens: Array  # (B,) int64
    lengths: Array  # (B,) int64: the tokens before this one, so the position of this one
    places: Array  # (B,) int64: the text's number among the texts in the cache
    keys: Kept
    values: Kept
    far_keys: Kept  # the means of blocks of keys, if there are any
    far_values: Kept
    sums: Array  # (layers, stored texts, width) float64: running sums of the outputs of layers, if there are any


class Share(NamedTuple):
    """Which of the threads this is."""

    number: int
    threads: int
