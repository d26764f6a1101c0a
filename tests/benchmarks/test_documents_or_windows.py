"""Short documents are the same text, in parts of whole paragraphs."""

from __future__ import annotations

from benchmarks.documents_or_windows import SHORTEST, short_documents


def test_short_documents_are_whole_paragraphs_and_no_text_is_lost() -> None:
    documents = ["\n\n".join("word " * n for n in (9, 70, 3, 3, 80, 2)), "brief", "a\n\nb"]
    parts = list(short_documents(documents))
    assert "\n\n".join(parts) == "\n\n".join(documents)
    assert parts[-2:] == ["brief", "a\n\nb"]
    assert all(len(part) >= SHORTEST for part in parts[:2])
