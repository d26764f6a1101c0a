"""JSON files: one object, in standard JSON."""

from __future__ import annotations

from pathlib import Path

import pytest

from minigrad.errors import InputError
from minigrad.formats.json_files import read_json, write_json

DTYPES = ["float32", "float64", "int64", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool"]


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refusal(function, *arguments) -> str:
    with pytest.raises(InputError) as caught:
        function(*arguments)
    return str(caught.value)


def test_json_that_other_programs_could_not_read_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "file", {"loss": float("nan")})
    assert names(tmp_path) == []


@pytest.mark.parametrize(("content", "message"), [("{", "damaged or not JSON"), ("[1]", "holds no JSON object")])
def test_json_that_is_not_an_object_is_refused(tmp_path, content, message):
    (tmp_path / "file").write_text(content)
    assert message in refusal(read_json, tmp_path / "file")
    assert "cannot read" in refusal(read_json, tmp_path / "nowhere")
