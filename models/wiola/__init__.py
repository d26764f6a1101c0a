"""The Wiola family: spiral positions, attention across layers, token merging, two feed-forward streams.

"The Wiola architecture for efficient small language models", arXiv 2607.01394.
"""

from models.wiola import steps  # noqa: F401  (the rules of its operations)
from models.wiola.config import SIZES, WiolaConfig
from models.wiola.model import Wiola

__all__ = ["SIZES", "Wiola", "WiolaConfig"]
