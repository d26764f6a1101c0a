"""Does a change make models better? Variants against the default, over seeds, in pairs, with intervals.

A variant is any flags of train.py. Each is trained with the same seeds as the default, and compared seed by seed: a
seed that is lucky for one is often lucky for the other. The table has the mean of the differences in bits per byte of
validation text and its 95% interval (Student's t). Below zero is better; an interval that contains zero shows nothing.
Of twenty variants that change nothing, one will seem to; so try a surprising one again with seeds of its own
(--first-seed).

    python benchmarks/variants.py runs/variants --steps 4000 -- "--weight-decay 0.4" "--set rope_theta=10000"
    python benchmarks/variants.py runs/variants --minutes 10 --common="--size nano" -- "--precision float32"

Equal steps (or --tokens) ask what a step teaches; equal --minutes count what it costs too, and need a machine on which
nothing else runs. Runs are made in turns, one seed after the other. Stop the script at any moment, and give the same
command again: finished runs are kept, and one that was stopped continues. Use a new folder for a new version of the
code. All read python-docs unless --data says otherwise; a variant with other --data is comparable only on the same
validation text: --held-out python-docs.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import re
import shlex
import signal
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from machine import describe_machine

from benchmarks.evaluation.intervals import quantile
from minigrad.cli.parser import Parser
from minigrad.system import environment
from minigrad.system.signals import EXIT_CODES
from minigrad.training.report.one_run import COPIES
from minigrad.training.settings import TrainConfig

ROOT = Path(__file__).parent.parent

Run = dict[str, Any] | None
"""The result of a run as in minigrad.json, with its tokens per second and the first step at which it was found to copy
from its context (None: it was not); None if it failed."""


class Interval(NamedTuple):
    """A mean and its 95% interval; the interval is infinite for a single value."""

    mean: float
    low: float
    high: float


def interval(values: Sequence[float]) -> Interval:
    """Return the mean of some values with its 95% interval.

    >>> [round(each, 3) for each in interval([0.1, 0.2, 0.3])]
    [0.2, -0.048, 0.448]
    """
    mean, freedom = statistics.fmean(values), len(values) - 1
    if not freedom:
        return Interval(mean, -math.inf, math.inf)
    half = quantile(0.975, freedom) * statistics.stdev(values) / math.sqrt(len(values))
    return Interval(mean, mean - half, mean + half)


class Trial(NamedTuple):
    """What all runs have in common: where they are kept, their length and the flags of every run."""

    folder: Path
    limit: tuple[str, str]  # as in ("--steps", "4000")
    common: str

    def place(self, variant: str, seed: int) -> Path:
        """Return the folder of a run; another length or other flags have another one."""
        flags = json.dumps([*self.limit, *shlex.split(self.common), "|", *shlex.split(variant)])
        words = re.sub(r"[^\w.]+", "-", variant).strip("-")[:40] or "default"
        return self.folder / f"{words}-{hashlib.blake2b(flags.encode(), digest_size=3).hexdigest()}-{seed}"

    def flags(self, variant: str, seed: int) -> list[str]:
        """Return the flags of a run."""
        own = [*shlex.split(self.common), *shlex.split(variant)]
        text = [] if any(word.startswith("--data") for word in own) else ["--data", "python-docs"]
        return [*text, *own, *self.limit, "--seed", str(seed)]

    def check(self, variant: str) -> None:
        """Raise ValueError for flags that cannot be read, such as a quotation mark without its pair."""
        settings, _ = Parser(TrainConfig, prog="train.py", description="").read(self.flags(variant, 0))
        settings.check()

    def run(self, variant: str, seed: int) -> Run:
        """Return the result of a run that is finished, or else make, or continue, the run first."""
        out = self.place(variant, seed)
        failed = out.with_suffix(f"{out.suffix}.failed")
        if failed.exists():
            return None
        if (result := _result(out)) is None:
            begun = (out / "minigrad.json").exists()
            way = ["--resume", str(out)] if begun else [*self.flags(variant, seed), "--out", str(out)]
            code = _wait(subprocess.Popen([sys.executable, str(ROOT / "train.py"), *way], env=environment.as_found()))
            if code == 2 or code > 128:  # it was refused, or ended by a signal: it has not failed
                raise SystemExit(code)
            if code or (result := _result(out)) is None:
                failed.parent.mkdir(parents=True, exist_ok=True)
                failed.write_text(f"train.py ended with exit code {code}\n", encoding="utf-8")
        return result


def _wait(process: subprocess.Popen[bytes]) -> int:
    """Return the exit code of a process, as in a shell, when it has ended.

    A signal that stops this program stops the process, which saves first; Ctrl-C reaches it by itself.
    """

    def pass_on(number: int, _: object) -> None:
        if number != signal.SIGINT:
            process.send_signal(number)

    before = {number: signal.getsignal(number) for number in EXIT_CODES}
    for number, handler in before.items():
        if handler is not signal.SIG_IGN:  # as by nohup
            signal.signal(number, pass_on)
    try:
        code = process.wait()
        return code if code >= 0 else 128 - code
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _result(out: Path) -> Run:
    """Return the result of a finished run, None if there is none yet."""
    try:
        result: dict[str, Any] = json.loads((out / "minigrad.json").read_text(encoding="utf-8")).get("result", {})
        lines = (out / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return None
    if not result:
        return None
    records = [json.loads(line) for line in lines]
    copying = [each["step"] for each in records if (each.get("val_loss_repeated") or math.inf) <= COPIES]
    speed = statistics.median(each["tokens_per_second"] for each in records)
    return result | {"tokens_per_second": speed, "copies_from": copying[0] if copying else None}


def table(runs: dict[str, list[Run]]) -> list[str]:
    """Return the lines of a table of the default, which is the first, and of all variants; failures stay in it.

    "Copy" are the runs that were found to copy from their context, and the step by which all of these were.
    """
    default, *_ = runs.values()
    lines = ["| variant | runs | bits per byte | difference, 95% interval | copy | repeated pairs, nats | tokens/s |"]
    lines.append("| --- | --: | --: | --: | --: | --: | --: |")
    for name, found in runs.items():
        done = [each for each in found if each is not None]
        if not done:
            lines.append(f"| {name} | 0 of {len(found)} | failed | | | | |")
            continue
        scores = [each["bits_per_byte"] for each in done]
        spread = f" ± {statistics.stdev(scores):.4f}" if len(scores) > 1 else ""
        pairs = [(new, old) for new, old in zip(found, default, strict=False) if new and old]
        compared = ""
        if found is not default and pairs:
            mean, low, high = interval([new["bits_per_byte"] - old["bits_per_byte"] for new, old in pairs])
            compared = f"{mean:+.4f}, {low:+.4f} to {high:+.4f}"
        nats = [each["loss_repeated"] for each in done if each["loss_repeated"] is not None]
        steps = [each["copies_from"] for each in done if each["copies_from"] is not None]
        copy = f"{len(steps)} of {len(done)}" + (f", by step {max(steps):,}" if steps else "")
        speed = statistics.fmean(each["tokens_per_second"] for each in done)
        lines.append(
            f"| {name} | {len(done)} of {len(found)} | {statistics.fmean(scores):.4f}{spread} | {compared} | {copy} | "
            f"{statistics.fmean(nats or [math.nan]):.2f} | {speed:,.0f} |"
        )
    return lines


def divide(words: Sequence[str]) -> tuple[Sequence[str], Sequence[str]]:
    """Return the words before and after the first "--"."""
    end = words.index("--") if "--" in words else len(words)
    return words[:end], words[end + 1 :]


def main() -> None:
    """Make the runs that are missing, print the table after every seed, and write all results as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the folder in which the runs are kept")
    limit = parser.add_mutually_exclusive_group(required=True)
    limits = ("steps", "tokens", "minutes")
    for name in limits:
        limit.add_argument(f"--{name}", help="the length of every run")
    parser.add_argument("--seeds", type=int, default=5, help="the number of seeds")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--common", default="", help='flags of every run as one word, as in --common="--size nano"')
    parser.epilog = 'After -- each word holds the flags of one variant: -- "--lr 0.004 --dropout 0" "--lr 0.008"'
    own, variants = divide(sys.argv[1:])
    arguments = parser.parse_args(own)
    length = next((f"--{name}", value) for name, value in vars(arguments).items() if name in limits and value)
    trial = Trial(arguments.folder, length, arguments.common)
    if not variants:
        parser.error("give at least one variant after --")
    for variant in ("", *variants):
        try:
            trial.check(variant)
        except ValueError as error:
            parser.error(f"{variant or 'the default'}: {error}")
    print(describe_machine())
    runs: dict[str, list[Run]] = {"the default": [], **{variant: [] for variant in variants}}
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        for variant, found in runs.items():
            found.append(trial.run("" if variant == "the default" else variant, seed))
        print(f"\n{' '.join(length)} {arguments.common}".rstrip() + "\n\n" + "\n".join(table(runs)), flush=True)
    results = {"limit": length, "common": arguments.common, "runs": runs}
    (arguments.folder / "results.json").write_text(json.dumps(results, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
