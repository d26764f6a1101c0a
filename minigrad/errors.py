"""The errors that a user can cause: each message says what happened, with which shapes or values, and what to do."""

from __future__ import annotations


class InputError(ValueError):
    """The input cannot be used; the command lines print the message and exit with 2."""


class RunError(RuntimeError):
    """A failure that the input did not cause; the command lines print the message and exit with 1."""


class DivergenceError(RunError):
    """Training diverged: a loss, a gradient or weights are not finite."""


class ShapeError(InputError):
    """Two shapes do not fit together; the message holds both."""


class GraphError(RunError):
    """The backward pass is impossible: the graph was freed, or an array that it saved was changed."""
