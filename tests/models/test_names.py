"""The names of families and sizes are those of the registry, and known without NumPy."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

import models
from minigrad.errors import InputError
from models import names
from tests.source_files import ROOT


def test_the_names_are_those_of_the_models() -> None:
    assert {name: tuple(family.sizes) for name, family in models.FAMILIES.items()} == names.SIZES


def test_the_guide_lists_every_published_size() -> None:
    guide = (ROOT / "docs" / "designs.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (`.+`) \| `.+` \| [\d,]+ \|$", guide, flags=re.MULTILINE)
    listed = {family: tuple(re.findall(r"`([^`]+)`", sizes)) for family, sizes in rows}
    own = {*names.LAPTOP_SIZES, *names.EARLIER_SIZES}
    assert listed == {family: tuple(size for size in sizes if size not in own) for family, sizes in names.SIZES.items()}


@pytest.mark.parametrize("family", names.SIZES)
def test_the_fields_are_those_of_the_config(family: str) -> None:
    config = models.FAMILIES[family].config
    names.check_fields(family, [field.name for field in dataclasses.fields(config)])
    with pytest.raises(InputError) as early:
        names.check_fields(family, ["num_layers", "num_layesr"])
    with pytest.raises(InputError) as late:
        models.configure(family, num_layesr=2)
    assert str(early.value) == str(late.value)


def test_the_package_lists_and_has_what_it_imports_when_it_is_used() -> None:
    assert set(models.__all__) <= set(dir(models))
    assert all(getattr(models, name) is not None for name in models.__all__)
    with pytest.raises(AttributeError, match="module 'models' has no attribute 'biuld'"):
        models.biuld  # noqa: B018


def test_a_name_is_checked_without_numpy() -> None:
    script = "import sys, models; models.ladder('vidya-v2', 'auto'); assert not {'numpy', 'numba'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", script], cwd=Path(__file__).parents[2], check=True)


@pytest.mark.parametrize(
    ("family", "size", "message"),
    [
        ("gtp2", "auto", "unknown model 'gtp2'; did you mean 'gpt2'?"),
        ("gpt2", "nanno", "unknown size of gpt2 'nanno'; did you mean 'nano'? Known: auto, nano, micro"),
        ("gpt2", "2.0", "unknown size of gpt2 '2.0'"),
    ],
)
def test_an_unknown_name_gets_the_closest(family: str, size: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        names.ladder(family, size)
    assert str(caught.value).startswith(message)
