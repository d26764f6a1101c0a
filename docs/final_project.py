"""The final project: `python docs/final_project.py STEP FAMILY` says pass, or what is missing.

The page final_project.md says what each of the five steps is about. Everything but the family itself is in the folder
projects/FAMILY: study.toml, run/, runs/, answer.md and page.html. The checks read; they write nothing there.
"""

from __future__ import annotations

import argparse
import base64
import json
import re
import sys
import tempfile
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from minigrad.system import hardware  # isort: skip  (before NumPy)

import numpy as np

import models
from benchmarks.evaluation.causality import ALLOWED, leak
from benchmarks.evaluation.report import LEAST_PAIRS, at_end, compare, differences
from benchmarks.evaluation.results import read
from benchmarks.evaluation.study import Arm, Study
from minigrad import no_grad
from minigrad.errors import InputError
from minigrad.nn.language_model import LanguageModel
from minigrad.options import assignments
from minigrad.pages.model_page.export import export
from minigrad.training.folder.record import Record
from models import names

FORMATS = (None, "float16", "bfloat16", "int8", "int4")  # of the weights in a page

CLOSE = 1e-9  # differences of logits in float64, relative to the largest
LONG = 256  # tokens of the sequences by which families are told apart, and in which a leak is sought
SLOPE_CLOSE = 1e-5  # of a gradient from a slope that is measured with a step of 1e-5


class Project(NamedTuple):
    """The name of a family, and the folder with everything else."""

    family: str
    folder: Path


def design(project: Project) -> Iterator[str]:
    """The family keeps the laws of a language model, and it is not another one under a new name."""
    if project.family not in models.FAMILIES or project.family not in names.SIZES:
        yield f"add {project.family!r} to FAMILIES in models/registry.py and to SIZES in models/names.py"
        return
    if absent := [size for size in names.LAPTOP_SIZES if size not in models.FAMILIES[project.family].sizes]:
        yield f"add the sizes {', '.join(absent)} to SIZES in the file of the family"
        return
    model = models.build(project.family, "nano", vocab_size=64, dtype="float64").eval()
    ids = np.random.default_rng(0).integers(64, size=(2, 24))
    with no_grad():
        logits = model(ids).data
        one_by_one = np.concatenate([model(row[None]).data for row in ids])
        cache = model.new_cache(batch_size=2, max_length=24)
        stepwise = np.concatenate([model(ids[:, place : place + 1], cache=cache).data for place in range(24)], axis=1)
    if not leak(model, LONG) <= ALLOWED:  # and not >: nan is no pass
        yield "a token sees later ones: exchange a token, and the logits before it change"
    if not _apart(one_by_one, logits) <= CLOSE:
        yield "sequences of a batch see each other: one by one, they have other logits"
    if not _apart(stepwise, logits) <= CLOSE:
        yield "token by token with a cache, the logits are not those of the whole sequence"
    if not (error := _gradient_error(model, ids)) <= SLOPE_CLOSE:
        yield f"the gradient is wrong: in a random direction it differs from the slope by a share of {error:.1g}"
    with tempfile.TemporaryDirectory() as folder:
        model.save(folder)
        with no_grad():
            if not _apart(models.load(folder).eval()(ids).data, logits) <= 1e-4:  # loaded as float32
                yield "a model that is saved and loaded has other logits"
    if same := _same_as(project.family, model):
        yield f"with the same weights it computes what {same} computes: change something"
    try:
        export(models.build(project.family, "nano", vocab_size=64).eval())
    except InputError as error:
        yield f"it cannot be put into a page, which step 5 needs: {error}"


def question(project: Project) -> Iterator[str]:
    """The study asks one question about the family, and was committed before an answer was known."""
    study, arm = yield from _study(project)
    if study is None or arm is None:
        return
    if not study.question.strip().endswith("?"):
        yield "question is not a question: let it end with a question mark"
    if study.config(study.named(study.control)).model == project.family:
        yield f"the control {study.control!r} is the new family itself; compare it with one that is there"
    if few := [each.name for each in study.arm if len(study.seeds_of(each)) < LEAST_PAIRS]:
        yield f"{', '.join(few)}: too few seeds; {LEAST_PAIRS} pairs are the fewest after which no difference is said"
    count, control = (_parameters(study, each) for each in (arm, study.named(study.control)))
    if abs(count / control - 1) > study.parameters_within and not arm.unequal_parameters:
        yield (
            f"{arm.name!r} has {count:,} parameters and the control {control:,}, {100 * (count / control - 1):+.1f}%: "
            f"{100 * study.parameters_within:g}% are allowed. Change a width, or say why in unequal_parameters"
        )
    if study.commit() == "not committed":
        yield f"commit {study.path.name} as it is, before the first run: git add, git commit"


def training(project: Project) -> Iterator[str]:
    """One model of the family was trained to its end, beats a table of byte counts, and was tested once."""
    record = yield from _run(project)
    if record is None:
        return
    result = record.result
    if "bits_per_byte" not in result:
        run = project.folder / "run"
        yield f"the run in {run} has not ended: python train.py --resume {run}"
        return
    if "test_bits_per_byte" not in result:
        yield "the test text was not read: give train.py the flag --test"
    counted = result.get("ngram_bits_per_byte")
    if counted is None:
        yield "the run was too short for the table of which byte follows which five: train longer"
    elif result["bits_per_byte"] >= counted:
        yield (
            f"it needs {result['bits_per_byte']:.2f} bits per byte of validation text, and a table of which byte "
            f"follows which five needs {counted:.2f}: train longer, or look for what keeps it from learning"
        )


def answer(project: Project) -> Iterator[str]:
    """All runs of the study are finished, the test is opened, and the answer says what the report says."""
    study, arm = yield from _study(project)
    if study is None or arm is None:
        return
    results = read(study, project.folder / "runs")
    if missing := study.count() - len(results.finished) - len(results.failed):
        command = f"python benchmarks/evaluation/run.py {project.folder / 'study.toml'} --out {project.folder / 'runs'}"
        yield f"{missing} of {study.count()} runs are missing: {command}"
        return
    if not all("test" in each for each in results.finished if not each["job"]["tunes"]):
        yield "the test text was not opened: the command of the runs, with --open-test"
        return
    first = study.comparisons()[0]
    compared = compare(study, results, first, study.judged[0], "test")
    table = differences(study, compared, at_end(study, results, first.corpus))
    row = next(row for row in table.rows if row[0] == arm.name)
    if row[1] == "0":
        yield f"no run of {arm.name!r} was finished"
        return
    path = project.folder / "answer.md"
    text = _text_of(path) if path.exists() else ""
    said = re.search(r"^Verdict: (.*?)\.?$", text, flags=re.MULTILINE)
    if said is None:
        yield f"{path} has no line that begins with 'Verdict: '; write there what the report says of {arm.name!r}"
    elif said[1].strip() != row[-1]:
        yield f"your verdict is {said[1].strip()!r}, and the report's is another; read its first table of test text"
    if row[4] not in text:
        yield f"{path} does not have the difference on test text as the report prints it, with sign and four digits"


def page(project: Project) -> Iterator[str]:
    """The page holds the weights of the trained model, and asks for nothing from anywhere."""
    record = yield from _run(project)
    path = project.folder / "page.html"
    if not path.exists():
        run = project.folder / "run"
        yield f"there is no {path}: python generate.py {run} --quantize int8 --page {path}"
    if record is None or not path.exists():
        return
    text = _text_of(path)
    content = re.search(r'<script type="application/json" id=content>(.*?)</script>', text, flags=re.DOTALL)
    weights = re.search(r'<script type="text/plain" id=weights>(.*?)</script>', text, flags=re.DOTALL)
    if content is None or weights is None:
        yield f"{path} is not a page of generate.py --page: no model is in it"
        return
    if "default-src 'none'" not in text:
        yield "the page does not forbid itself to ask for anything; make it anew"
    try:
        held = json.loads(content[1])["model"], base64.b64decode(weights[1])
    except (ValueError, TypeError, KeyError):
        yield f"the model in {path} is damaged: make the page anew"
        return
    trained = (export(models.load(project.folder / "run", quantize=each).eval()) for each in FORMATS)
    if not any(held == (json.loads(json.dumps(table)), bytes(content)) for table, content in trained):
        yield f"the page holds another model than {project.folder / 'run'}: make it anew, after the training"


STEPS: dict[int, Callable[[Project], Iterator[str]]] = {1: design, 2: question, 3: training, 4: answer, 5: page}


def _text_of(path: Path) -> str:
    """Return the text of a file; raises InputError if it cannot be read as text."""
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as text: {error}") from None


def _apart(found: Any, expected: Any) -> float:
    return float(np.abs(found - expected).max() / np.abs(expected).max())


def _gradient_error(model: LanguageModel, ids: Any, h: float = 1e-5) -> float:
    """Return how far the gradient in one random direction is from the slope, as a share of it."""
    draw = np.random.default_rng(1)
    model.loss(ids[:, :-1], ids[:, 1:]).backward()
    directions = [draw.normal(size=each.shape) for each in model.parameters()]
    pairs = zip(model.parameters(), directions, strict=True)
    expected = sum(float((np.asarray(each.grad) * direction).sum()) for each, direction in pairs)
    before, losses = {name: array.copy() for name, array in model.state_dict().items()}, []
    for step in (h, -h):
        moved = zip(before.items(), directions, strict=True)
        model.load_state_dict({name: array + step * direction for (name, array), direction in moved})
        with no_grad():
            losses.append(model.loss(ids[:, :-1], ids[:, 1:]).item())
    model.load_state_dict(before)
    return abs((losses[0] - losses[1]) / (2 * h) / expected - 1)


def _same_as(family: str, model: LanguageModel) -> str:
    """Return the name of a family that computes the same with the same weights, or ""; windows may be long."""
    weights = [*model.state_dict().values()]
    ids = np.random.default_rng(2).integers(64, size=(1, min(model.config.context_length, LONG)))
    for other in models.FAMILIES:
        if other == family:
            continue
        twin = models.build(other, "nano", vocab_size=64, dtype="float64").eval()
        own = twin.state_dict()
        if [each.shape for each in own.values()] == [each.shape for each in weights]:
            twin.load_state_dict(dict(zip(own, weights, strict=True)))
            with no_grad():
                if _apart(twin(ids).data, model(ids).data) < CLOSE:
                    return other
    return ""


def _study(project: Project) -> Generator[str, None, tuple[Study | None, Arm | None]]:
    """Return the study and its arm with the family; yield what is missing."""
    path = project.folder / "study.toml"
    if not path.exists():
        yield f"there is no {path}; docs/judging.md shows the twenty lines of a study"
        return None, None
    study = Study.read(path)
    arms = [each for each in study.arm if study.config(each).model == project.family]
    if not arms:
        yield f'no arm of {path} trains the family: flags = "--model {project.family} --size nano"'
        return study, None
    return study, arms[0]


def _parameters(study: Study, arm: Arm) -> int:
    """Return the number of parameters of an arm, with the vocabulary of its size."""
    config = study.config(arm)
    return models.for_training(config.model, config.size, **assignments(config.set)).num_parameters()


def _run(project: Project) -> Generator[str, None, Record | None]:
    """Return the record of the trained model; yield what is missing."""
    run = project.folder / "run"
    if not run.is_dir():
        yield f"there is no {run}: python train.py --model {project.family} --size nano --test --out {run}"
        return None
    record = Record.read(run)
    if record.family != project.family:
        yield f"the model in {run} is of the family {record.family}"
        return None
    return record


def main(arguments: list[str] | None = None) -> int:
    """Check one step, print what is missing, and return 0 if nothing is."""
    parser = argparse.ArgumentParser(description="Check a step of the final project.")
    parser.add_argument("step", type=int, choices=STEPS, help="1 design, 2 question, 3 training, 4 answer, 5 page")
    parser.add_argument("family", help="the name of your family")
    asked = parser.parse_args(arguments)
    hardware.prepare(1)
    step, missing = STEPS[asked.step], list[str]()
    try:
        for each in step(Project(asked.family, Path("projects") / asked.family)):
            missing.append(each)
    except InputError as error:
        missing.append(str(error))
    for each in missing:
        print(f"missing: {each}")
    if not missing:
        print(f"step {asked.step}: pass. {step.__doc__}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
