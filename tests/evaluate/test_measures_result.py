"""The result is a table that fits a terminal, and JSON that any program reads."""

from __future__ import annotations

import json
import math

from minigrad.evaluate.measures import Evaluation, LossSum, Words


def result(count: int, **changes) -> Evaluation:
    documents = [LossSum(f"document {number} \x07" + "x" * 40, 10, 30 + number, 40.0) for number in range(count)]
    fields = {
        "model": "vidya-v2 nano, 984,288 parameters, in runs/nano",
        "text": "text in a.txt",
        "reading": "each document alone",
        "whole": LossSum("text", 100, 300, 400.0),
        "words": Words(50, 10),
        "repeated": LossSum("", 25, 80, 50.0),
        "others": LossSum("", 75, 220, 350.0),
        "positions": [LossSum("1", 2, 6, 16.0), LossSum("2", 98, 294, 384.0)],
        "documents": documents,
    }
    return Evaluation(**fields | changes)


def test_the_table_has_every_figure_in_plain_words():
    lines = result(3).describe().split("\n")
    assert "text   text in a.txt: 3 documents, 300 bytes, 50 words, 100 tokens" in lines
    single = result(1, whole=LossSum("text", 1, 1, 4.0), words=Words(1, 1)).describe()
    assert "text   text in a.txt: 1 document, 1 byte, 1 word, 1 token\n" in single
    values = {line[:24].strip(): line[24:36].strip() for line in lines}
    assert values["bits per byte"] == f"{400 / 300 / math.log(2):.4f}"
    assert values["nats per token"] == "4.0000"
    assert values["perplexity per token"] == "54.60"
    assert values["perplexity per word"] == "2,980.96"
    assert values["with line ends as words"] == f"{math.exp(400 / 60):.2f}"
    assert values["repeated pairs"] == "2.0000"
    assert max(map(len, lines)) <= 108
    assert not any("\x07" in line for line in lines)


def test_of_many_documents_the_table_has_those_at_both_ends_and_json_has_all():
    text = result(12).describe()
    assert "... 2 more (--json has all) ..." in text
    shown = [number for number in range(12) if f"document {number} " in text]
    assert shown == [0, 1, 2, 3, 4, 7, 8, 9, 10, 11]
    assert text.index("document 11") < text.index("document 0 ")  # the best predicted first
    found = json.loads(json.dumps(result(12).as_dict(), allow_nan=False))
    assert [each["bytes"] for each in found["by_document"]] == list(range(30, 42))
    assert found["perplexity_per_token"] == math.exp(4)
    assert found["perplexity_per_word"] == math.exp(8)
    assert found["perplexity_per_word_with_line_ends"] == math.exp(400 / 60)
    assert "bits_per_byte_by_length" not in found


def test_what_is_not_a_number_is_left_out_of_the_table_and_null_in_json():
    lengths = {256: {"none": 1.5, "yarn": math.nan}, 512: {"none": 1.75, "yarn": 1.625}}
    found = result(1, lengths=lengths, repeated=LossSum("", 0, 0, 0.0), words=Words(0, 1))
    assert found.as_dict()["bits_per_byte_by_length"] == {
        "256": {"none": 1.5, "yarn": None},
        "512": {"none": 1.75, "yarn": 1.625},
    }
    assert found.as_dict()["loss_repeated"] is None
    assert found.as_dict()["perplexity_per_word"] is None
    assert found.describe().endswith(
        "      tokens      none      yarn\n         256    1.5000          \n         512    1.7500    1.6250"
    )


def test_a_document_without_bytes_is_the_last_of_the_table():
    documents = [LossSum(name, size, size, float(size)) for name, size in (("first", 4), ("empty", 0), ("other", 2))]
    lines = result(3, documents=documents).describe().split("\n")
    assert [line.split()[0] for line in lines[-3:]] == ["first", "other", "empty"]
