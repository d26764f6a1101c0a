"""The fields that the configs of several families have: their meaning, and bounds far above any published model.

A larger number is a typing error or damage, and costs no time.
"""

from __future__ import annotations

from typing import Any

Rules = dict[str, Any]  # of a field, as in option(default, **rules)

VOCABULARY = Rules(help="tokens in the vocabulary", at_least=1, at_most=1 << 24)
CONTEXT = Rules(help="tokens of a sequence, at most", at_least=1, at_most=10**9)
LAYERS = Rules(help="layers between embedding and last norm", at_least=1, at_most=10_000)
WIDTH = Rules(help="elements per token in the residual stream", at_least=1, at_most=1 << 20)
INNER = Rules(help="units of a feed-forward block", at_least=1, at_most=1 << 20)
HEADS = Rules(help="query heads", at_least=1, at_most=1 << 16)
KV_HEADS = Rules(help="key/value heads; each serves num_heads / num_kv_heads query heads", at_least=1, at_most=1 << 16)
HEAD_DIM = Rules(help="elements of a head; num_heads * head_dim need not equal width", at_least=1, at_most=1 << 16)
THETA = Rules(help="base of the rotary frequencies", above=1, at_most=1e15)
EPS = Rules(help="added to the variance or the mean square before the root", at_least=0, at_most=1)
STD = Rules(help="initial standard deviation of matrices", at_least=0)
DROPOUT = Rules(help="probability on the embedding and on the output of each block", at_least=0, below=1)
TIED = Rules(help="whether the embedding is the head as well")
BEGIN_OF_TEXT = Rules(help="the token that begins a document; none: that between documents", at_least=0)
END_OF_TEXT = Rules(help="the token between documents", at_least=0)
