"""The entry points: each gets a mutated path and returns an exit code, or raises one of the project's errors."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import generate
import models
import tokenizer
import train
from minigrad.data.tokens import token_files
from minigrad.errors import InputError, RunError
from minigrad.evaluate import __main__ as evaluate
from minigrad.formats.gguf import __main__ as gguf
from minigrad.training.folder import checkpoint, metrics
from minigrad.training.folder.checkpoint import State
from minigrad.training.folder.record import Record
from tokenizer import TokenizerError
from tokenizer.cli import command_line

OWN_ERRORS = (InputError, RunError, TokenizerError)


def load(path: Path) -> int:
    """Read everything in a run folder."""
    models.load(path)
    tokenizer.load(path)
    Record.read(path)
    State.read(checkpoint.load(path), path)
    metrics.read(path)
    return 0


def load_weights(path: Path) -> int:
    """Read a model."""
    models.load(path)
    return 0


def load_tokenizer(path: Path) -> int:
    """Read a tokenizer, encode with it and decode again."""
    tok = tokenizer.load(path, split="gpt2" if path.suffix == ".tiktoken" else None)
    assert tok.decode(tok.encode("to be or not")) == "to be or not"
    return 0


def encode(path: Path) -> int:
    """Use a tokenizer on the command line."""
    split = ["--split", "gpt2"] if path.suffix == ".tiktoken" else []
    return command_line.main(["encode", *split, str(path), str(Path(__file__))])


def resume(path: Path) -> int:
    """Continue a run for a step."""
    return train.main(["--resume", str(path), "--steps", "7"])


def plan(path: Path) -> int:
    """Print the plan of a run that would be continued."""
    return train.main(["--resume", str(path), "--plan"])


def generate_text(path: Path) -> int:
    """Generate a few tokens."""
    return generate.main([str(path), "--prompt", "", "--tokens", "3"])


def init(path: Path) -> int:
    """Start a new run from the weights."""
    out, data = path.with_name("new"), path.parent / "originals" / "words.txt"
    shutil.rmtree(out, ignore_errors=True)
    few = ["--steps", "1", "--batch", "1", "--context", "8"]
    return train.main(["--init", str(path), "--data", str(data), "--out", str(out), *few])


def data(path: Path) -> int:
    """Plan to train on a text."""
    few = ["--steps", "1", "--batch", "1", "--context", "8", "--vocab", "300", "--size", "nano"]
    return train.main(["--data", str(path), "--plan", *few])


def plan_to_train(source: str, place: Path) -> int:
    """Plan to train on an address."""
    few = ["--steps=1", "--batch=1", "--context=8", "--size=nano", f"--tokenizer={place / 'originals/vidya-v2'}"]
    return train.main([f"--data={source}", "--plan", *few])


def teach(path: Path, objective: str, lessons: Path) -> int:
    """Plan to teach a model."""
    few = ["--steps=1", "--batch=1", "--context=64", "--plan"]
    return train.main([f"--init={path}", f"--data={lessons}", f"--objective={objective}", *few])


def sft(path: Path) -> int:
    """Plan to teach the conversations in a file."""
    return teach(path.parent / "originals/vidya-v2", "sft", path)


def dpo(path: Path) -> int:
    """Plan to teach the pairs of answers in a file."""
    return teach(path.parent / "originals/vidya-v2", "dpo", path)


def sft_of(path: Path) -> int:
    """Plan to teach a model of another author."""
    return teach(path, "sft", path.parent / "originals/lessons.jsonl")


def distill(path: Path) -> int:
    """Plan to learn from a teacher."""
    start, text = path.parent / "originals/vidya-v2", path.parent / "originals/words.txt"
    few = ["--steps=1", "--batch=1", "--context=8", "--plan"]
    return train.main([f"--init={start}", "--objective=distill", f"--teacher={path}", f"--data={text}", *few])


@contextlib.contextmanager
def typing(text: str) -> Iterator[None]:
    """Let a program read a text from its standard input."""
    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(text.encode()))
    try:
        yield
    finally:
        sys.stdin = before


def chat(path: Path) -> int:
    """Say something to a model."""
    with typing(f"to be?\n/save {path.with_name('conversation.jsonl')}\n/exit\n"):
        return generate.main([str(path), "--chat", "--tokens", "2"])


def keyboard(path: Path) -> int:
    """Teach a model at the keyboard, which adds an answer to a journal."""
    with typing("to be?\nor not\n/exit\n"):
        journal = path.with_name("journal.jsonl")
        return generate.main([str(path), "--teach", "--tokens", "2", "--samples", "2", "--journal", str(journal)])


def evaluate_run(path: Path) -> int:
    """Judge a model."""
    return evaluate.main([str(path), "--data", str(path.parent / "originals/words.txt")])


def export(path: Path) -> int:
    """Write a model as a GGUF file."""
    out = path.with_name("new.gguf")
    out.unlink(missing_ok=True)
    return gguf.main([str(path), "--type", "q8_0", "--out", str(out)])


def tokens(path: Path) -> int:
    """Use the tokens of a text that the cache has."""
    text, tok = path.parent / "originals/words.txt", tokenizer.load(path.parent / "originals/vidya-v2")
    with patch.dict(os.environ, MINIGRAD_CACHE=str(path.parent)):
        found = token_files.prepare(text.read_text(encoding="utf-8").split("\n"), tok).tokens
    assert found.ndim == 1
    assert int(found.max()) < tok.vocab_size
    return 0


READERS: dict[str, Callable[[Path], int]] = {
    "load": load,
    "load_weights": load_weights,
    "load_tokenizer": load_tokenizer,
    "encode": encode,
    "data": data,
    "resume": resume,
    "plan": plan,
    "generate": generate_text,
    "init": init,
    "sft": sft,
    "sft_of": sft_of,
    "dpo": dpo,
    "distill": distill,
    "chat": chat,
    "teach": keyboard,
    "evaluate": evaluate_run,
    "gguf": export,
    "tokens": tokens,
}
