"""Quantised folders: written and opened as they were, and refused where their format is another one."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

import models
from minigrad import InputError
from minigrad.formats.gguf.network import read_network
from minigrad.formats.safetensors import read_tensors, save_tensors
from minigrad.kernels.decoding.lines import CODES
from minigrad.nn.module import arrays_of
from minigrad.quantised import format_of, quantise
from tests.models.tiny import build, tokens


def changed(folder: Path, **entry: object) -> Path:
    path = folder / "config.json"
    values = json.loads(path.read_text("utf-8"))
    values["quantization_config"] |= entry
    path.write_text(json.dumps(values), "utf-8")
    return folder


@pytest.mark.parametrize("format", CODES)
def test_a_quantised_model_is_saved_and_opened_as_it_is(format: str, tmp_path: Path) -> None:
    model = build("gpt2").eval()
    model.save(tmp_path / "floats")
    quantise(model, format)
    model.save(tmp_path / "small")
    opened = models.load(tmp_path / "small")
    rounded = models.load(tmp_path / "floats", quantize=format)
    assert format_of(opened) == format_of(rounded) == format
    ids, expected = tokens(0, 2, 9), model(tokens(0, 2, 9)).data
    for other in (opened, rounded):
        np.testing.assert_array_equal(other.eval()(ids).data, expected)
        assert other.state_dict().keys() == model.state_dict().keys()


@pytest.mark.parametrize("format", ["float16", "bfloat16"])
def test_a_stored_copy_of_the_tied_head_must_equal_it(format: str, tmp_path: Path) -> None:
    model = build("vidya-v2").eval()
    quantise(model, format)
    model.save(tmp_path)
    arrays = arrays_of(model)
    copy = arrays["model.embed_tokens.weight"].copy()
    save_tensors(tmp_path / "model.safetensors", arrays | {"lm_head.weight": copy})
    ids = tokens(0, 2, 9)
    np.testing.assert_array_equal(models.load(tmp_path).eval()(ids).data, model(ids).data)
    copy[3, 1] += 1
    save_tensors(tmp_path / "model.safetensors", arrays | {"lm_head.weight": copy})
    with pytest.raises(InputError, match=r"lm_head\.weight of their own, .*json says that it is model\.embed_tokens"):
        models.load(tmp_path)
    save_tensors(tmp_path / "model.safetensors", {"stray": copy})
    with pytest.raises(InputError, match=f"^{re.escape(str(tmp_path))}: the weights do not fit the model: missing"):
        models.load(tmp_path)


def test_weights_that_a_format_cannot_hold_are_named(tmp_path: Path) -> None:
    model, name = build("gpt2"), "h.1.attn.c_attn.weight"
    dict(model.named_parameters())[name].data[3, 1] = 7e4
    model.save(tmp_path)
    message = rf"^{re.escape(name)}: weights that are not finite, or above 65504, do not fit float16$"
    with pytest.raises(InputError, match=message):
        models.load(tmp_path, quantize="float16")
    with pytest.raises(InputError, match=message):
        quantise(model, "float16")


def test_a_quantised_folder_is_smaller(tmp_path: Path) -> None:
    sizes = {}
    for format in (None, *CODES):
        folder = tmp_path / str(format)
        model = models.build("gpt2", size="nano")
        if format is not None:
            quantise(model, format)
        model.save(folder)
        sizes[format] = (folder / "model.safetensors").stat().st_size / model.num_parameters()
    assert sizes[None] > 3.9
    assert max(sizes["float16"], sizes["bfloat16"]) < 2.1
    assert sizes["int8"] < 1.2
    assert sizes["int4"] < 0.7


def test_an_unknown_format_is_refused_with_what_to_do(tmp_path: Path) -> None:
    model = build("vidya-v2")
    quantise(model, "int8")
    model.save(tmp_path)
    for entry, message in (
        ({"version": 2}, "reads version 1"),
        ({"version": 1, "format": "int3"}, "unknown format of weights 'int3'; did you mean 'int8'"),
        ({"format": "int4"}, "do not fit the model"),
        ({"format": 8}, "takes text, not 8"),
        ({"quant_method": "gptq"}, "quantised by 'gptq'"),
    ):
        with pytest.raises(InputError, match=message):
            models.load(changed(tmp_path, **{"quant_method": "minigrad", "format": "int8", "version": 1} | entry))
    changed(tmp_path, quant_method="minigrad", format="int8")
    for refused in ("int4", "float16"):
        with pytest.raises(InputError, match="stored as int8"):
            models.load(tmp_path, quantize=refused)
    with pytest.raises(InputError, match="float32, not in float64"):
        models.load(tmp_path, "float64")
    for read in (read_network, lambda folder: models.initial_weights_for(build("vidya-v2"), folder)):
        with pytest.raises(InputError, match="needs the unrounded ones"):
            read(tmp_path)
    arrays = read_tensors(tmp_path / "model.safetensors")
    save_tensors(tmp_path / "model.safetensors", {name: x for name, x in arrays.items() if "q_proj" not in name})
    with pytest.raises(InputError, match=r"missing: .*q_proj\.weight\.scales"):
        models.load(tmp_path)
