"""A study of a toy that trains for a moment, with one arm that a test writes."""

from __future__ import annotations

from pathlib import Path

from benchmarks.evaluation.study import Job, Study
from tests.small_runs import write_text

_STUDY = """
question = "Does a toy learn more if it is changed?"
control = "plain"
margin = 0.1
hours = 0.01
seeds = 2
flags = "--model vidya-v2 --size nano --vocab 300 --batch 2 --context 16 --save-every 5 --eval-every 10 {flags}"
corpora = ["{text}"]
tokens = [480]
judged = [16]

[[arm]]
name = "plain"

[[arm]]
name = "changed"
{arm}
"""


def toy_study(folder: Path, arm: str, flags: str = "") -> tuple[Study, Job]:
    """Write and read a study whose second arm has the lines of `arm`; return it with the first run of that arm."""
    text, path = write_text(folder / "text.txt", lines=600), folder / "toy.toml"
    path.write_text(_STUDY.format(text=text, arm=arm, flags=flags), encoding="utf-8")
    study = Study.read(path)
    return study, Job("changed", 0, study.corpora[0], "tokens", 480, None)
