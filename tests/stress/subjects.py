"""What is mutated: real small run folders, tokenizers, texts and lessons, and which entry points read them."""

from __future__ import annotations

import gzip
import json
import os
import random
import shutil
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

from safetensors import SafetensorError
from safetensors.numpy import load_file

import tokenizer
from minigrad.data.tokens import token_files
from minigrad.formats.json_files import write_json
from minigrad.formats.safetensors import save_tensors
from minigrad.formats.weights import read_weights
from minigrad.training.folder import checkpoint
from tests.small_runs import run, write_text
from tests.stress.kinds import write_lessons
from tests.stress.mutants import Place


class Subject(NamedTuple):
    """A file or folder to mutate, and the entry points that read it."""

    name: str
    path: Path  # of the original, which is copied before each mutation
    readers: tuple[str, ...]


FAMILY_READERS = ("load", "resume", "plan", "generate", "init", "evaluate", "gguf", "distill")
REFUSED = {
    *(
        ("vidya-v2", "gguf"),
        ("wiola", "gguf"),
        ("vsla", "gguf"),
        ("vidya-v1", "gguf"),
        ("lessons.jsonl", "dpo"),
        ("pairs.jsonl", "sft"),
    ),
}
"""What a reader refuses as it is: kinds of models that GGUF lacks, and other lessons."""
SHAPES = {
    "vidya-v2": "",
    "gpt2": "num_layers=2,width=32,num_heads=2,feed_forward=64",
    "wiola": "num_layers=3,width=32,num_heads=2,num_kv_heads=1,dsff_narrow=16,dsff_wide=32",
    "vsla": "num_layers=5,width=32,num_heads=2,feed_forward=64,window=16,block=4,top_k=8",
    "vidya-v1": "num_layers=2,width=32,num_heads=2,head_dim=16,feed_forward=64",
}


def make(folder: Path) -> list[Subject]:
    """Make the subjects in a folder."""
    text = write_text(folder / "words.txt", lines=300)
    subjects = []
    for family, shape in SHAPES.items():
        more = {"set": shape} if shape else {}
        out = run(text, folder / family, model=family, steps=6, save_every=3, eval_every=6, sample_every=6, **more).out
        subjects.append(Subject(family, out, FAMILY_READERS))
    subjects.append(Subject("shards", _in_shards(folder / "vidya-v2", folder / "shards"), ("load_weights", "generate")))
    tok = tokenizer.load(folder / "vidya-v2")
    small = tokenizer.train([text.read_text(encoding="utf-8")], 300, special_tokens=list(tok.specials)[:1])
    for name, kind in (("tokenizer", "huggingface"), ("gpt2 files", "gpt2"), ("ranks.tiktoken", "tiktoken")):
        small.save(folder / name, format=kind)
        subjects.append(Subject(name, folder / name, ("load_tokenizer", "encode")))
    adapters = folder / "adapters"
    how = {"objective": "sft", "init": str(folder / "vidya-v2"), "vocab": None, "adapter_rank": 2, "dropout": 0.0}
    write_lessons(folder)
    run(folder / "lessons.jsonl", adapters, steps=6, save_every=3, eval_every=6, sample_every=6, context=64, **how)
    subjects.append(Subject("adapters", adapters, ("load_weights", "resume", "plan", "generate", "chat", "evaluate")))
    for name, readers in (("lessons.jsonl", ("sft", "dpo")), ("pairs.jsonl", ("dpo", "sft")), ("book.txt", ("sft",))):
        subjects.append(Subject(name, folder / name, readers))
    documents = [
        {"text": each, "id": number} for number, each in enumerate(text.read_text(encoding="utf-8").split("\n")[:80])
    ]
    (folder / "lines.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents), encoding="utf-8")
    (folder / "packed.txt.gz").write_bytes(gzip.compress(text.read_bytes()))
    subjects += [Subject(name, folder / name, ("data",)) for name in ("lines.jsonl", "packed.txt.gz", "words.txt")]
    subjects.append(Subject("tokens", _tokens(text, folder), ("tokens",)))
    return subjects


def _tokens(text: Path, folder: Path) -> Path:
    """Make a folder with the file of the tokens of a text, as the cache has it."""
    documents = text.read_text(encoding="utf-8").split("\n")
    with patch.dict(os.environ, MINIGRAD_CACHE=str(folder)):
        token_files.prepare(documents, tokenizer.load(text.parent / "vidya-v2"))
    return folder / "tokens"


def _in_shards(source: Path, folder: Path) -> Path:
    shutil.copytree(source, folder)
    (folder / "model.safetensors").unlink()
    weights = read_weights(source)
    names = {name: f"model-{number % 2}.safetensors" for number, name in enumerate(weights)}
    for file in set(names.values()):
        save_tensors(folder / file, {name: weights[name] for name in weights if names[name] == file})
    write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": names})
    return folder


# What must be refused.

UNUSED = {
    "config.json": {
        *("architectures", "torch_dtype", "bos_token_id", "pad_token_id", "n_ctx", "use_cache", "attention_dropout"),
        *("attn_pdrop", "embd_pdrop", "resid_pdrop", "initializer_range"),
    },
    "tokenizer.json": {
        *("version", "post_processor", "truncation", "padding", "pre_tokenizer.trim_offsets", "model.unk_token"),
        *("model.fuse_unk", "model.byte_fallback", "decoder.add_prefix_space", "decoder.trim_offsets"),
        "decoder.use_regex",
    },
    "minigrad.json": {"architecture", "result"},
}
"""Values, or objects of values, that no entry point reads, or that are kept as they are."""


def must_be_refused(file: Path, retyped: Place | None, reader: str) -> str:
    """Return why a reader that accepted a mutated file should not have, or ""."""
    if file.suffix == ".safetensors" and reader in ("load", "load_weights", "resume", "generate", "init"):
        is_read = "checkpoints" not in file.parts or reader in ("load", "resume")
        try:
            if is_read and (reader != "resume" or "checkpoints" in file.parts):
                load_file(file)
        except (SafetensorError, OSError) as error:
            return f"the safetensors library refuses it: {error}"
    readable = {"minigrad.json", "state.json", "metrics.jsonl", "config.json", "tokenizer.json"}
    reads_types = reader in ("load", "load_tokenizer") and file.name in readable
    place = ".".join(map(str, retyped or ()))
    unused = any(f"{place}.".startswith(f"{name}.") for name in UNUSED.get(file.name, ()))
    if retyped and reads_types and not unused:
        return f"{place} has another type"
    if retyped and reader == "data" and retyped[-1] == "text":
        return "text has another type"
    return ""


def files_of(path: Path) -> list[Path]:
    """Return the files of a subject that some entry point reads: the best model is a folder of its own."""
    unread = ("report.html", "generation_config.json")
    if path.is_file():
        return [path]
    found = sorted(file for file in path.rglob("*") if file.is_file() and file.name not in unread)
    found = [file for file in found if file.parent.name != "best"]
    read = checkpoint.newest(path)  # an older checkpoint is not read
    newest = read[1] if read else None
    return [file for file in found if file.parent.parent.name != "checkpoints" or file.parent == newest]


def choose(subjects: list[Subject], draw: random.Random) -> tuple[Subject, str]:
    """Return a subject and one of its readers."""
    subject = draw.choice(subjects)
    return subject, draw.choice(subject.readers)
