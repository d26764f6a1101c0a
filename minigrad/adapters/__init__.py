"""Low-rank adapters: modules that replace the layers of a frozen model and learn beside its matrices."""

from minigrad.adapters.low_rank import LowRankLinear, adapt, adapt_tokens, adapted, merge
from minigrad.adapters.token_rows import AdaptedEmbedding

__all__ = ["AdaptedEmbedding", "LowRankLinear", "adapt", "adapt_tokens", "adapted", "merge"]
