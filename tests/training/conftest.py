"""The fixtures of training."""

from tests.hand_built_runs import make

__all__ = ["make"]
