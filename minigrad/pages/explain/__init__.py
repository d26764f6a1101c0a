"""A look inside: what a model computed while it read or wrote one text, as numbers and as a page.

`trace` notes what passes through the layers; from it come the `predictions` at each place, the `logit_lens` and the
`attention_weights`. The `head_atlas` says where each head of a model looks, whatever the text. `explain` shows all of
them on a page.
"""

from minigrad.pages.explain.atlas import draw_atlas, head_atlas
from minigrad.pages.explain.attention import attention_weights
from minigrad.pages.explain.lens import logit_lens
from minigrad.pages.explain.page import explain
from minigrad.pages.explain.prediction import predictions
from minigrad.pages.explain.trace import trace

__all__ = ["attention_weights", "draw_atlas", "explain", "head_atlas", "logit_lens", "predictions", "trace"]
