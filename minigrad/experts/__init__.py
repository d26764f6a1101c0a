"""Mixtures of experts: the layer that replaces a feed-forward block, its settings, and its load in the report."""

from minigrad.experts.mixture import Experts, mixtures

__all__ = ["Experts", "mixtures"]
