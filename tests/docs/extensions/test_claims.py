"""The page of claims shows each with its verdict, its right value and how to check it."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from docs.claims.table import read
from tests.docs.extensions.test_annotate import build

pytestmark = [pytest.mark.docs, pytest.mark.filterwarnings("default")]


def test_every_claim_of_a_document_is_shown(tmp_path: Path) -> None:
    code, page = build(tmp_path, "```{claims} vidya\n```\n")
    claims = [claim for claim in read() if claim.document == "vidya"]
    assert page.count('class="verdict ') == len(claims)
    text = html.unescape(page)
    assert all(claim.right_value in text for claim in claims)
    assert 'models.count("vidya-v2", "2.0")' in "".join(text.replace("</span>", "").split('<span class="pre">'))
    assert "python benchmarks/vidya_changes.py --steps 600 --seeds 0 1 2" in re.sub("<[^>]+>", "", text)
    assert code == 0


def test_a_document_without_claims_breaks_the_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _ = build(tmp_path, "```{claims} gpt3\n```\n")
    assert code != 0
    assert "gpt3" in capsys.readouterr().err
