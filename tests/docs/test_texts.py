"""The command of docs/texts.md is understood, and its figures are those of the source."""

from __future__ import annotations

import re

import pytest

from minigrad.cli.parser import Parser
from minigrad.data import mixture, split, text_files
from minigrad.data.tokens import reading
from minigrad.training.settings import TrainConfig
from tests.source_files import ROOT
from tokenizer.text import added_tokens

PAGE = (ROOT / "docs/texts.md").read_text(encoding="utf-8")


def test_the_texts_of_the_command_have_the_shares_of_their_weights() -> None:
    (command,) = re.findall(r"^    python train\.py (.+)$", PAGE, re.MULTILINE)
    config, _ = Parser(TrainConfig, prog="", description="").read(command.split())
    assert mixture.parse_shares(config.data) == pytest.approx({"wiki.jsonl.gz": 0.7, "code": 0.2, "python-docs": 0.1})


def test_the_figures_are_those_of_the_source() -> None:
    for figure in (
        f"more than {text_files.LARGEST_DOCUMENT:,} characters is cut into chunks of about {text_files.CHUNK:,}",
        f"{reading.BLOCKS:,} blocks",
        f"at most {split.MOST_BYTES >> 20} MiB",
        f"more than {text_files._KEPT // 2**20} MB",
    ):
        assert figure in " ".join(PAGE.split())
    assert all(f"`{suffix}`" in PAGE for suffix in text_files.TEXT_SUFFIXES)


def test_the_usual_names_of_the_token_between_documents_are_those_of_the_source() -> None:
    for name in added_tokens.KNOWN_NAMES["eos_token"]:
        assert f"`{name}`" in PAGE
    assert "`--tokenizer vidya-v1`" in PAGE
