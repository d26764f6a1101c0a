"""The sizes of the parts of a text, and what of them is trained on nevertheless."""

from __future__ import annotations

from benchmarks.parts import rows
from minigrad.data.split import Parts

WORDS = "To be, or not to be: that is the question, whether 'tis nobler to suffer"


def test_a_run_of_words_is_found_whatever_stands_between_them() -> None:
    parts = Parts(["new", f"{WORDS} the slings"], (WORDS.lower().replace(",", ""),), ("x" * 60, "y" * 20))
    assert rows(parts) == {
        "training": ["2", "86", "36.4", "96.5", ""],
        "validation": ["1", "70", "29.7", "100.0", "100.000"],
        "test": ["2", "80", "33.9", "75.0", "0.000"],
    }
