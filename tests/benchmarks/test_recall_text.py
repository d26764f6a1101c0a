"""In the text for recall, only what a document itself says predicts a value that is asked."""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import recall_text
from minigrad.data.tokens.batches import Batch
from minigrad.evaluate.losses import completes_a_pair

PAIRS = 16


def pairs_of(text: str) -> list[tuple[str, str]]:
    words = text.split()
    return list(zip(words[::2], words[1::2], strict=True))


def test_each_pair_is_told_once_and_asked_once_and_documents_share_none_but_by_chance() -> None:
    told, orders = list[set[tuple[str, str]]](), 0
    for text in recall_text.documents(200, PAIRS):
        pairs = pairs_of(text)
        half = len(pairs) // 2
        assert len({key for key, _ in pairs[:half]}) == half
        assert sorted(pairs[half:]) == sorted(pairs[:half])
        orders += pairs[half:] != pairs[:half]
        told.append(set(pairs[:half]))
    assert {len(pairs) for pairs in told} == set(range(1, PAIRS + 1))
    assert orders > 150
    shared = [len(a & b) / (len(a) * len(b)) for a, b in itertools.combinations(told, 2)]
    assert np.mean(shared) < 2 / (len(recall_text.KEYS) * len(recall_text.VALUES))  # twice what chance gives


def test_most_repeated_pairs_are_values_that_are_asked() -> None:
    asked = by_chance = 0
    for text in recall_text.documents(200, PAIRS):
        numbers = {word: number for number, word in enumerate(sorted(set(text.split())))}
        ids = [numbers[word] for word in text.split()]
        repeated, half = completes_a_pair(Batch.rectangular([ids[:-1]], [ids[1:]])), len(ids) // 2
        assert repeated[half::2].all()  # from a key that is asked to its value
        asked, by_chance = asked + half // 2, by_chance + int(repeated[1::2].sum())
        assert not repeated[:half:2].any()
    assert 0 < by_chance < asked / 8
    assert by_chance > asked / 12


def test_the_same_command_writes_the_same_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("a", "b"):
        monkeypatch.setattr(sys, "argv", ["recall_text.py", str(tmp_path / name), "--documents", "9", "--pairs", "2"])
        recall_text.main()
    lines = (tmp_path / "a").read_text(encoding="utf-8").splitlines()
    assert (tmp_path / "b").read_text(encoding="utf-8").splitlines() == lines
    assert {len(json.loads(line)["text"].split()) for line in lines} == {4, 8}
    for words in (["c", "--pairs", "65"], ["c", "--documents", "0"], ["."], ["a/b"]):
        monkeypatch.setattr(sys, "argv", ["recall_text.py", str(tmp_path / words[0]), *words[1:]])
        with pytest.raises(SystemExit, match="2"):
            recall_text.main()
    assert not (tmp_path / "c").exists()
