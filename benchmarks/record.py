"""Run a benchmark, and print the record of it for a file of docs/measurements.

    python benchmarks/record.py training-step benchmarks/train_step.py nano micro > docs/measurements/new.toml

What the benchmark prints goes to standard error. The rows of its first table become figures, other lines comments,
of which those worth keeping are made figures by hand: "name" = "1.37 bits per byte".
"""

from __future__ import annotations

import datetime
import json
import platform
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))


def conditions() -> dict[str, str]:
    """Return where and with what this process computes: the fields of a record that no benchmark needs to know."""
    from minigrad.system import blas, environment, hardware, processors

    hardware.prepare()
    import numpy  # noqa: F401  (loads the library that is asked)

    used = [f"{processors.cores()} cores", f"{hardware.threads()} threads", platform.system(), platform.machine()]
    return {
        "machine": ", ".join([processors.name(), *used]),
        "openblas": blas.openblas_core() or "not used",
        "variables": ", ".join(f"{name}={value}" for name, value in environment.FOUND.items()) or "none",
        "commit": commit(),
    }


def commit() -> str:
    """Return the commit that is measured, and whether files differ from it."""

    def git(*command: str) -> str:
        return subprocess.run(["git", *command], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + (" and changes" if git("status", "--porcelain", "-uno") else "")


def record(name: str, command: list[str], printed: str, fields: dict[str, str]) -> str:
    """Return a record as it stands in a file: of a command, what it printed, and the conditions."""
    given = {"script": command[0], "command": " ".join(["python", *command]), **fields}
    lines = [f"[{name}]", *(f"{field} = {text(value)}" for field, value in given.items())]
    lines += [f"date = {datetime.datetime.now(datetime.UTC).date()}", 'runs = "one run"']
    head, figures, remarks, is_first = list[str](), dict[str, str](), list[str](), True
    for line in printed.splitlines():
        cells = [re.sub(r"[*`]", "", cell).strip() for cell in line.strip().strip("|").split("|")]
        is_first = is_first and (line.startswith("|") or not head)  # the first table ends with its first other line
        if line.startswith("|") and not head:
            head = cells
        elif is_first and line.startswith("|") and len(cells) == len(head) and cells[0] not in figures:
            if set("".join(cells)) - set(":- "):
                figures[cells[0]] = f"{text(cells[0])} = [{', '.join(map(text, cells[1:]))}]"
        elif re.search(r"\d", line) and not line.startswith(("[", "{")):
            remarks.append(f"# {line}")
    if figures:
        lines.append(f"columns = [{', '.join(map(text, head[1:]))}]")
    return "\n".join([*lines, "", f"[{name}.figures]", *figures.values(), *remarks, ""])


def text(value: str) -> str:
    """Return a string as TOML writes it."""
    return json.dumps(value, ensure_ascii=False)


def main() -> None:
    """Run the command and print its record."""
    if len(sys.argv) < 3:
        sys.exit((__doc__ or "").strip())
    from minigrad.system import environment

    name, *command = sys.argv[1:]
    found = conditions()  # now: files may be edited while it runs
    run = subprocess.Popen(
        [sys.executable, *command],
        cwd=ROOT,
        env=environment.as_found(),  # without the threads that were set here
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    assert run.stdout is not None
    printed = list[str]()
    for line in run.stdout:
        printed.append(line)
        print(line, end="", file=sys.stderr, flush=True)
    if run.wait():
        sys.exit(f"{' '.join(command)} ended with exit code {run.returncode}; it was not recorded")
    print(record(name, command, "".join(printed), found))


if __name__ == "__main__":
    main()
