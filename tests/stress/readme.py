"""Run the shell commands of README.md, one after the other, in a fresh clone, and show what each of them prints.

What takes minutes is shortened by `SHORTER`, unless --whole is given; then every command runs as it stands, which takes
an hour. With --venv the environment is that of an existing folder, and nothing is installed:

    python tests/stress/readme.py
    python tests/stress/readme.py --venv .venv

The clone has what is committed. The kernels are compiled into the cache folder of the user (MINIGRAD_CACHE).
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]

SHORTER = (
    (r"--minutes \d+", "--steps 30"),
    (r"(train\.py --model vidya-v2)$", r"\1 --steps 30"),
    (r"(-m pytest)$", r"\1 tests/test_options.py"),
    (r" --open$", ""),
)
"""Parts of commands, and what they are replaced by: 30 steps instead of minutes, and one file of the tests."""

INSTALLED = ((r"^python -m venv \.venv && \.venv/bin/pip install -e \S+ && ", ""),)
"""The same for an environment that exists."""


def commands(page: str) -> list[str]:
    """Return the commands in the ```sh blocks of a page, without their comments.

    >>> commands("text\\n```sh\\npython -m a  # why\\n\\npython b.py '#'\\n```\\n```python\\nx = 1\\n```\\n")
    ['python -m a', "python b.py '#'"]
    """
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    lines = [re.sub(r"(^|\s+)# .*", "", line).strip() for block in blocks for line in block.splitlines()]
    return [line for line in lines if line]


def replaced(command: str, table: tuple[tuple[str, str], ...]) -> str:
    """Return a command after the replacements of a table.

    >>> replaced(".venv/bin/python train.py --data minigrad --minutes 5", SHORTER)
    '.venv/bin/python train.py --data minigrad --steps 30'
    """
    for pattern, replacement in table:
        command = re.sub(pattern, replacement, command)
    return command


def main() -> int:
    """Run all commands; return 1 if one of them fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole", action="store_true", help="shorten nothing")
    parser.add_argument("--venv", type=Path, help="use this environment instead of making one")
    asked = parser.parse_args()
    table = (() if asked.whole else SHORTER) + (INSTALLED if asked.venv else ())
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])  # `python` is the one running this
    failed = []
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "minigrad"
        subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
        if asked.venv:
            (clone / ".venv").symlink_to(asked.venv.absolute())
        for command in commands((clone / "README.md").read_text(encoding="utf-8")):
            command = replaced(command, table)
            print(f"\n$ {command}", flush=True)
            began = time.perf_counter()
            done = subprocess.run(command, shell=True, cwd=clone, env=os.environ | {"PATH": path}, check=False)
            print(f"[exit code {done.returncode} after {time.perf_counter() - began:.1f} s]", flush=True)
            failed += [command] if done.returncode else []
    print(f"\n{len(failed)} failed{''.join(chr(10) + each for each in failed)}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
