from __future__ import annotations

import numpy as np
import pytest

from minigrad.data.tokens.token_files import TokenFile, TokenMixture
from minigrad.training.folder.record import Record
from minigrad.training.folder.run_folder import difference

FOUND = {"text": "one", "validation_text": "two", "test_text": "three", "lessons": "", "base": ""}


@pytest.mark.parametrize(("part", "text"), [("validation", "words.txt"), ("test", "words.txt"), ("test", "other.txt")])
def test_a_part_that_is_held_out_is_compared_even_if_the_text_to_train_on_is_the_same(part: str, text: str) -> None:
    held_out = None if text == "words.txt" else text
    record = Record(data="words.txt", settings={"held_out": held_out}, **FOUND)
    assert difference(record, FOUND) == ""
    assert difference(record, FOUND | {f"{part}_text": "another"}) == f"the {part} text of {text}"
    assert difference(record, FOUND | {f"{part}_text": ""}) == f"the {part} text of {text}"


def test_other_tokens_may_be_of_another_text_another_tokenizer_or_another_version() -> None:
    changed = difference(Record(data="words.txt", **FOUND), FOUND | {"text": "another"})
    assert changed == "the text of words.txt, the tokenizer, or the way in which minigrad encodes the text,"


def test_a_run_from_before_a_part_was_recorded_continues() -> None:
    record = Record(data="words.txt", **FOUND | {"validation_text": "", "test_text": ""})
    assert difference(record, FOUND) == ""


def test_the_fingerprint_of_a_mixture_changes_with_each_of_its_texts() -> None:
    def found(*rows: list[int]) -> str:
        files = tuple(TokenFile(np.array(row, np.uint16), 9, "") for row in rows)
        return TokenMixture(files, (0.5, 0.5)).digest

    assert len({found([1, 2], [3]), found([1, 9], [3]), found([1, 2], [9])}) == 3
