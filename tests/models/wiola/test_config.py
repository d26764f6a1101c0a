"""Wiola's config: parameter counts, the released file, the layers that merge, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import models
from minigrad import InputError
from minigrad.formats.json_files import read_json
from models.wiola.config import CAUSAL, VARIANTS, WiolaConfig
from tests.models.wiola.tiny import build

COUNTS = {
    "120m": 147_297_804,
    "360m": 318_048_272,
    "700m": 1_068_518_424,
    "1.5b": 2_179_698_716,
    "120m-exact": 120_165_900,
    "360m-exact": 359_991_312,
    "700m-exact": 700_468_248,
    "1.5b-exact": 1_504_415_772,
}


@pytest.mark.parametrize("size", COUNTS)
def test_exact_counts(size: str) -> None:
    assert models.count("wiola", size) == COUNTS[size]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_heads": 3}, r"width \(80\) must be a multiple of num_heads \(3\)"),
        ({"num_heads": 4, "num_kv_heads": 3}, r"num_heads \(4\) must be a multiple of num_kv_heads \(3\)"),
        ({"width": 12, "num_heads": 4}, "must be even, because positions rotate pairs; it is 3"),
        ({"gcla_lookback": 0}, "gcla_lookback takes a whole number of at least 1 .*, not 0"),
        ({"atm_threshold": 1.5}, "atm_threshold takes a finite number of at least -1 and at most 1, not 1.5"),
        ({"atm": "averag"}, "atm takes one of off, first, avg_causal, kv_only, paper"),
        ({"atm": "paper", "atm_at_generation": True}, "atm_at_generation needs atm to be one of first"),
        ({"gqa_layout": "blocks"}, "gqa_layout takes one of block, interleaved"),
        ({"gcla_summary": "mean"}, "gcla_summary takes one of prefix, paper"),
    ],
)
def test_shapes_that_cannot_be_built_are_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        models.build("wiola", "nano", **fields)


def test_the_released_config_is_read(tmp_path: Path) -> None:
    """The released file lacks tie_word_embeddings and our own fields."""
    build("float32").save(tmp_path)
    config = read_json(tmp_path / "config.json")
    for key in ("tie_word_embeddings", "atm_variant", "atm_at_generation", "gcla_summary", "gqa_layout"):
        del config[key]
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    loaded = models.load(tmp_path)
    assert (loaded.config.tied_head, loaded.config.atm, loaded.config.gqa_layout) == (True, "first", "block")


@pytest.mark.parametrize(("layers", "merging"), [(1, []), (3, [1]), (6, [2, 3]), (16, [5, 6, 7, 8, 9])])
def test_the_middle_third_of_the_layers_merges(layers: int, merging: list[int]) -> None:
    assert WiolaConfig(num_layers=layers).merging_layers == merging
    assert WiolaConfig(num_layers=layers, atm="off").merging_layers == []


def test_every_variant_but_the_literal_one_is_causal() -> None:
    assert set(VARIANTS) - set(CAUSAL) == {"paper"}


def test_the_ids_of_the_released_tokenizer_are_written_and_read(tmp_path: Path) -> None:
    released = models.configure("wiola", "360m").published()
    assert [released[f"{role}_token_id"] for role in ("pad", "bos", "eos")] == [0, 1, 2]
    build("float32", end_of_text_id=5, begin_of_text_id=None, padding_id=3).save(tmp_path)
    for file in ("config.json", "generation_config.json"):
        ids = read_json(tmp_path / file)
        assert [ids[f"{role}_token_id"] for role in ("pad", "bos", "eos")] == [3, 5, 5]
    config: Any = models.load(tmp_path).config
    assert (config.end_of_text_id, config.begin_of_text_id, config.padding_id) == (5, None, 3)
