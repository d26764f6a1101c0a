"""vocab.json and merges.txt as GPT-2 has them, with its settings beside them."""

import json
from pathlib import Path

from tokenizer.formats.tokenizer_json import spellings
from tokenizer.text.added_tokens import ROLES
from tokenizer.text.spelling import spell
from tokenizer.vocabulary import Vocabulary


def write(vocabulary: Vocabulary, folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    lines = [f"{spell(left)} {spell(right)}\n" for left, right in vocabulary.merges]
    (folder / "merges.txt").write_bytes("".join(["#version: 0.2\n", *lines]).encode())
    (folder / "vocab.json").write_text(json.dumps(spellings(vocabulary)), encoding="utf-8")
    named = {role: getattr(vocabulary, field) for role, field in ROLES.items()}
    config = {"tokenizer_class": "GPT2Tokenizer"} | {role: name for role, name in named.items() if name}
    (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
