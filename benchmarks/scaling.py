"""How the loss of vidya-v2 falls with parameters and text: the data of the law that `--size auto` follows.

    python benchmarks/scaling.py runs/scaling            # train what is missing of the grid: hours of one core
    python benchmarks/scaling.py runs/scaling --jobs 2   # the same, with two curves side by side
    python benchmarks/scaling.py runs/scaling --fit      # print the table, and the law

A curve is one model on one text. Its trunk is one run with a constant learning rate; at several places a copy of it
ends with the usual decay, the last fifth of its steps (Haegele et al. 2024, arXiv 2405.18392). Such a branch is, bit
for bit, the run that `train.py --steps` makes, with the dropout and the warm-up that it chooses for the longest branch,
and all branches together take little more than the longest. A step reads as many tokens as in a run of train.py of that
length; so long branches and short ones have a trunk each. Every run has one thread. Stop the script at any moment, and
give the same command again: it goes on.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import sys
import time
from collections import defaultdict
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent))

import models
from minigrad.cli.exits import exit_code
from minigrad.data import mixture
from minigrad.distributed.launch import connect
from minigrad.errors import InputError
from minigrad.evaluate.losses import Score
from minigrad.optim import decay_start
from minigrad.system.files import write_text
from minigrad.system.locks import FolderLock
from minigrad.training.budget import Budget
from minigrad.training.folder.record import Record
from minigrad.training.keeping import save
from minigrad.training.optimizers import parameters_in_layers
from minigrad.training.planning.choices import CONTEXT, LONG_RUN, TOKENS_PER_STEP
from minigrad.training.planning.fitting import fit, residual_error, without_each
from minigrad.training.planning.scaling import Law, Point, bounds
from minigrad.training.preparation import prepare
from minigrad.training.run import Run
from minigrad.training.validation import evaluate
from train import TrainConfig, take_step

# Below nano and between nano and micro, with heads of 48 and the deviation of the first weights as they have them.
WIDTH_48 = "num_layers=4,width=48,num_heads=1,num_kv_heads=1,feed_forward=128,init_std=0.0693"
WIDTH_144 = "num_layers=8,width=144,num_heads=3,num_kv_heads=1,feed_forward=368,init_std=0.04"
_SAVE_EVERY = 20  # steps: what is lost when the script is stopped


class Curve(NamedTuple):
    """One model on one text: its size, its fields that differ, the share of the text, and the lengths in tokens."""

    name: str
    size: str
    fields: str | None
    divisor: int  # one in this many bytes of the text is used
    lengths: tuple[int, ...]

    @property
    def file_name(self) -> str:
        """The name of its files."""
        return re.sub(r"\W+", "-", self.name)


CURVES = (  # micro, which takes half of the time, first: two side by side end at about the same time
    Curve("micro", "micro", None, 1, (2_048_000, 4_096_000, 8_192_000, 16_384_000)),
    Curve("width 144", "nano", WIDTH_144, 1, (2_048_000, 4_096_000, 8_192_000, 16_384_000)),
    Curve("nano", "nano", None, 1, (2_048_000, 4_096_000, 8_192_000, 16_384_000)),
    Curve("nano, text / 4", "nano", None, 4, (2_048_000, 4_096_000, 8_192_000)),
    Curve("width 48", "nano", WIDTH_48, 1, (2_048_000, 4_096_000, 8_192_000, 16_384_000)),
    Curve("width 48, text / 8", "nano", WIDTH_48, 8, (2_048_000, 4_096_000)),
)


def advance(config: TrainConfig, budget: Budget, until: int) -> Run:
    """Begin or continue a run, take its steps up to `until` as `budget` has their learning rates, and save it."""
    began = time.perf_counter()
    with FolderLock() as lock:
        run = prepare(config, None, lock, connect(), lambda: time.perf_counter() - began)
        assert run is not None
        run.budget = budget
        with run.writer:
            while run.step < until:
                take_step(run)
                if run.step % _SAVE_EVERY == 0 or run.step == until:
                    save(run, wait=run.step == until)
    return run


def part_of_text(folder: Path, divisor: int) -> Path:
    """Write randomly drawn documents that together have one in `divisor` bytes of the default text; return the file.

    A smaller part is the beginning of a larger one.
    """
    path = folder / f"text-{divisor}.jsonl"
    if not path.exists():
        documents = list(mixture.load("python-docs").split().train)
        sizes = [len(each.encode()) for each in documents]
        order = np.random.default_rng(0).permutation(len(documents))
        count = int(np.searchsorted(np.cumsum(np.take(sizes, order)), sum(sizes) / divisor, side="right"))
        lines = (json.dumps({"text": documents[index]}) for index in order[:count])
        write_text(path, "\n".join(lines) + "\n")
    return path


def tokens_per_step(tokens: int) -> int:
    """Return the tokens of a step of train.py in a run of that many tokens, with one of the models here."""
    return TOKENS_PER_STEP * (2 if tokens >= LONG_RUN else 1)


def branch(folder: Path, curve: Curve, tokens: int, tokenizer: Path) -> dict[str, Any]:
    """Train a trunk of a curve up to the decay of a run of `tokens` tokens; train a copy to the end, and score it."""
    a_step = tokens_per_step(tokens)
    steps, longest = tokens // a_step, max(each for each in curve.lengths if tokens_per_step(each) == a_step)
    trunk, copy = folder / f"{curve.file_name}-{a_step}", folder / f"{curve.file_name}-{a_step}-{steps}"
    text = {"data": "python-docs"}
    if curve.divisor > 1:
        text = {"data": str(part_of_text(folder, curve.divisor)), "held_out": "python-docs"}
    if not copy.exists():
        new = TrainConfig(
            size=curve.size,
            set=curve.fields,
            steps=longest // a_step,
            batch=a_step // CONTEXT,
            threads=1,
            tokenizer=str(tokenizer),
            out=str(trunk),
            **text,
        )
        is_there = (trunk / "minigrad.json").exists()
        advance(TrainConfig(resume=str(trunk)) if is_there else new, Budget(None), decay_start(steps))
        temporary = copy.with_suffix(".tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        shutil.copytree(trunk, temporary)
        temporary.rename(copy)
    run = advance(TrainConfig(resume=str(copy)), Budget(steps), steps)
    score: Score = evaluate(run, everything=True)
    return {
        "model": curve.name,
        "parameters": parameters_in_layers(run.model),
        "tokens": steps * run.settings.tokens_per_step,
        "unique_tokens": len(run.text.train),
        "bits_per_byte": round(score.bits_per_byte, 5),
    }


def train_curve(folder: Path, curve: Curve, tokenizer: Path) -> None:
    """Train every branch of a curve that has no result yet, and write each result at once."""
    path = folder / "results" / f"{curve.file_name}.json"
    points: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
    for tokens in curve.lengths[len(points) :]:
        points.append(branch(folder, curve, tokens, tokenizer))
        print(points[-1], flush=True)
        write_text(path, json.dumps(points, indent=1) + "\n")


def train_grid(folder: Path, jobs: int) -> None:
    """Train the curves that are not complete, `jobs` of them side by side."""
    (folder / "results").mkdir(parents=True, exist_ok=True)
    tokenizer = folder / "tokenizer.json"
    if not tokenizer.exists():
        import tokenizer as tokenizers

        tokenizers.train(mixture.load("python-docs").sample(), vocab_size=4_096).save(tokenizer)
    for divisor in {curve.divisor for curve in CURVES} - {1}:
        part_of_text(folder, divisor)
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        for done in [pool.submit(train_curve, folder, curve, tokenizer) for curve in CURVES]:
            done.result()


def read_curves(folder: Path, runs: list[Path]) -> dict[str, tuple[Point, ...]]:
    """Return the measured curves, each with those of the finished `runs` of train.py that have its size.

    No run reads less than two million tokens: copying from the context forms about then, and before that the loss falls
    in another way. Raises InputError if nothing was measured, or for a run that has another size or has not ended.
    """
    curves = defaultdict[str, list[Point]](list)
    for path in sorted((folder / "results").glob("*.json")):
        for each in json.loads(path.read_text(encoding="utf-8")):
            curves[each["model"]].append(Point(*(each[name] for name in Point._fields)))
    if not curves:
        raise InputError(f"{folder} holds no results; train the grid first, without --fit")
    unique = max(point.unique_tokens for points in curves.values() for point in points)
    names = {points[0].parameters: name for name, points in curves.items() if points[0].unique_tokens == unique}
    for run in runs:
        record, size = Record.read(run), parameters_in_layers(models.load(run))
        if not record.result:
            raise InputError(f"{run} has not ended; continue it with train.py --resume {run}")
        if size not in names:
            raise InputError(f"{run} has {size:,} parameters in its layers, and no measured curve has as many")
        point = Point(size, record.result["tokens"], unique, round(record.result["bits_per_byte"], 5))
        curves[names[size]].append(point)
    smallest_first = sorted(curves.items(), key=lambda curve: (curve[1][0].parameters, -curve[1][0].unique_tokens))
    return {name: tuple(points) for name, points in smallest_first}


def describe(curves: dict[str, tuple[Point, ...]]) -> str:
    """Return the measured points beside the law, and the constants of the law in planning/scaling.py.

    The last column has the bounds in which the other curves alone expect a point: they show whether bounds hold.
    """
    points = [point for curve in curves.values() for point in curve]
    law, inside = fit(points), 0
    lines = ["| model, text | parameters | tokens | passes | bits per byte | law | expected without this curve |"]
    lines.append("| --- " * 7 + "|")
    for name, curve in curves.items():
        others = {other: each for other, each in curves.items() if other != name}
        rest = [point for each in others.values() for point in each]
        laws = [fit(rest), *without_each(others)]
        for point in curve:
            low, high = bounds(laws, residual_error(laws[0], rest), *point[:3])
            is_inside = low <= point.bits_per_byte <= high
            inside += is_inside
            lines.append(
                f"| {name} | {point.parameters:,} | {point.tokens:,} | {point.tokens / point.unique_tokens:.1f} | "
                f"{point.bits_per_byte:.3f} | {law.loss(*point[:3]):.3f} | {low:.2f} to {high:.2f}"
                f"{'' if is_inside else ', missed'} |"
            )
    lines += ["", f"{inside} of {len(points)} points are as the other curves expect.", ""]
    lines.append("CURVES: dict[str, tuple[Point, ...]] = {")
    for name, curve in curves.items():
        rows = ", ".join(f"Point({', '.join(f'{value:_}' for value in point)})" for point in curve)
        lines.append(f'    "{name}": ({rows},),')
    without = ", ".join(_constants(each) for each in without_each(curves))
    error = residual_error(law, points)
    return "\n".join([*lines, "}", f"LAW = {_constants(law)}", f"WITHOUT = ({without},)", f"ERROR = {error:.3f}"])


def _constants(law: Law) -> str:
    return f"Law({', '.join(f'{value:.5g}' for value in law)})"


def main() -> int:
    """Run the command line and return the exit code."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder in which the runs are kept")
    parser.add_argument("--jobs", type=int, default=1, help="curves that are trained side by side (default: 1)")
    parser.add_argument("--fit", nargs="*", type=Path, metavar="RUN", help="train nothing; more runs of the same sizes")
    arguments = parser.parse_args()
    if arguments.jobs < 1:
        parser.error(f"--jobs {arguments.jobs} trains nothing; give 1 or more")

    def work() -> None:
        if arguments.fit is None:
            train_grid(arguments.folder, arguments.jobs)
        else:
            print(describe(read_curves(arguments.folder, arguments.fit)))

    said = "interrupted; the same command continues"
    return exit_code(parser.prog, work, interrupted=said, less_memory="give smaller --jobs")


if __name__ == "__main__":
    sys.exit(main())
