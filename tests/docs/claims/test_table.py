"""The rows of claims.toml are complete, and what was measured is computed from records."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs.claims.table import DOCUMENTS, VERDICTS, read
from models import registry
from tests.pages.contrast import contrast
from tests.source_files import ROOT

CLAIMS = read()
WIOLA = ROOT / "tests" / "models" / "wiola"


def test_every_document_and_verdict_occurs_and_no_claim_twice() -> None:
    assert {claim.document for claim in CLAIMS} == set(DOCUMENTS)
    assert {claim.verdict for claim in CLAIMS} == set(VERDICTS)
    assert len({(claim.document, claim.says) for claim in CLAIMS}) == len(CLAIMS) > 100


def test_verdicts_can_be_read_on_light_and_dark_pages() -> None:
    style = (ROOT / "docs" / "static" / "course.css").read_text(encoding="utf-8")
    found = [dict(re.findall(r"--verdict-(\w+): (#\w+);", rules)) for rules in re.findall(r"{([^{}]*)}", style)]
    schemes = [colours for colours in found if colours]
    coloured = set(re.findall(r"\.verdict-(\w+) { color: var\(--verdict-", style))
    assert len(schemes) == 3
    assert schemes[1] == schemes[2]  # chosen, or followed from the system
    for paper, colours in zip(("#fff", "#131416"), schemes, strict=False):
        assert set(colours) == coloured == set(VERDICTS) - {"unproven"}
        assert all(contrast(paper, colour) >= 4.5 for colour in colours.values())


def test_the_page_explains_the_verdicts() -> None:
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    for verdict, meaning in VERDICTS.items():
        assert f"- **{verdict}**: {meaning}." in page
    for document in DOCUMENTS:
        assert f"```{{claims}} {document}\n" in page


def test_what_the_plan_of_a_run_corrects_is_among_them() -> None:
    computed = " ".join(claim.compute for claim in CLAIMS)
    assert [size for size in registry.CLAIMS if '"{}", "{}"'.format(*size) not in computed] == []


def test_what_was_measured_is_computed_from_records() -> None:
    assert not [claim.says for claim in CLAIMS if claim.verdict == "measured" and not claim.measured]
    assert len([claim for claim in CLAIMS if claim.measured]) > 25


PAPER = {  # how many of the 22 tests of the Wiola paper stand in a function
    "test_paper_table_ix.py": dict.fromkeys(
        re.findall(r"^def (test_\w+)", (WIOLA / "test_paper_table_ix.py").read_text("utf-8"), re.MULTILINE), 1
    ),
    "test_layers_norm.py": {
        "test_the_norm_keeps_the_shape": 1,
        "test_an_offset_changes_the_norm_and_an_offset_of_zero_is_rms_norm_bit_for_bit": 1,
        "test_large_values_do_not_overflow": 1,
    },
    "test_layers_spiral.py": {
        "test_rotated_rows_keep_their_shape_and_differ_between_positions": 2,
        "test_norms_are_preserved_with_a_constant_radius_and_not_with_an_oscillating_one": 1,
    },
    "test_layers_feed_forward.py": {"test_the_block_keeps_the_shape_and_a_fusion_of_zero_averages_the_streams": 2},
}


def test_the_tests_of_the_paper_are_there() -> None:
    for file, functions in PAPER.items():
        text = (WIOLA / file).read_text(encoding="utf-8")
        assert not [name for name in functions if f"def {name}(" not in text]
    counts = [sum(functions.values()) for functions in PAPER.values()]
    assert counts == [14, 3, 3, 2]
    (claim,) = [claim for claim in CLAIMS if claim.says == "All 22 unit tests pass"]
    assert "test_paper_table_ix.py has 14" in claim.why
    assert "the other 8" in claim.why
    assert all(file in claim.why for file in PAPER)


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ('document = "gpt2"\nsays = "a"\nverdict = "wrong"', "lacks right"),
        ('document = "gpt3"\nsays = "a"\nverdict = "wrong"\nright = "b"\nwhy = "c"', "the document 'gpt3'"),
        ('document = "gpt2"\nsays = "a"\nverdict = "wrong"\nright = "b"', "how its right value is known"),
        ('document = "gpt2"\nsays = "a"\nverdict = "wrong"\nright = "b"\ncompute = "1"', "compute and value"),
        ('document = "gpt2"\nsays = "a"\nverdict = "wrong"\nright = "b"\nreason = "c"', "unknown fields: reason"),
    ],
)
def test_a_row_that_is_not_complete_is_refused(row: str, words: str, tmp_path: Path) -> None:
    file = tmp_path / "claims.toml"
    file.write_text(f"[[claim]]\n{row}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=f"the claim 'a'.*{words}"):
        read(file)
