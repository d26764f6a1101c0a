"""The VSLA family: GPT-2 with a pattern of attention for each layer, on sequences of any lengths."""

from models.vsla.config import SIZES, VSLAConfig
from models.vsla.model import VSLA

__all__ = ["SIZES", "VSLA", "VSLAConfig"]
