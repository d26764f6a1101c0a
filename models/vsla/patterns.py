"""Attention patterns: which of the earlier tokens a query attends to, and the cache that they need.

* full: all of them. The cost grows with the square of the length.
* local: the newest `window` keys. The cost is linear in the length.
* sparse: the `top_k` keys of the highest scores. All scores are computed to find them; the rest is linear.
* pyramid: the near keys one by one, and all keys before them as the means of blocks of `block` keys, each with the
  weight of the keys that it stands for. Every earlier token is seen once, near or far. The near keys are the newest
  `window`, and the other keys of the block in which the window begins; so every far block is complete, and a query
  depends on nothing after itself.
* adaptive: the near keys of the pyramid; the far blocks too, if the attention to the near keys is spread out, which
  means that none of them is what the query looks for. Spread out is an entropy above the share `entropy` of its
  maximum, on average over the heads. The choice is made for each token by itself, from the tokens up to it.

A sixth is learned: see `LearnedPattern`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import DTypeLike

from minigrad import ops
from minigrad.autograd.graph import is_recording
from minigrad.autograd.observers import composite
from minigrad.autograd.tensor import Tensor
from minigrad.kernels.decoding.kept import Kept, keep_rows, widened_texts
from minigrad.kernels.decoding.program import Pattern
from minigrad.nn.cache import KeyValueCache
from minigrad.nn.layout import Layout
from minigrad.nn.module import Module
from minigrad.nn.parameter import Init, Parameter
from minigrad.ops.attention import relative_entropy
from minigrad.ops.joined_attention import SeenKeys
from minigrad.ops.visible_keys import causal_visible
from minigrad.pages.explain.attention import Probe, asks, of_plain_keys, unit_vectors
from minigrad.pages.explain.trace import Operation
from minigrad.programs.lower import attend
from minigrad.programs.trace import Recorder, Unknown, lowers
from minigrad.typing import Array
from models.vsla.operations.far_keys import SeenFarKeys, attention_with_far_keys, block_mean
from models.vsla.operations.sparse_attention import sparse_attention

PATTERNS = ("full", "local", "sparse", "pyramid", "adaptive")
LEARNED = "learned"
WITH_FAR_KEYS = ("pyramid", "adaptive", LEARNED)
CANDIDATES = ("full", "local", "sparse", "pyramid")


class FarKeys(NamedTuple):
    """The means of the complete blocks of keys and values; sequence s has rows ``ranges[s, 0]:ranges[s, 1]``."""

    keys: Tensor
    values: Tensor
    ranges: Array


@dataclass
class AttentionPattern:
    """The pattern of one layer, and after a pass of `adaptive` the share of its tokens that saw far keys."""

    kind: str
    window: int
    block: int
    top_k: int
    entropy: float
    far_share: float = math.nan

    @composite
    def attend(
        self,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        offsets: Array,
        key_ranges: Array | None = None,
        far: FarKeys | None = None,
    ) -> Tensor:
        """Attend from each row to the rows of its sequence up to itself that the pattern shows.

        With a cache, `k`, `v` and `key_ranges` are what it returned, and `far` what `PatternCache.far` returns.
        Shapes: q (rows, H, D), k and v (key rows, G, D), offsets (S + 1,), key_ranges (S, 2) -> (rows, H, D).
        """
        if self.kind == "full":
            return ops.attention(q, k, v, offsets=offsets, key_ranges=key_ranges)
        if self.kind == "sparse":
            return sparse_attention(q, k, v, offsets=offsets, key_ranges=key_ranges, top_k=self.top_k)
        ranges = np.stack([offsets[:-1], offsets[1:]], axis=1) if key_ranges is None else key_ranges
        visible = causal_visible(offsets, ranges)
        first = np.maximum(visible - self.window, 0)
        if self.kind == "local":
            return ops.attention(q, k, v, offsets=offsets, key_ranges=ranges, first_visible=first)
        far_visible = first // self.block
        first = far_visible * self.block
        if self.kind == "adaptive":
            entropy = relative_entropy(q.data, k.data, offsets=offsets, key_ranges=ranges, first_visible=first)
            far_visible = np.where(entropy > self.entropy, far_visible, 0)
            if is_recording() and far_visible.size:
                self.far_share = float((far_visible > 0).mean())
        far_k, far_v, far_ranges = self._far_keys(k, v, offsets) if far is None else far
        seen = SeenKeys(offsets, ranges, visible, first)
        seen_far = SeenFarKeys(far_ranges, far_visible, weight=float(self.block))
        return attention_with_far_keys(q, k, v, far_k, far_v, near=seen, far=seen_far)

    def _far_keys(self, k: Tensor, v: Tensor, offsets: Array) -> FarKeys:
        far_k, far_v = (block_mean(x, offsets=offsets, block=self.block) for x in (k, v))
        counts = np.diff(offsets) // self.block
        ends = np.cumsum(counts)
        return FarKeys(far_k, far_v, np.stack([ends - counts, ends], axis=1))

    def describe(self) -> str:
        """Say in a sentence which tokens the pattern lets a token attend to.

        >>> AttentionPattern("local", window=64, block=8, top_k=32, entropy=0.5).describe()
        'Pattern local: a token attends to the newest 64 tokens only.'
        """
        far = f"and to all tokens before them as the means of blocks of {self.block}"
        said = {
            "full": "to all tokens up to itself",
            "local": f"to the newest {self.window} tokens only",
            "sparse": f"in each head to the {self.top_k} tokens with the highest scores",
            "pyramid": f"to the newest {self.window} tokens or a few more, {far}",
            "adaptive": f"to the newest {self.window} tokens or a few more, {far} if its attention to the near ones is "
            "spread out",
        }
        return f"Pattern {self.kind}: a token attends {said[self.kind]}."

    def keys_per_token(self, context: float) -> float:
        """Return how many keys a token of a sequence of `context` tokens multiplies with on average, twice each.

        Once for the score, once with the value. Choosing takes the score only: half a key.
        """
        if self.kind == "full":
            return context / 2
        if self.kind == "sparse":
            return context / 4 + _mean_of_newest(self.top_k, context) / 2
        if self.kind == "local":
            return _mean_of_newest(self.window, context)
        near = _mean_of_newest(self.window + self.block // 2, context)
        far = (context / 2 - _mean_of_newest(self.window, context)) / self.block
        return near + far if self.kind == "pyramid" else 2 * near + far  # the entropy of the near ones first


@lowers(AttentionPattern.attend)
def _in_a_program(trace: Recorder, pattern: AttentionPattern, q: Unknown, *stored: Any) -> Unknown:
    """Attend to the stored keys that a pattern shows, in a step of decoding."""
    k, v, offsets, key_ranges, _ = stored
    shown = {
        "full": Pattern(),
        "sparse": Pattern(top_k=pattern.top_k),
        "local": Pattern(pattern.window),
        "pyramid": Pattern(pattern.window, pattern.block),
        "adaptive": Pattern(pattern.window, pattern.block, entropy=pattern.entropy),
    }
    return attend(trace, q, k, v, offsets=offsets, key_ranges=key_ranges, pattern=shown[pattern.kind])


asks("sparse_attention")(of_plain_keys)


@asks("attention_with_far_keys")
def _of_far_keys(operation: Operation) -> Probe:
    """Ask with the means of the questions to the keys of a block: so its weight is shared out evenly among them."""
    q, k, _, far_k, _ = operation.arrays
    offsets, block = operation.options["near"].offsets, round(operation.options["far"].weight)

    def ask(start: int) -> Tensor:
        values = unit_vectors(np.arange(len(k)), start, k)
        means = block_mean(values, offsets=offsets, block=block)
        return attention_with_far_keys(q, k, values, far_k, means, **operation.options)

    return ask, len(k)


def _mean_of_newest(count: int, context: float) -> float:
    """Return the mean of min(t, count) over the positions t up to `context`."""
    return context / 2 if count >= context else count - count * count / (2 * context)


class LearnedPattern(Module):
    """The learned pattern of one layer: each head learns in which of the fixed patterns it attends.

    The head attends in all of them, and mixes the results by shares, the softmax of a few numbers that training
    changes like any weight: a search among patterns by gradients, as Liu et al. 2019, "DARTS", arXiv 1806.09055,
    search among operations. It costs as much as all candidates together, so it is for finding a cheaper list of
    patterns, which a new model then has from the start.
    """

    kind = LEARNED

    def __init__(self, num_heads: int, window: int, block: int, top_k: int) -> None:
        self.block, self.num_heads = block, num_heads
        self.candidates = tuple(AttentionPattern(kind, window, block, top_k, entropy=0.0) for kind in CANDIDATES)
        self.logits = Parameter((num_heads * len(CANDIDATES),), Init())  # one row: no matrix to turn or to decay

    def shares(self) -> Tensor:
        """Return the share of each candidate in each head (H, 4)."""
        return ops.softmax(self.logits.reshape(self.num_heads, len(CANDIDATES)))

    def attend(self, *arguments: Any) -> Tensor:
        """Attend as `AttentionPattern.attend` does, in every candidate, and mix the results by the shares."""
        shares, results = self.shares(), [each.attend(*arguments) for each in self.candidates]
        mixed = results[0] * shares[:, 0].reshape(1, self.num_heads, 1)
        for number, result in enumerate(results[1:], start=1):
            mixed = mixed + result * shares[:, number].reshape(1, self.num_heads, 1)
        return mixed

    def keys_per_token(self, context: float) -> float:
        """Return how many keys a token multiplies with on average: those of all candidates together."""
        return sum(each.keys_per_token(context) for each in self.candidates)


class PatternCache(KeyValueCache):
    """The keys and values of every layer, and the means of their complete blocks in the layers with far keys.

    Shapes: far_keys and far_values (layers, batch, blocks, G, D).
    """

    in_rows = (*KeyValueCache.in_rows, "far_keys", "far_values")

    def __init__(
        self,
        patterns: Sequence[AttentionPattern | LearnedPattern],
        batch_size: int,
        max_length: int,
        num_kv_heads: int,
        head_dim: int,
        dtype: DTypeLike = "float32",
    ) -> None:
        super().__init__(len(patterns), batch_size, max_length, num_kv_heads, head_dim, dtype)
        self.blocks = {n: pattern.block for n, pattern in enumerate(patterns) if pattern.kind in WITH_FAR_KEYS}
        most = max((max_length // block for block in self.blocks.values()), default=0)
        shape = (len(patterns), batch_size, most, num_kv_heads, head_dim)
        self.far_keys, self.far_values = np.zeros(shape, dtype), np.zeros(shape, dtype)

    @property
    def kind(self) -> tuple[Any, ...]:
        """What caches of one model have in common, with the sizes of blocks."""
        return *super().kind, self.blocks

    def beside(self) -> dict[str, Array]:
        """Return the means of blocks."""
        return {"far_keys": self.far_keys, "far_values": self.far_values}

    def append(self, layer: int, k: Tensor, v: Tensor, offsets: Array) -> tuple[Tensor, Tensor, Array]:
        """Store the new keys and values of one layer, and the means of the blocks that they complete."""
        keys, values, ranges = super().append(layer, k, v, offsets)
        if layer in self.blocks:
            block = self.blocks[layer]
            first, last = self.lengths // block, (self.lengths + np.diff(offsets)) // block
            if (first == last).all():
                return keys, values, ranges
            sequences, done = np.repeat(np.arange(self.batch_size), last - first), Layout.packed(last - first, first)
            rows = ranges[sequences, :1] + done.positions[:, None] * block + np.arange(block)
            numbers = (layer * self.batch_size + sequences) * self.far_keys.shape[2] + done.positions
            for means, memory in ((self.far_keys, self.keys), (self.far_values, self.values)):
                in_blocks = self.rows(layer, memory, offsets)[rows]  # (blocks, block, G, D)
                mean = in_blocks.sum(axis=1) * in_blocks.dtype.type(1 / block)
                keep_rows(mean, Kept.of(means), numbers, numbers)
        return keys, values, ranges

    def far(self, layer: int, key_ranges: Array) -> FarKeys | None:
        """Return the means of the complete blocks of a layer, if it has far keys; `append` returned `key_ranges`."""
        if layer not in self.blocks:
            return None
        counts = (key_ranges[:, 1] - key_ranges[:, 0]) // self.blocks[layer]
        far = self.far_keys, self.far_values
        if self.format == "float32":
            flat = [means[layer].reshape(-1, *means.shape[3:]) for means in far]
            first = np.arange(self.batch_size) * self.far_keys.shape[2]
        else:
            flat = [widened_texts(Kept.of(means), layer, counts, self.dtype) for means in far]
            first = np.cumsum(counts) - counts
        return FarKeys(Tensor(flat[0]), Tensor(flat[1]), np.stack([first, first + counts], axis=1))
