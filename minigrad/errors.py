"""The errors a user can meet: each says what happened, with which shapes or values, and the way out."""

from __future__ import annotations


class InputError(ValueError):
    """Something the user gave cannot be used; the command lines print it and exit with 2."""


class RunError(RuntimeError):
    """Something failed while running, through no fault of the input; the command lines exit with 1."""


class ShapeError(InputError):
    """Two shapes do not fit together; the message carries both."""


class GraphError(RunError):
    """The recorded graph cannot be walked: already freed, or an array it saved was changed since."""
