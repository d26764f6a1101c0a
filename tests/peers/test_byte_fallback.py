"""Tokenizers with byte fallback, as Llama 2's: the same ids and texts as Hugging Face's tokenizers, both ways."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import tokenizer

pytestmark = pytest.mark.peers
peers = pytest.importorskip("tokenizers")

TEXT = "It's 12:45 o'clock, to be or not to be: that is the question.  Zwölf 日本語\n\tdef f(x):\n        return x\n"
PARTS = [*" aetoquIZ▁öä日é🙂\n\t\x00<>/", "<s>", "</s>", "to be", " the", "  "]


def made(folder: Path, *, normalized: bool) -> Any:
    """Train one of theirs on TEXT, add the tokens of bytes, and return it; its tokenizer.json is in `folder`."""
    marking = peers.normalizers.Sequence(
        [peers.normalizers.Prepend("▁"), peers.normalizers.Replace(" ", "▁")],
    )
    learning = peers.Tokenizer(peers.models.BPE())
    learning.normalizer = marking
    learning.train_from_iterator([TEXT] * 5, peers.trainers.BpeTrainer(vocab_size=150, show_progress=False))
    learned = json.loads(learning.to_str())["model"]
    names = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256)), *learned["vocab"]]
    vocab = {name: number for number, name in enumerate(dict.fromkeys(names))}
    merges = [tuple(merge) for merge in learned["merges"]]
    found = peers.Tokenizer(peers.models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    found.normalizer = marking
    steps = peers.decoders
    found.decoder = steps.Sequence(
        [steps.Replace("▁", " "), steps.ByteFallback(), steps.Fuse(), steps.Strip(" ", 1, 0)]
    )
    found.add_special_tokens(
        [peers.AddedToken(name, special=True, normalized=normalized) for name in ("<unk>", "<s>", "</s>")]
    )
    found.post_processor = peers.processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    found.save(str(folder / "tokenizer.json"))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "</s>"}), encoding="utf-8")
    return found


@pytest.mark.parametrize("normalized", [False, True])
def test_the_same_ids_and_texts(normalized: bool, tmp_path: Path) -> None:
    theirs = made(tmp_path, normalized=normalized)
    ours = tokenizer.load(tmp_path)
    draw = random.Random(0)
    for _ in range(5_000):
        text = "".join(draw.choices(PARTS, k=draw.randrange(12)))
        ids = theirs.encode(text, add_special_tokens=False).ids
        assert ours.encode(text, allow_special=True) == ids
        if not normalized:  # else theirs writes a space before the name of each special token
            assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False)
    assert ours.encode_document(TEXT) == theirs.encode(TEXT).ids


def test_any_ids_have_the_same_text(tmp_path: Path) -> None:
    """Also bytes that are not UTF-8."""
    theirs, draw = made(tmp_path, normalized=False), random.Random(1)
    ours = tokenizer.load(tmp_path)
    broken = [3 + byte for byte in (0xE4, 0xBD, 0xA0, 0xFF, 65)]
    for _ in range(5_000):
        ids = [draw.choice([*broken, draw.randrange(ours.vocab_size)]) for _ in range(6)]
        assert ours.decode(ids) == theirs.decode(ids, skip_special_tokens=False)


def test_what_we_save_is_theirs(tmp_path: Path) -> None:
    theirs = made(tmp_path, normalized=False)
    tokenizer.load(tmp_path).save(tmp_path / "again")
    again = peers.Tokenizer.from_file(str(tmp_path / "again" / "tokenizer.json"))
    before, after = (json.loads(each.to_str()) for each in (theirs, again))
    assert before == after
