"""The finished runs of a study, and the learning rates that were chosen by them."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.evaluation.checks import Result, check
from benchmarks.evaluation.one_run import FAILED, read_result
from benchmarks.evaluation.study import Comparison, Job, Study
from minigrad.errors import InputError
from minigrad.evaluate.losses import bits_per_byte
from minigrad.formats.json_files import read_json
from minigrad.formats.typed import read_dataclass
from minigrad.system.files import replacing

_OF_A_RESULT = {"job", "study", "code", "versions", "settings", "parameters", "tokens", "order", "text", "documents"}
_OF_A_RESULT |= {"arithmetic", "copy", "curve", "hardware", "seconds", "steps"}
_COLUMNS = 5  # of a document: bytes, tokens, nats, tokens that complete a pair, nats of these
_MOST_DOCUMENTS = 1_000  # with more of them, the table of a study may take megabytes


class Results(NamedTuple):
    """The results of finished runs, and the jobs of runs that failed, each with the reason."""

    finished: list[Result]
    failed: list[tuple[Job, str]]

    def of(self, comparison: Comparison, arm: str) -> dict[int, Result]:
        """Return the runs of an arm by seed."""
        rows = (each for each in self.finished if each["job"]["arm"] == arm)
        return {each["job"]["seed"]: each for each in rows if comparison.has(Job(**each["job"]))}

    def tuned(self, arm: str, corpus: str) -> dict[float, list[float]]:
        """Return the scores of an arm by learning rate; a run that failed has infinity."""
        found = defaultdict[float, list[float]](list)
        for each in self.finished:
            job = each["job"]
            if job["tunes"] and (job["arm"], job["corpus"]) == (arm, corpus):
                found[job["rate"]].append(score(each))
        for job, _ in self.failed:
            if job.tunes and (job.arm, job.corpus) == (arm, corpus):
                found[job.rate or 0.0].append(math.inf)
        return dict(found)


def read(study: Study, folder: Path) -> Results:
    """Return the runs of a study that are finished or failed; raises InputError if they are not comparable.

    Of a text with more than a thousand documents, neighbours are summed, and a sum is what follows calls a document.
    """
    found = Results([], [])
    for place in sorted(folder.glob("*/*/*/seed-*")):
        if not place.is_dir():
            continue
        if (result := read_result(place)) is not None:
            if lacking := _OF_A_RESULT - result.keys():
                raise InputError(
                    f"the result in {place} has no {min(lacking)}; remove this folder to make the run again"
                )
            found.finished.append(result)
        elif (place / FAILED).exists():
            failure = read_json(place / FAILED)
            found.failed.append((Job(**failure["job"]), failure["reason"]))
    checked = _checked(study, found)
    return checked._replace(finished=[_grouped(each) for each in checked.finished])


def _checked(study: Study, found: Results) -> Results:
    """Return the results; raises InputError if they are not comparable, or a run has not the rate that was chosen."""
    for each in found.finished:
        _check_numbers(study, each)
    check(study, found.finished)
    finished = {Job(**each["job"]) for each in found.finished}
    for job, _ in found.failed:
        called = f"{study.path.name}: the failed run of {job.arm!r} (seed {job.seed})"
        if not study.plans(job):
            raise InputError(f"{called} is not one of the runs that the study plans")
        if job in finished:
            raise InputError(f"{called} is also there as a finished one: remove one of them")
    for each in found.finished:
        job = Job(**each["job"])
        if not job.tunes and job.rate != (chosen := chosen_rate(study, found, job.arm, job.corpus)):
            raise InputError(
                f"{study.path.name}: {job.arm!r} (seed {job.seed}) was trained with the learning rate {job.rate}, and "
                f"the runs that choose one say {chosen}"
            )
    return found


def _check_numbers(study: Study, result: Result) -> None:
    """Raise InputError if a result does not name a run, or has other than finite numbers for its documents."""
    job = read_dataclass(Job, result["job"], f"{study.path.name}: job")
    for part in {"documents", "test"} & result.keys():
        rows = [row for length in study.judged for row in result[part].get(str(length), [[]])]
        if not rows or any(len(row) != _COLUMNS or not all(0 <= each < math.inf for each in row) for row in rows):
            raise InputError(
                f"{study.path.name}: the result of {job.arm!r} (seed {job.seed}) is damaged: in its {part}, each "
                f"document has {_COLUMNS} finite numbers, none below 0, for each of the lengths {study.judged}"
            )


def _grouped(result: Result) -> Result:
    """Return a result with at most a thousand rows for each length: groups of neighbours if there are more."""

    def sums(rows: list[list[float]]) -> list[list[float]]:
        if len(rows) <= _MOST_DOCUMENTS:
            return rows
        size = math.ceil(len(rows) / _MOST_DOCUMENTS)
        groups = (rows[start : start + size] for start in range(0, len(rows), size))
        return [[round(sum(column), 4) for column in zip(*group, strict=True)] for group in groups]

    parts = {"documents", "test"} & result.keys()
    return result | {part: {length: sums(rows) for length, rows in result[part].items()} for part in parts}


def score(result: Result, length: int | None = None, part: str = "documents") -> float:
    """Return the bits per byte of a run, by default on sequences of the first length that is judged."""
    rows = result[part]
    documents = rows[str(length)] if length else next(iter(rows.values()))
    return bits_per_byte(sum(row[2] for row in documents), sum(row[0] for row in documents))


def nats(result: Result, length: int) -> tuple[float, float]:
    """Return the mean loss of the tokens that complete a pair of their sequence, and that of all others, in nats."""
    _, tokens, loss, repeated, of_repeated = (
        sum(column) for column in zip(*result["documents"][str(length)], strict=True)
    )
    return of_repeated / max(repeated, 1), (loss - of_repeated) / max(tokens - repeated, 1)


def chosen_rate(study: Study, results: Results, arm: str, corpus: str) -> float | None:
    """Return the learning rate with the fewest failed runs, and of these the one with the best mean of the others.

    None while runs are missing that choose it.
    """
    tuning, found = study.tuning, results.tuned(arm, corpus)
    if tuning is None or sum(map(len, found.values())) < len(study.rates_of(study.named(arm))) * tuning.seeds:
        return None

    def failures_and_mean(rate: float) -> tuple[int, float]:
        finite = [each for each in found[rate] if each < math.inf]
        return len(found[rate]) - len(finite), sum(finite) / max(len(finite), 1)

    return min(found, key=failures_and_mean)


def write_table(path: Path, results: Results) -> None:
    """Write all results as one compressed file, a line of JSON each, which `read_table` reads."""
    lines = [json.dumps(each, separators=(",", ":")) for each in results.finished]
    lines += [json.dumps({"failed": vars(job), "reason": reason}) for job, reason in results.failed]
    with replacing(path) as temporary:
        temporary.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))


def read_table(path: Path, study: Study) -> Results:
    """Return the results in a compressed file, with the documents or the sums of documents that were packed.

    Raises InputError if they are not comparable, or not of this study.
    """
    found = Results([], [])
    try:
        with gzip.open(path, "rt", encoding="utf-8") as file:
            lines: list[Any] = [json.loads(line) for line in file]
    except (OSError, EOFError, ValueError, zlib.error) as error:
        raise InputError(f"{path} holds no results: {error}") from None
    for number, line in enumerate(lines, 1):
        if not isinstance(line, dict) or not ({"failed", "reason"} <= line.keys() or line.keys() >= _OF_A_RESULT):
            raise InputError(f"{path} holds no results: line {number} is not one; report.py --pack writes them")
        if "failed" in line:
            found.failed.append((Job(**line["failed"]), line["reason"]))
        else:
            found.finished.append(line)
    return _checked(study, found)
