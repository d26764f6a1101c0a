"""The VSLA family: GPT-2 with a pattern of attention for each layer, on sequences of any lengths.

`variable` is a study of the algebra that its library of 2025 claims.
"""

from models.vsla.config import SIZES, VSLAConfig
from models.vsla.model import VSLA

__all__ = ["SIZES", "VSLA", "VSLAConfig"]
