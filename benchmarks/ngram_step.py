"""The time of a training step of nano with tables of n-grams, over that of one without.

    python benchmarks/ngram_step.py [--rounds 30]

Both models take real steps on python-docs, with one thread, in turns: batch, forward, backward, the updates of matrices
and of rows. The tables are those of the study of n-grams (studies/ngram_memory.py). Run with nothing else on the
machine.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import models
from benchmarks.evaluation.one_run import install
from benchmarks.evaluation.study import Study
from benchmarks.turns import medians
from minigrad.distributed.launch import connect
from minigrad.system.locks import FolderLock
from minigrad.training.preparation import prepare
from minigrad.training.run import Run
from train import TrainConfig, take_step

STUDY = Path(__file__).parent / "evaluation" / "studies" / "ngram_memory.toml"
ARMS = {
    "none": None,
    "bigrams, 65,536 rows": {"orders": [2], "rows": 65_536},
    "bigrams and trigrams, 65,536 rows each": {"orders": [2, 3], "rows": 65_536},
    "bigrams and trigrams, 262,144 rows each": {"orders": [2, 3], "rows": 262_144},
}


def begin(out: Path, attributes: dict[str, object] | None, steps: int) -> Run:
    """Return a run of nano on python-docs that is about to take its first step."""
    study, family = Study.read(STUDY), models.FAMILIES["vidya-v2"]
    guests = []
    if attributes is not None:
        guests = install(study, dataclasses.replace(study.named("with tables"), attributes=attributes))
    settings = TrainConfig(data="python-docs", dropout=0.02, steps=steps, threads=1, out=str(out))
    run = prepare(settings, None, FolderLock(), connect(), time.perf_counter, guests)
    models.FAMILIES["vidya-v2"] = family
    assert run is not None
    return run


def main() -> None:
    """Print the median time of a step, and its ratio to that without tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        runs = {
            name: begin(Path(folder) / str(number), attributes, 10 * rounds)
            for number, (name, attributes) in enumerate(ARMS.items())
        }
        found = medians({name: functools.partial(take_step, run) for name, run in runs.items()}, rounds)
    print("| tables | ms a step | ratio |\n| --- | --: | --: |")
    for name, seconds in found.items():
        print(f"| {name} | {1_000 * seconds:.1f} | {seconds / found['none']:.3f} |")


if __name__ == "__main__":
    main()
