"""A benchmark gets a record that docs/measurements can read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.record import commit, conditions, record
from docs.measurements.records import read
from minigrad.system import blas, environment
from tests.source_files import ROOT

FIELDS = {"machine": "a laptop, 2 cores", "openblas": "Zen", "variables": "none", "commit": "dbba169"}
PRINTED = """a laptop
| size | tokens/s | peak MB |
| --- | --: | --: |
| **nano** | 28,534 | 376 |
| `micro` | 7,650 | |
| | 7,000 | |

| other table | bits | steps |
| --- | --: | --: |
| mini | 1.37 | 5 |
In the end "1.37" bits per byte
{"nano": 28534}
"""


def test_the_rows_of_a_table_are_figures(tmp_path: Path) -> None:
    written = record("a-run", ["benchmarks/train_step.py", "nano"], PRINTED, FIELDS)
    (tmp_path / "a.toml").write_text(written, encoding="utf-8")
    found = read(tmp_path)["a-run"]
    assert (found.script, found.command) == ("benchmarks/train_step.py", "python benchmarks/train_step.py nano")
    assert found.value("nano", "peak MB") == 376
    assert found.value("micro") == 7650
    assert '# In the end "1.37" bits per byte' in written
    assert "# | mini | 1.37 | 5 |" in written
    assert "mini" not in found.figures
    assert "a laptop" not in written.replace(FIELDS["machine"], "")
    assert "28534" not in written


def test_the_conditions_are_those_of_this_process() -> None:
    found = conditions()
    assert set(found) == set(FIELDS)
    assert all(found.values())
    assert found["openblas"] in (blas.openblas_core(), "not used")
    assert found["commit"].split()[0] in commit()


def test_a_benchmark_finds_the_environment_of_the_user() -> None:
    """The numbers of threads that `conditions` sets for this process would be settings of the user there."""
    show = "import os; print(sorted(name for name in os.environ if name.endswith('_THREADS')))"
    ours = {name: value for name, value in environment.as_found().items() if not name.endswith("_THREADS")}
    done = subprocess.run(
        [sys.executable, "benchmarks/record.py", "a-run", "-c", show],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=ours,
    )
    assert done.stderr == "[]\n"


def test_a_benchmark_that_fails_has_no_record() -> None:
    done = subprocess.run(
        [sys.executable, "benchmarks/record.py", "a-run", "-c", "exit(3)"], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stdout == ""
    assert "exit code 3" in done.stderr
