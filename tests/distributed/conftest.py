"""The fixtures of several processes."""

from tests.hand_built_runs import make

__all__ = ["make"]
