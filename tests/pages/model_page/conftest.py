"""The scripts of the page with the model, which tests run."""

from tests.javascript import run

__all__ = ["run"]
