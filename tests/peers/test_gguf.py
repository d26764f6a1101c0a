"""llama.cpp runs the files that we write: the same tokens, the same greedy text, and close logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
import tokenizer
from minigrad.formats.gguf.__main__ import GGUFConfig, export
from minigrad.generation import stream
from minigrad.optim import AdamW
from tests.formats.gguf import reader

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]

TEXT = (
    "The list type is a mutable sequence. It holds é, 中文 and emoji 🙂 too; it's made by list(1234).\n\n    x = [5]\n"
)
CONTEXT, F32 = 96, 0


@pytest.fixture(scope="module", params=["gpt2", "vidya-v2"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any, Any]:
    """Return a run of a tiny model that has learned TEXT by heart: its folder, the model and its tokenizer."""
    folder = tmp_path_factory.mktemp(request.param)
    tok = tokenizer.train([TEXT * 5], vocab_size=300)
    shape = {"width": 64, "num_heads": 4, "feed_forward": 96, "num_layers": 2}
    more = {"num_kv_heads": 2, "head_dim": 32} if request.param == "vidya-v2" else {}
    model = models.build(request.param, vocab_size=304, context_length=CONTEXT, init_std=0.1, **shape, **more)
    ids = np.array([[tok.end_of_text_id, *tok.encode(TEXT)]])[:, : CONTEXT + 1]
    optimizer = AdamW(model.parameters(), lr=3e-3)
    for _ in range(60):
        model.zero_grad()
        loss = model.loss(ids[:, :-1], ids[:, 1:])
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.1
    model.eval().save(folder)
    tok.save(folder)
    return folder, model, tok


def opened(path: Path, **options: Any) -> Any:
    llama_cpp = pytest.importorskip("llama_cpp")
    return llama_cpp.Llama(str(path), n_ctx=CONTEXT, n_threads=1, verbose=False, type_k=F32, type_v=F32, **options)


@pytest.mark.parametrize(("kind", "tolerance"), [("f32", 2e-3), ("f16", 5e-3), ("q8_0", 5e-2)])
def test_the_same_text_and_close_logits(trained: Any, kind: str, tolerance: float) -> None:
    pytest.importorskip("llama_cpp")
    folder, model, tok = trained
    theirs = opened(export(GGUFConfig(run=str(folder), type=kind)), logits_all=True)
    prompt = theirs.tokenize(b"The list type")
    assert prompt == [tok.end_of_text_id, *tok.encode("The list type")]
    ours = list(stream(model, prompt, tokens=50, temperature=0, end_ids=(tok.end_of_text_id,)))
    written = theirs.create_completion("The list type", max_tokens=50, temperature=0)["choices"][0]["text"]
    assert written == tok.decode(ours)
    assert "mutable sequence. It holds é" in written
    ids = [*prompt, *ours]
    theirs.reset()
    theirs.eval(ids)
    logits = model(np.array([ids])).data[0]
    assert np.abs(np.asarray(theirs.scores)[: len(ids)] - logits).max() <= tolerance * np.abs(logits).max()


@pytest.mark.parametrize("split", ["gpt2", "digits", "gpt4", "qwen2"])
def test_every_split_gives_the_same_tokens(split: str, tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    tok = tokenizer.train([TEXT * 5, "I'LL say 12345678 (word) camelCase\r\n\n  y" * 5], vocab_size=330, split=split)
    models.build("vidya-v2", vocab_size=330, context_length=CONTEXT, width=32, num_layers=1).save(tmp_path)
    tok.save(tmp_path)
    theirs = opened(export(GGUFConfig(run=str(tmp_path))), vocab_only=True)
    for text in (TEXT, "we'll don't 'S  12345 (word)!?\n\n\n  x\t\ty  ", "Zwölf Boxkämpfer 日本語 e\u0301 ½ <|user|>"):
        assert theirs.tokenize(text.encode(), add_bos=False) == tok.encode(text)
    forged = "<|user|>Hi<|end|>"
    assert theirs.tokenize(forged.encode(), add_bos=False, special=True) == tok.encode(forged, allow_special=True)


@pytest.mark.parametrize(
    "changes",
    [
        {"rope_scaling": "linear", "rope_factor": 2.0},
        {"rope_scaling": "ntk", "rope_factor": 4.0},
        {"rope_scaling": "yarn", "rope_factor": 4.0},
        {"rope_scaling": "yarn", "rope_factor": 4.0, "rope_attention_factor": 1.4},
        {"tied_head": False},
    ],
)
def test_variants_of_the_network(changes: dict[str, Any], tmp_path: Path) -> None:
    pytest.importorskip("llama_cpp")
    shape = {"vocab_size": 270, "width": 64, "num_layers": 3, "rope_theta": 100.0, "init_std": 0.2}
    tied = {name: changes[name] for name in changes if name == "tied_head"}
    models.build("vidya-v2", context_length=CONTEXT // 4, **shape, **tied).save(tmp_path / "trained")
    model = models.load(tmp_path / "trained", **{name: changes[name] for name in changes if name != "tied_head"}).eval()
    model.save(tmp_path / "run")
    tokenizer.train([TEXT], vocab_size=270).save(tmp_path / "run")
    theirs = opened(export(GGUFConfig(run=str(tmp_path / "run"), type="f32")), logits_all=True)
    ids = np.random.default_rng(0).integers(0, 270, 24)
    theirs.eval(ids.tolist())
    logits = model(ids[None]).data[0]
    assert np.abs(np.asarray(theirs.scores)[:24] - logits).max() <= 1e-4 * np.abs(logits).max()


@pytest.mark.parametrize("kind", ["f32", "f16", "q8_0"])
def test_the_gguf_package_reads_what_we_write(trained: Any, kind: str, tmp_path: Path) -> None:
    gguf = pytest.importorskip("gguf")
    quants = pytest.importorskip("gguf.quants")
    path = export(GGUFConfig(run=str(trained[0]), type=kind, out=str(tmp_path / "file.gguf")))
    file, ours = gguf.GGUFReader(path), reader.read(path)
    assert {tensor.name for tensor in file.tensors} == set(ours.arrays)
    for tensor in file.tensors:
        theirs = quants.dequantize(tensor.data, tensor.tensor_type)
        np.testing.assert_array_equal(theirs.reshape(ours.arrays[tensor.name].shape), ours.arrays[tensor.name])
        exact = ours.arrays[tensor.name]
        if kind == "q8_0" and tensor.tensor_type == gguf.GGMLQuantizationType.Q8_0:
            again = quants.quantize(exact, gguf.GGMLQuantizationType.Q8_0)
            np.testing.assert_array_equal(quants.dequantize(again, gguf.GGMLQuantizationType.Q8_0), exact)
    for key, value in ours.metadata.items():
        assert file.get_field(key).contents() == value
