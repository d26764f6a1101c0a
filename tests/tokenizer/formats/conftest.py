"""The scripts of a page that holds a tokenizer, which tests run."""

from tests.javascript import run

__all__ = ["run"]
