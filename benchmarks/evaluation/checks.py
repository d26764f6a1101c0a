"""What must hold of the runs of a study before they may be compared; each failure is one sentence."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.evaluation.study import Job, Study
from minigrad.errors import InputError
from minigrad.training.planning.choices import warmup_steps

Result = dict[str, Any]
"""What a finished run leaves: see `one_run.make`."""

_SAME = {"code": "version of the code", "versions": "set of versions"}
_CUT = ("context", "batch", "accumulate", "documents")  # a run that reads other pieces has another order
_OF_THE_LENGTH = ("steps", "decay", "decay_start", "eval_every", "log_every", "save_every")
_CHOSEN = {"lr": "learning rate", "warmup": "warm-up", "dropout": "dropout"}  # by train.py, for a model and a length
_SHORTEST, _LONGEST = 0.8, 1.1  # of the seconds of a run, of which train.py keeps some for a comparison with xz
_SLOWER = 1.02  # how far the times of one seed may be apart in runs of equal time


def check(study: Study, results: Sequence[Result]) -> None:
    """Raise InputError if runs are not comparable."""
    if found := list(problems(study, results)):
        raise InputError(f"{study.path.name}: the runs cannot be compared. " + "; ".join(found))


def problems(study: Study, results: Sequence[Result]) -> Iterator[str]:
    """Yield a sentence for everything that makes runs incomparable."""
    if others := [each for each in results if each["study"] != study.digest()]:
        yield from (f"{_called(each)} was made for another study, or another version of its file" for each in others)
        return
    if strange := [each for each in results if not study.plans(Job(**each["job"]))]:
        yield from (f"{_called(each)} is not one of the runs that the study plans" for each in strange)
        return
    for name, what in _SAME.items():
        if len({str(each[name]) for each in results}) > 1:
            of = ", ".join(sorted({str(each[name]) for each in results}))
            yield f"they were made with more than one {what} ({of})"
    for each in results:
        yield from _of_one(study, each)
    by_comparison = defaultdict(list)
    for each in results:
        job = each["job"]
        by_comparison[job["tunes"], job["corpus"], job["kind"], job["amount"]].append(each)
    for rows in by_comparison.values():
        yield from _of_all(study, rows)


def _of_one(study: Study, result: Result) -> Iterator[str]:
    """Yield what is wrong with a run by itself."""
    job, used = result["job"], result["settings"]
    if used.get("seed", 0) != job["seed"]:
        yield f"{_called(result)} was trained with the seed {used.get('seed', 0)}"
    arm = study.named(job["arm"])
    given = study.given(arm)
    if (warmup := given.get("warmup")) is not None:
        given["warmup"] = warmup_steps(warmup, result["steps"])
    for name, value in given.items():
        if not _is_as_given(name, used.get(name), value):
            yield f"{_called(result)} was trained with {name} {used.get(name)}, and its flags say {value}"
    if "set" in used and "set" not in given:
        yield f"{_called(result)} was trained with set {used['set']}, which its flags do not have"
    if used["data"] != job["corpus"]:
        yield f"{_called(result)} was trained on {used['data']}, and its text is {job['corpus']}"
    own = {"model": arm.model, "attributes": arm.attributes}
    if result.get("arm", own) != own:  # the oldest results do not name their class
        yield f"{_called(result)} is of the class and attributes {result['arm']}, and its arm says {own}"
    if job["rate"] is not None and used["lr"] != job["rate"]:
        yield f"{_called(result)} was trained with the learning rate {used['lr']:g}, and {job['rate']:g} was chosen"
    a_step = used["context"] * used["batch"] * used["accumulate"]
    if job["kind"] == "tokens" and not 0 <= result["tokens"] - job["amount"] < a_step:
        yield f"{_called(result)} read {result['tokens']:,} tokens of {job['amount']:,}"
    if job["kind"] == "seconds" and not _SHORTEST <= result["seconds"] / job["amount"] <= _LONGEST:
        yield f"{_called(result)} took {result['seconds']:.0f} seconds of {job['amount']}"


def _is_as_given(name: str, used: Any, given: Any) -> bool:
    """Whether a run had a setting of its flags; of a model that is given by its name, it notes the folder."""
    if name in ("init", "teacher"):
        return Path(str(used)).name == Path(str(given)).name
    return bool(given in (None, "auto") or used == given)


def _of_all(study: Study, rows: Sequence[Result]) -> Iterator[str]:
    """Yield what is wrong between the runs of one text and one length."""
    yield from _unequal_parameters(study, rows)
    yield from _unpaired(study, rows)
    yield from _unequal_seeds(study, rows)
    yield from _copied(study, rows)
    for row, control, name in _unlike_control(study, rows):
        if name not in _CHOSEN:
            values = row["settings"].get(name), control["settings"].get(name)
            yield f"{_called(row)} has {name} {values[0]}, the control {values[1]}, and the flags of neither name it"
    for part in ("validation", "test"):
        judged_by = {(each["text"], each.get(f"{part}_text")) for each in rows}  # hashes of tokens
        if len(judged_by) > len({text for text, _ in judged_by}):
            yield f"they were judged on more than one {part} text"
    arithmetic = {(each["settings"].get("precision"), each["arithmetic"]) for each in rows}
    if len(arithmetic) > len({precision for precision, _ in arithmetic}):
        of = "; ".join(sorted({each["arithmetic"] for each in rows}))
        yield f"runs of one precision were computed with more than one arithmetic ({of})"
    for part, length in itertools.product(("documents", "test"), map(str, study.judged)):
        sizes = {tuple(row[0] for row in each[part][length]): each for each in rows if part in each}
        if len(sizes) > 1:
            first, other, *_ = sizes.values()
            yield f"{_called(first)} and {_called(other)} were judged on different documents"
        counts = {(each["text"], tuple(row[1] for row in each[part][length])) for each in rows if part in each}
        if len(counts) > len({text for text, _ in counts}):
            yield "documents differ in their numbers of tokens, although the tokenizer is the same"
    if rows[0]["job"]["kind"] == "seconds":
        yield from _unequal_times(rows)


def _unequal_seeds(study: Study, rows: Sequence[Result]) -> Iterator[str]:
    """Yield what differs between the runs of an arm, which have equal settings if they read equally many tokens.

    The learning rate that a study chooses is compared with its choice (`results`).
    """
    by_arm = defaultdict[str, list[Result]](list)
    for each in rows:
        if each["job"]["kind"] == "tokens" and not each["job"]["tunes"]:
            by_arm[each["job"]["arm"]].append(each)
    for arm, several in by_arm.items():
        for name in sorted({*_CHOSEN, "steps", "decay", "decay_start"} - {"lr" if study.tuning else ""}):
            values = {str(each["steps"] if name == "steps" else each["settings"].get(name)) for each in several}
            if len(values) > 1:
                yield f"the runs of the arm {arm!r} have more than one value of {name} ({', '.join(sorted(values))})"


def _copied(study: Study, rows: Sequence[Result]) -> Iterator[str]:
    """Yield the first two runs with the same losses: their difference, of zero, would seem to be proven."""
    for part, length in itertools.product(("documents", "test"), map(str, study.judged)):
        found = dict[tuple[Any, ...], Result]()
        for each in rows:
            other = found.setdefault(tuple(map(tuple, each[part][length])), each) if part in each else each
            if other is not each:
                yield (
                    f"{_called(other)} and {_called(each)} have the same losses to the last digit: the arm changes "
                    "nothing, or one of the results was copied"
                )
                return


def _unequal_times(rows: Sequence[Result]) -> Iterator[str]:
    if len({each["hardware"] for each in rows}) > 1:
        yield "runs of equal seconds were made on different machines"
    for several in _by_seed(rows).values():
        first, last = (choose(several, key=lambda each: each["seconds"]) for choose in (min, max))
        if last["seconds"] > _SLOWER * first["seconds"]:
            taken = f"took {first['seconds']:.0f} seconds and {_called(last)} {last['seconds']:.0f}"
            yield f"{_called(first)} {taken}: with equal seconds, times may differ by {100 * (_SLOWER - 1):.0f}%"


def _by_seed(rows: Sequence[Result]) -> dict[int, list[Result]]:
    found = defaultdict[int, list[Result]](list)
    for each in rows:
        found[each["job"]["seed"]].append(each)
    return found


def _unlike_control(study: Study, rows: Sequence[Result]) -> Iterator[tuple[Result, Result, str]]:
    """Yield a run, that of the control with its seed, and a setting that differs though no flags of theirs name it.

    What follows from the length of a run may differ, and how the text is cut is compared where runs are paired.
    """
    for several in _by_seed(rows).values():
        control = next((each for each in several if each["job"]["arm"] == study.control), None)
        for each in several if control else ():
            arms = study.named(each["job"]["arm"]), study.named(study.control)
            flags = {name for arm in arms for name, value in study.given(arm).items() if value not in (None, "auto")}
            names = (each["settings"].keys() | control["settings"].keys()) - {"set", *flags, *_CUT, *_OF_THE_LENGTH}
            differs = [name for name in names if each["settings"].get(name) != control["settings"].get(name)]
            yield from ((each, control, name) for name in sorted(differs))


def chosen_otherwise(study: Study, rows: Sequence[Result]) -> Iterator[str]:
    """Yield a sentence for each arm and setting that train.py chose otherwise than for the control.

    It chooses a learning rate, a warm-up and a dropout by the size of a model and the length of its run. An arm is
    compared with them, as a user would train it, so this is not refused; but a difference may be one of these settings.
    Learning rates that the study itself chose are in a table of their own.
    """
    found = defaultdict[tuple[str, str], list[tuple[float, float]]](list)
    for row, control, name in _unlike_control(study, rows):
        if name != "lr" or study.tuning is None:
            found[row["job"]["arm"], name].append((row["settings"].get(name, 0.0), control["settings"].get(name, 0.0)))
    for (arm, name), values in found.items():
        own, others = (" to ".join(f"{each:g}" for each in sorted({min(v), max(v)})) for v in zip(*values, strict=True))
        yield f"{arm}: train.py chose a {_CHOSEN[name]} of {own}, and for the control of {others}."


def _unequal_parameters(study: Study, rows: Sequence[Result]) -> Iterator[str]:
    control = next((each["parameters"] for each in rows if each["job"]["arm"] == study.control), None)
    counts = sorted({(each["job"]["arm"], each["parameters"]) for each in rows})
    if several := [name for (name, _), (following, _) in itertools.pairwise(counts) if name == following]:
        yield f"the runs of the arm {several[0]!r} differ in their numbers of parameters"
    for name, count in counts:
        if control and not study.named(name).unequal_parameters and abs(count / control - 1) > study.parameters_within:
            more = f"{100 * (count / control - 1):+.1f}%, and {100 * study.parameters_within:g}% are allowed"
            yield (
                f"the arm {name!r} has {count:,} parameters, the control {control:,}: {more}. Change its widths, or "
                "say why in unequal_parameters"
            )


def _unpaired(study: Study, rows: Sequence[Result]) -> Iterator[str]:
    """Yield the runs of one seed that read another text, or other pieces or another order of it."""
    orders = defaultdict[str, set[int]](set)
    twice = set[tuple[Any, ...]]()
    for each in rows:
        job = each["job"]
        orders[each["order"]].add(job["seed"])
        if (key := (job["arm"], job["seed"], job["rate"] if job["tunes"] else None)) in twice:
            yield f"there are two runs of {_called(each)}"
        twice.add(key)
    for several in orders.values():
        if len(several) > 1:
            yield f"runs with the seeds {sorted(several)} read the same tokens in the same order: they are not several"
    for seed, paired in _by_seed([each for each in rows if not study.named(each["job"]["arm"]).own_order]).items():
        cuts = {(each["text"], *(each["settings"].get(name) for name in _CUT)): each for each in paired}
        if len(cuts) > 1:
            first, other, *_ = cuts.values()
            yield (
                f"with seed {seed}, {_called(first)} and {_called(other)} read other pieces of text. If the arm is "
                "about that, say why in own_order"
            )
        elif len({each["order"] for each in paired}) > 1:
            first, other, *_ = {each["order"]: each for each in paired}.values()
            yield f"with seed {seed}, {_called(first)} and {_called(other)} read the text in another order"


def _called(result: Result) -> str:
    job = result["job"]
    rate = f", learning rate {job['rate']:g}" if job["tunes"] else ""
    return f"{job['arm']!r} (seed {job['seed']}{rate})"
