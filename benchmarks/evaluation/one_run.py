"""One run of a study, in a process of its own: `run.py` starts it, and starts it again after a kill."""

from __future__ import annotations

import dataclasses
import importlib.util
import json
import platform
import shutil
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from minigrad.system import hardware  # isort: skip  (before NumPy)

from benchmarks.evaluation.study import Arm, Job, Study, code_digest
from minigrad.cli.exits import exit_code
from minigrad.errors import DivergenceError, InputError
from minigrad.formats.json_files import read_json, write_json
from minigrad.system.locks import FolderLock
from minigrad.training.settings import TrainConfig

if TYPE_CHECKING:
    from minigrad.training.run import Guest

RESULT, TEST, FAILED = "result.json", "test.json", "failed.json"
_PATIENCE = 600  # seconds
FAILS = 3  # the exit code of a run that diverged or whose arm has a fault, so that another try would end alike


def install(study: Study, arm: Arm) -> list[Guest]:
    """Let the family of an arm build the models of the arm's class; return the guests that this class wants."""
    if not arm.model:
        return []
    import models

    file, _, name = arm.model.rpartition(":")
    spec = importlib.util.spec_from_file_location(f"arms_{Path(file).stem}", study.file_of(arm))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # where a dataclass looks for its module
    spec.loader.exec_module(module)
    family = study.config(arm).model
    own = getattr(module, name)
    for each in arm.attributes:
        if not hasattr(own, each):
            raise InputError(f"the class of {arm.name!r} has no attribute {each!r}")
    made = type(name, (own,), dict(arm.attributes))
    models.FAMILIES[family] = models.FAMILIES[family]._replace(model=made)
    return [guest() for guest in getattr(made, "guests", ())]


def settings(study: Study, job: Job, out: Path) -> TrainConfig:
    """Return the settings of a run."""
    from minigrad.training.planning.choices import CONTEXT, TOKENS_PER_STEP

    limit: dict[str, Any] = {"tokens": job.amount} if job.kind == "tokens" else {"minutes": job.amount / 60}
    own = limit | {"sample_every": 10**9} | ({} if job.rate is None else {"lr": job.rate})
    config = study.config(study.named(job.arm))
    if config.batch is None:  # which train.py would choose by the speed of the machine at that moment
        own["batch"] = max(1, TOKENS_PER_STEP // (config.context or CONTEXT))
    return dataclasses.replace(config, data=job.corpus, seed=job.seed, threads=1, out=str(out), **own)


def wait_for_others(out: Path) -> None:
    """Wait until no other process writes a run: one whose runner was killed ends at its next step, or at its end.

    Raises InputError if one still writes after ten minutes.
    """
    end = time.monotonic() + _PATIENCE
    with FolderLock() as lock:
        while out.is_dir():
            try:
                lock.take(out)
            except InputError:
                if time.monotonic() > end:
                    raise
                time.sleep(1)
            else:
                return


def make(study: Study, job: Job, out: Path) -> None:
    """Train the model of a run, or continue its training, and write its result; the checkpoints are then removed."""
    wait_for_others(out)
    if (out / RESULT).exists():
        return  # which another process has written meanwhile
    hardware.prepare(1)
    code = code_digest(study)  # of the files as they are now, before they are imported
    arm = study.named(job.arm)
    guests = install(study, arm)
    from benchmarks.evaluation.judge import Judge
    from minigrad.formats.folders import RECORD
    from minigrad.training.folder import metrics
    from minigrad.training.folder.record import REPORT, Record
    from train import train

    config = settings(study, job, out)
    if (out / RECORD).exists():
        (out / REPORT).unlink(missing_ok=True)  # killed after its end and before its result: it ends again
        config = TrainConfig(resume=str(out))
    else:
        shutil.rmtree(out, ignore_errors=True)  # killed before it could be continued
    judge = Judge(arm.name, study.judged, leaks=arm.leaks)
    trained = train(config, clock=judge.clock, guests=[*guests, judge])
    assert trained is not None
    record, lines = Record.read(out), metrics.read(out)
    facts = {name: getattr(record, name) for name in ("parameters", "text", "validation_text", "test_text", "hardware")}
    last = {name: value for name, value in lines[-1].items() if name == "merge_ratio"}
    result = {
        "job": dataclasses.asdict(job),
        "arm": {"model": arm.model, "attributes": arm.attributes},
        "study": study.digest(),
        "code": code,
        "versions": record.versions | {"system": platform.system()},
        "arithmetic": record.arithmetic,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": {name: record.used[name] for name in sorted(record.used) if record.used[name] is not None},
        "steps": trained.steps,
        "tokens": trained.tokens,
        "seconds": lines[-1]["seconds"],  # until the last evaluation: what the judge does then is not counted
        "curve": [[line["tokens"], line["val_bits_per_byte"]] for line in lines if "val_bits_per_byte" in line],
        **(facts | last | judge.found),
    }
    write_json(out / RESULT, result)
    for folder in ("checkpoints", "best"):
        shutil.rmtree(out / folder, ignore_errors=True)


def open_test(study: Study, job: Job, out: Path) -> None:
    """Judge the model of a finished run on the test text of its corpus."""
    hardware.prepare(1)
    install(study, study.named(job.arm))
    import models
    import tokenizer
    from benchmarks.evaluation.judge import judged
    from minigrad.data import mixture
    from minigrad.data.tokens.token_files import prepare
    from minigrad.data.tokens.tokenized import token_byte_lengths
    from minigrad.kernels.gemm import backend
    from minigrad.training.folder.record import Record
    from minigrad.training.folder.run_folder import of_test

    record, model, tok = Record.read(out), models.load(out), tokenizer.load(out)
    documents = mixture.load(record.text_name, held_out=record.used.get("held_out")).split().test
    if of_test(documents) != record.test_text:
        raise InputError(
            f"the test text of {record.text_name} is not the one that {out} held out: the text has changed, or it is "
            "that of another version of Python or of a library. Open the test where the runs were made"
        )
    sizes = token_byte_lengths(tok, model.config.vocab_size)
    with backend.own_choice():
        backend.use(record.used.get("matmul", "auto"), record.used.get("precision", "float32"))
        rows = judged(model, prepare(documents, tok), sizes, study.judged, record.used["documents"])
    write_json(out / TEST, {"documents": rows})


def main() -> int:
    """Run the command line: a study, the folder of the run, and the run as JSON."""
    words = sys.argv[1:]
    study, out, job = Study.read(Path(words[0])), Path(words[1]), Job(**json.loads(words[2]))
    work, diverged = open_test if words[3:] == ["--test"] else make, False

    def noting() -> None:
        nonlocal diverged
        try:
            work(study, job, out)
        except DivergenceError:
            diverged = True
            raise

    said, less = "interrupted", "take fewer runs side by side"
    try:
        code = exit_code("run", noting, interrupted=said, less_memory=less)
    except Exception:
        traceback.print_exc()
        return FAILS
    return FAILS if diverged else code


def read_result(out: Path) -> dict[str, Any] | None:
    """Return the result of a finished run with its test, if that was opened; None for a run that is not finished."""
    if not (out / RESULT).exists():
        return None
    found = read_json(out / RESULT)
    return found | ({"test": read_json(out / TEST)["documents"]} if (out / TEST).exists() else {})


if __name__ == "__main__":
    sys.exit(main())
