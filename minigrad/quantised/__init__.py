"""Matrices in fewer bits: modules that replace the layers of a trained model, and their files."""

from minigrad.quantised import steps as steps  # their rules are registered when they are imported
from minigrad.quantised.layers import QuantisedEmbedding, QuantisedLinear, check_format, format_of, quantise

__all__ = ["QuantisedEmbedding", "QuantisedLinear", "check_format", "format_of", "quantise"]
