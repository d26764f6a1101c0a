"""Mixtures of experts: a feed-forward block that takes the place of one, its settings, and its load in the report."""

from minigrad.experts.mixture import Experts, active_parameters, mixtures

__all__ = ["Experts", "active_parameters", "mixtures"]
