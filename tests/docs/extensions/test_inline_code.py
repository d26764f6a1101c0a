"""A word of code stays on one line, unless it would be wider than a telephone; then it is divided at its joints."""

from __future__ import annotations

import re

import pytest

from tests.source_files import ROOT

pytestmark = [pytest.mark.docs, pytest.mark.filterwarnings("default")]


@pytest.mark.parametrize(
    ("code", "pieces"),
    [
        ("--a-very-long-option-with-many-hyphens-in-it", ["--a-very-long-option-with-many-hyphens-in-it"]),
        ("train.py --data python-docs --model vidya-v2", ["train.py --data python-docs --model vidya-v2"]),
        (
            "see minigrad.nn.feed_forward.SwiGLUFeedForward here",
            ["see minigrad", ".nn", ".feed", "_forward", ".Swi", "GLUFeed", "Forward here"],
        ),
        (
            "minigrad/kernels/attention/tile_gradients.py",
            ["minigrad/", "kernels/", "attention/", "tile", "_gradients.py"],
        ),
        (
            "minigrad/distributed/communication/__init__.py",
            ["minigrad/", "distributed/", "communication/", "__init__.py"],
        ),
    ],
)
def test_only_long_words_are_divided_and_at_their_joints(code: str, pieces: list[str]) -> None:
    from docs.extensions.inline_code import LONGEST, divided

    assert divided(code, LONGEST) == pieces


def test_lines_may_end_between_the_pieces_and_what_has_no_joint_gets_the_class() -> None:
    from docutils import frontend, nodes, utils

    from docs.extensions.inline_code import LONGEST, LongWords

    document = utils.new_document("page", frontend.get_default_settings())
    whole = ["--top-k", "a" * LONGEST, "a " * LONGEST]
    long = ["a" * (LONGEST + 1), f"--out {'a' * 99}"]
    path = "minigrad/training/tokens.py"
    document += [nodes.literal("", text) for text in [*whole, *long, path]]
    document += nodes.title("", "", nodes.literal("", path))
    LongWords(document).run()
    codes = list(document.findall(nodes.literal))
    assert [each["classes"] for each in codes] == [[]] * len(whole) + [["long"]] * len(long) + [[], []]
    assert [len(list(each.findall(nodes.raw))) for each in codes] == [0] * 6 + [2]  # a heading has larger letters
    assert [each.astext() for each in codes[-1].findall(nodes.Text)] == [
        "minigrad/",
        "<wbr>",
        "training/",
        "<wbr>",
        "tokens.py",
    ]


def test_the_style_excepts_that_class() -> None:
    style = (ROOT / "docs" / "static" / "course.css").read_text(encoding="utf-8")
    assert re.search(r"code:not\(\.long\) \.pre \{ white-space: nowrap; \}", style)
