"""Packed documents or windows that cross them: which way of reading a text teaches more from equally many tokens?

Runs are evaluated in both ways: each document alone, and in windows of the whole validation text. All tokens are
predicted in both, so the figures can be compared.

    python train.py --size nano --steps 600 --seed 0 --documents packed --out runs/packed-0       (and windows)
    python benchmarks/documents_or_windows.py runs/packed-0 runs/windows-0
    python benchmarks/documents_or_windows.py --write-short short.jsonl    python-docs as short documents, for --data
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

import models
import tokenizer
from minigrad.data import corpus, mixture
from minigrad.data.tokens import reading
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.evaluate.losses import evaluate
from minigrad.training.folder.record import Record

SHORTEST = 250  # characters of a short document, unless it is the rest of a longer one


def measure(folder: Path) -> dict[str, float]:
    """Return the bits per byte of validation text of a run, in both ways."""
    model, record = models.load(folder), Record.read(folder)
    source = mixture.load(record.data, held_out=record.used.get("held_out"))
    text, context = TokenizedCorpus.of(source, tokenizer.load(folder)), record.used["context"]
    spans = {way: reading.spans(way, text.validation, context) for way in ("packed", "windows")}
    return {way: evaluate(model, spans[way], text.byte_lengths, context=context).bits_per_byte for way in spans}


def short_documents(documents: Iterable[str]) -> Iterator[str]:
    """Yield the documents in parts of whole paragraphs, each of at least `SHORTEST` characters but the last.

    >>> [len(part) for part in short_documents([("word " * 30 + "\\n\\n") * 5])]
    [302, 302, 152]
    """
    for document in documents:
        part = ""
        for paragraph in document.split("\n\n"):
            part = f"{part}\n\n{paragraph}" if part else paragraph
            if len(part) >= SHORTEST:
                yield part
                part = ""
        if part.strip():
            yield part


def main() -> None:
    """Print a line for each run folder, and JSON; or write a text."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", type=Path, nargs="*")
    parser.add_argument("--write-short", type=Path)
    asked = parser.parse_args()
    if asked.write_short:
        lines = (json.dumps({"text": part}) for part in short_documents(corpus.load("python-docs").documents))
        asked.write_short.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found: dict[str, Any] = {str(run): measure(run) for run in asked.runs}
    for run, scores in found.items():
        print(f"{run}: {scores['packed']:.4f} bits per byte by document, {scores['windows']:.4f} in windows")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
