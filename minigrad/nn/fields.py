"""The fields that the configs of several families have: their meaning, and bounds far above any published model.

A larger number is a typing error or damage, and costs no time.
"""

from __future__ import annotations

from typing import Any


def declared(help: str, **bounds: float) -> dict[str, Any]:
    """Return the rules of a field, for `option(default, **rules)`."""
    return {"help": help, **bounds}


VOCABULARY = declared("tokens in the vocabulary", at_least=1, at_most=1 << 24)
CONTEXT = declared("tokens of a sequence, at most", at_least=1, at_most=10**9)
LAYERS = declared("layers between embedding and last norm", at_least=1, at_most=10_000)
WIDTH = declared("elements per token in the residual stream", at_least=1, at_most=1 << 20)
INNER = declared("units of a feed-forward block", at_least=1, at_most=1 << 20)
HEADS = declared("query heads", at_least=1, at_most=1 << 16)
KV_HEADS = declared("key/value heads, each shared by num_heads / num_kv_heads query heads", at_least=1, at_most=1 << 16)
HEAD_DIM = declared("elements of a head; num_heads * head_dim need not equal width", at_least=1, at_most=1 << 16)
THETA = declared("base of the rotary frequencies", above=1, at_most=1e15)
EPS = declared("added to the variance or the mean square before the root", at_least=0, at_most=1)
STD = declared("initial standard deviation of matrices", at_least=0)
DROPOUT = declared("probability on the embedding and on the output of each block", at_least=0, below=1)
TIED = declared("whether the embedding is the head as well")
END_OF_TEXT = declared("the token between documents", at_least=0)
