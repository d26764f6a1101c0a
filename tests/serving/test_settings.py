"""The settings of the server are checked where they are given."""

from __future__ import annotations

import pytest

from minigrad import InputError
from minigrad.cli.parser import Parser
from minigrad.serving.settings import ServeConfig

PARSER = Parser(ServeConfig, prog="serve", description="")


def test_several_folders_are_one_setting() -> None:
    config, _ = PARSER.read(["a", "b", "--texts", "3", "--allow-origin", "https://a", "--allow-origin", "https://b"])
    assert (config.runs, config.texts, config.allow_origin) == (("a", "b"), 3, ("https://a", "https://b"))
    config, _ = PARSER.read(["a", "--texts", "3", "b", "c"])  # in any order
    assert (config.runs, config.texts) == (("a", "b", "c"), 3)
    with pytest.raises(InputError, match="unknown flag --tokens"):
        PARSER.read(["a", "--tokens", "3", "b"])


def test_a_folder_that_is_given_twice_is_refused() -> None:
    with pytest.raises(InputError, match="given twice"):
        ServeConfig(runs=("a", "a")).check()


@pytest.mark.parametrize(
    "changes",
    [
        {"port": 65_536},
        {"texts": 0},
        {"seconds": 0.0},
        {"api_key": ""},
        {"api_key": "k "},
        {"api_key": "Schlüssel"},
        {"allow_origin": ("example.com",)},
        {"allow_origin": ("https://example.com/",)},
    ],
)
def test_values_out_of_bounds_are_refused(changes: dict[str, object]) -> None:
    with pytest.raises(InputError, match=next(iter(changes)).replace("_", ".")):
        ServeConfig(runs=("a",), **changes)
