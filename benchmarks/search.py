"""Successive halving: which of many settings are worth ten minutes? ``python benchmarks/search.py SEARCH.toml``

A search is a study (docs/judging.md) with rounds in the place of its lengths and seeds. A round trains every arm that
is left, for longer than the round before, and keeps the best ones and the control:

    [[round]]
    tokens = 2_048_000      # or seconds = 120, of processor time
    seeds = 2
    keep = 4

Arms are ordered by their mean difference from the control, paired by seed. The best of many arms was also lucky, so
each round has seeds of its own, and the last round alone says how much an arm gains: its table has the intervals and
tests of a study. Stop the script at any moment, and give the same command again. The method is that of Jamieson and
Talwalkar 2016, "Non-stochastic best arm identification and hyperparameter optimization", arXiv 1502.07943.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from minigrad.system import hardware, processors  # isort: skip  (before NumPy)

from benchmarks.evaluation import report
from benchmarks.evaluation.results import Results
from benchmarks.evaluation.run import Runner, made
from benchmarks.evaluation.study import Study
from minigrad.cli.exits import exit_code
from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.options import REQUIRED, option, validate
from minigrad.system.locks import FolderLock
from minigrad.system.terminal import prepare_output, say

PROGRAM = "benchmarks/search.py"


@dataclass(frozen=True)
class SearchConfig:
    """Which search is made, and where."""

    search: str = option(REQUIRED, "the search: a TOML file", positional=True, value="SEARCH")
    out: str | None = option(
        None, "the folder of its runs", value="DIR", none_means="runs/searches/ and the name of the file"
    )
    jobs: int | None = option(None, "runs made side by side", at_least=1, at_most=256, none_means="one per core")


def best(study: Study, results: Results, count: int) -> list[str]:
    """Return the names of the control and of the `count` other arms with the lowest mean difference from it.

    An arm that leaks is not among them, nor is one with a failed run: its other runs are the lucky ones. Raises
    InputError if no arm is left, as where a run of the control failed: the next rounds would compare nothing.
    """
    compared = report.compare(study, results, study.comparisons()[0], study.judged[0], "documents")
    fair = [each for each in compared if each.pairs and not each.failed and not each.arm.leaks]
    if not fair:
        why = "a run of the control failed" if compared[0].failed else "every other arm leaks or has a failed run"
        raise InputError(
            f"{study.path.name}: no arm can be kept, because {why}. Change the arms that leak or fail (the "
            "report of this round says why runs failed), and begin anew with another --out"
        )
    others = sorted(fair, key=lambda each: each.both.mean)
    return [study.control, *(each.arm.name for each in others[:count])]


def search(whole: Study, out: Path, jobs: int) -> list[str]:
    """Make the runs of every round that are missing, print each table, and return the arms of the last round.

    Exits with the code of the signal if it is stopped.
    """
    names = [arm.name for arm in whole.arm]
    for number, each in enumerate(whole.round):
        study, folder = whole.in_round(number, names), out / f"round-{number + 1}"
        folder.mkdir(exist_ok=True)
        runner = Runner(study, folder, jobs)
        results = runner.make_until_stopped()
        if runner.stopped:
            say(f"stopped in round {number + 1}; the same command continues")
            sys.exit(runner.stopped)
        say(f"\nRound {number + 1} of {len(whole.round)}\n\n{report.write(study, results, folder)}")
        if number + 1 < len(whole.round):
            names = best(study, results, each.keep)
            say(f"kept: {', '.join(names)}")
        if runner.stopped:  # while the table was made
            sys.exit(runner.stopped)
    return names


def make(config: SearchConfig) -> None:
    """Make a search; raises InputError for a study without rounds."""
    validate(config)
    study = Study.read(Path(config.search))
    if not study.round:
        raise InputError(f"{study.path} has no rounds: python benchmarks/evaluation/run.py {config.search}")
    out = Path(config.out or Path("runs/searches") / study.path.stem)
    hardware.prepare(1)
    with FolderLock() as lock:
        lock.take(made(out))
        search(study, out, config.jobs or processors.cores())


def main() -> int:
    """Run the command line and return the exit code."""
    prepare_output()
    parser = Parser(SearchConfig, prog=PROGRAM, description="Find the best of many settings by successive halving.")
    said = "interrupted; the same command continues"
    return exit_code(PROGRAM, lambda: make(parser.read()[0]), interrupted=said, less_memory="give smaller --jobs")


if __name__ == "__main__":
    sys.exit(main())
