"""The rows of claims.toml are complete, and figures measured elsewhere stand where they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.claims.table import DOCUMENTS, VERDICTS, Claim, read
from models import claims
from tests.source_files import ROOT

CLAIMS = read()


def test_every_document_and_verdict_occurs_and_no_claim_twice() -> None:
    assert {claim.document for claim in CLAIMS} == set(DOCUMENTS)
    assert {claim.verdict for claim in CLAIMS} == set(VERDICTS)
    assert len({(claim.document, claim.says) for claim in CLAIMS}) == len(CLAIMS) > 100


def test_the_page_explains_the_verdicts() -> None:
    page = (ROOT / "docs" / "claims.md").read_text(encoding="utf-8")
    for verdict, meaning in VERDICTS.items():
        assert f"- **{verdict}**: {meaning}." in page
    for document in DOCUMENTS:
        assert f"```{{claims}} {document}\n" in page


def test_what_the_plan_of_a_run_corrects_is_among_them() -> None:
    computed = " ".join(claim.compute for claim in CLAIMS)
    assert [size for size in claims.CLAIMS if '"{}", "{}"'.format(*size) not in computed] == []


@pytest.mark.parametrize("claim", [claim for claim in CLAIMS if claim.found], ids=lambda claim: claim.says)
def test_a_measurement_is_on_its_page(claim: Claim) -> None:
    assert " ".join(claim.found.split()) in " ".join((ROOT / claim.page).read_text(encoding="utf-8").split())
    assert (ROOT / claim.script).is_file()


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
