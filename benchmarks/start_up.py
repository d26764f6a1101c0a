"""Start-up times: --help, and from the command to the first line of training, cold and warm.

Cold means no compiled kernels and no token files: an empty cache folder. Run with nothing else on the machine:

    python benchmarks/start_up.py
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent


def seconds_to(prefix: str, arguments: list[str], cache: Path) -> float:
    """Return the seconds from the start of train.py to its first line that begins with `prefix`, then stop it."""
    environment = os.environ | {"MINIGRAD_CACHE": str(cache)}
    started = time.perf_counter()
    with subprocess.Popen(
        [sys.executable, str(ROOT / "train.py"), *arguments], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith(prefix):
                    return time.perf_counter() - started
        finally:
            process.kill()
    raise SystemExit(f"train.py never printed a line that begins with {prefix!r}")


def main() -> None:
    """Measure three times each, print a table and write start_up.json beside this file's results."""
    sys.path.insert(0, str(ROOT))
    from minigrad.system import hardware

    results: dict[str, list[float]] = {"help": [], "cold": [], "warm": []}
    for _ in range(3):
        with tempfile.TemporaryDirectory() as folder:
            cache = Path(folder) / "cache"
            results["help"].append(seconds_to("usage", ["--help"], cache))
            for kind in ("cold", "warm"):
                out = str(Path(folder) / kind)  # the first line of the table begins with the step
                results[kind].append(seconds_to("1 ", ["--model", "vidya-v2", "--out", out], cache))
    figures = {kind: statistics.median(times) for kind, times in results.items()}
    print(hardware.describe())
    for kind, seconds in figures.items():
        print(f"{kind:<6} {seconds:6.2f} s   ({', '.join(f'{each:.2f}' for each in results[kind])})")
    print(json.dumps({"machine": hardware.describe(), "seconds": results}))


if __name__ == "__main__":
    main()
