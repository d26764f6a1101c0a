"""Train the models that come with minigrad, and write their folders in models/pretrained, each with a card.

    python benchmarks/pretrained.py vidya-v2-nano                             # train in runs/, then write the folder
    python benchmarks/pretrained.py vidya-v2-nano --run DIR --commit 3253000  # write it from a run that has ended

The card has its figures from the minigrad.json of the run, and from evaluating the files as they are stored.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np
from book import HELD_OUT, questions_for
from record import commit

import models
import tokenizer
from minigrad.evaluate.__main__ import EvaluateConfig, evaluate
from minigrad.evaluate.answers import ask, share_exact
from minigrad.formats.huggingface import write_folder
from minigrad.generation.decoding import stream, write
from minigrad.generation.settings import Sampling
from minigrad.quantised import quantise
from minigrad.system import environment
from minigrad.system.units import format_bytes
from minigrad.training.folder.record import Record
from models.pretrained import FOLDER

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "benchmarks" / "pretrained.txt"
"""A text that was written for this: no package holds it, so its score is the same with every version of Python."""

PROMPTS, PENALTY = ("Return a new array", "A dictionary"), 1.1


class Recipe(NamedTuple):
    """How a model is trained and stored, and what its card says of other seeds."""

    flags: str  # of train.py
    format: str  # of the weights; from float16 a model can be trained on
    spread: str
    questions: tuple[str, ...] = ()  # that the card shows with the answers of a model that was taught some

    @property
    def command(self) -> str:
        """The command that trains it."""
        return f"python train.py {self.flags}"


RECIPES = {
    "vidya-v2-nano": Recipe(
        "--size nano --steps 8000 --batch 16 --test",
        "float16",
        "Three runs of ten minutes, with seeds 0, 1 and 2, read 14 to 15 million tokens, and ended at 1.274, 1.276\n"
        "and 1.276 on the validation text, and at 1.304, 1.308 and 1.306 on the test text.",
    ),
    "vidya-v2-micro": Recipe(
        "--size micro --steps 11300 --seed 1 --test",
        "int8",
        "With seed 0, a run of as many tokens ended at 1.165 on the validation text and at 1.209 on the test text.",
    ),
    "vidya-v2-nano-chat": Recipe(
        "--init vidya-v2-nano --objective sft --data models/pretrained/book.jsonl --steps 600",
        "float16",
        "One run was made with this recipe, so nothing is known of other seeds.",
        ("Who are you?", "What is a list?", "How do I sort a list?", "What will the weather be tomorrow?"),
    ),
}


def train(name: str) -> Path:
    """Train a model as its recipe says, and return its run folder."""
    run = ROOT / "runs" / name
    command = [sys.executable, "train.py", *shlex.split(RECIPES[name].flags), "--out", run]
    subprocess.run(command, cwd=ROOT, env=environment.as_found(), check=True)
    return run


def store(name: str, run: Path) -> Path:
    """Write the files of a model from those of its run, and return their folder."""
    recipe, folder, model = RECIPES[name], FOLDER / name, models.load(run)
    if recipe.format == "float16":
        weights = {name: array.astype(np.float16) for name, array in model.state_dict().items()}
        write_folder(folder, model.config.published() | {"torch_dtype": "float16"}, weights, model.end_ids)
    else:
        quantise(model, recipe.format)
        model.save(folder)
    for file in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(run / file, folder / file)
    record = Record.read(run)
    record.result["command"], record.started_in = recipe.command, ""
    record.write(folder)
    return folder


def score(folder: Path, split: str = "validation", data: Path | None = None) -> float:
    """Return the bits per byte of the files of a model, on a part of its text or on all of `data`."""
    asked = EvaluateConfig(run=str(folder), split=split, data=None if data is None else str(data))
    return evaluate(asked).whole.bits_per_byte


def continued(folder: Path, prompt: str) -> str:
    """Return a prompt with what the model writes after it."""
    return write(models.load(folder), tokenizer.load(folder), prompt, tokens=80, repetition_penalty=PENALTY)


def answers(folder: Path, questions: tuple[str, ...]) -> str:
    """Return the most likely answers of a taught model to questions, and how many of its book's it answers right."""
    model, tok = models.load(folder), tokenizer.load(folder)
    form = tokenizer.load_chat(folder, tok)
    lines = []
    for question in questions:
        ids = form.encode([{"role": "user", "content": question}])
        written = stream(model, ids, Sampling(tokens=80, temperature=0), tokenizer=tok)
        lines += [f"You: {question}", f"It:  {''.join(token.text for token in written).strip()}", ""]
    from_book, others = (
        ask(model, tok, questions_for(str(folder), path)) for path in (FOLDER / "book.jsonl", HELD_OUT)
    )
    taught, asked, other = share_exact(from_book), len(from_book), share_exact(others)
    return f"""Its book is [book.jsonl](../book.jsonl), written for minigrad. Of {asked} of the book's questions, evenly
spaced, it answers {taught:.1%} with the book's words if each token is the likeliest one.
[book-held-out.jsonl](../book-held-out.jsonl) asks for the same answers in words that it was not taught; of these
questions it answers {other:.1%}. This second figure is too good: the book was extended after a look at wrong answers to
them.

```text
{chr(10).join(lines)}```
"""


def described(recipe: Recipe, folder: Path) -> tuple[str, str, str, str]:
    """Return what a model does, the flags of generate.py that show it, what it cannot do, and what it writes."""
    if recipe.questions:
        return (
            "It answers questions about Python, NumPy and itself, as a book taught it.",
            "--chat",
            "Asked about something that its book does not hold, it gives one of the book's answers all the same",
            answers(folder, recipe.questions),
        )
    texts = "\n\n---\n\n".join(continued(folder, each) for each in PROMPTS)
    return (
        "It continues text in the style of the documentation of Python, NumPy and Numba, and of Python's source code.",
        f'--prompt "{PROMPTS[0]}" --repetition-penalty {PENALTY}',
        "It is not an assistant, and was never taught a conversation. It writes what looks like documentation",
        f'The first 80 tokens after "{PROMPTS[0]}" and after "{PROMPTS[1]}", with\n`--repetition-penalty {PENALTY}`; '
        "without this penalty, the model repeats itself more:\n\n"
        f"```text\n{texts}\n```\n",
    )


def learned_from(record: Record, libraries: str) -> str:
    """Return what a model learned from, and how."""
    text = (
        f"the documentation and docstrings of Python {record.versions['python']}, the docstrings of {libraries}, "
        "comments in the source of all three, and, for a fifth of its tokens, the source code of Python's standard "
        "library."
    )
    if record.used["init"] is None:
        return textwrap.fill(f"It learned from {text}", 120)
    start = "It began as [vidya-v2-nano](../vidya-v2-nano/README.md), which learned from"
    taught = (
        "Then it was taught a book of questions and answers, while some of that text was read again, so that less of "
        "it was forgotten."
    )
    return textwrap.fill(f"{start} {text} {taught}", 120)


def card(name: str, folder: Path, commit: str) -> str:
    """Return the card of a model as Markdown."""
    recipe, record, model = RECIPES[name], Record.read(folder), models.load(folder)
    result, versions = record.result, record.versions
    rows = (("validation", "bits_per_byte"), ("test", "test_bits_per_byte"))
    table = "\n".join(
        f"| {part} | {result[key]:.3f} | {score(folder, part):.3f} |" for part, key in rows if key in result
    )
    if "test_bits_per_byte" in result:
        table += "\n\nThe test text is not quite untouched: its scores helped to choose the share of source code."
    about, start, limits, shown = described(recipe, folder)
    libraries = f"NumPy {versions['numpy']} and Numba {versions['numba']}"
    size, context = format_bytes((folder / "model.safetensors").stat().st_size), model.config.context_length
    return f"""# {name}

A language model of {record.parameters:,} parameters ({record.family} {record.size}), trained with minigrad.
{about}

    python generate.py {name} {start}

## What it learned from

{learned_from(record, libraries)}
Their licences: Python, PSF License 2; NumPy, BSD 3-Clause; Numba, BSD 2-Clause. The weights have the licence of
minigrad, MIT.

## How it was trained

    {recipe.command}

Commit {commit}, Python {versions["python"]}, {libraries}, seed {record.seed},
{result["steps"]:,} steps, {result["tokens"]:,} tokens, begun on {record.started[:10]}.
Machine: {record.hardware}; {record.arithmetic}.
`python benchmarks/pretrained.py {name}` trains a successor with the same flags and today's code, and replaces this one.
The weights are stored as {recipe.format}, {size}.

## How well it predicts

In bits per byte; lower is better. `xz -9e` needs {result["xz_bits_per_byte"]:.2f} for the same validation text.

| text | at the end of the run | these files |
|---|--:|--:|
{table}

Score on benchmarks/pretrained.txt: {score(folder, data=PAGE):.4f} bits per byte, by which a test checks these files.
{recipe.spread}

## What it cannot do

{limits}, which is mostly wrong.
It knows nothing, reads at most {context} tokens, has seen little but English and Python, and repeats itself.

## What it writes

{shown}"""


def main() -> None:
    """Train a model, or take a run that has ended, and write its folder and its card."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("name", choices=RECIPES)
    parser.add_argument("--run", type=Path, help="the folder of a run that has ended")
    parser.add_argument("--commit", help="the commit that trained it (default: the present one)")
    asked = parser.parse_args()
    measured = asked.commit or commit()  # now: files may be edited while it trains
    folder = store(asked.name, asked.run or train(asked.name))
    text = card(asked.name, folder, measured)
    (folder / "README.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
