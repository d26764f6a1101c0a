"""Kill runs of the default shape at random moments, continue them, and compare them with a run that was never stopped.

Every run is killed once or twice, with SIGKILL where there is such a signal, then continued to its end: its weights and
its metrics must equal those of the whole run, bit for bit, except for the time and the memory that it took. It takes
about 20 seconds a run:

    python tests/stress/kills.py --count 50 --seed 0
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from minigrad.data import standard_library  # noqa: E402  (found through the line above)
from minigrad.training.metrics import TIMING_FIELDS  # noqa: E402

SETTINGS = {"model": "vidya-v2", "size": "nano", "batch": 8, "context": 256, "threads": 2, "dropout": 0.1, "steps": 30}
OFTEN = {"save-every": 7, "log-every": 1, "eval-every": 10, "sample-every": 15}


def command(*flags: object) -> list[str]:
    """Return the command that trains with these flags."""
    return [sys.executable, str(ROOT / "train.py"), *map(str, flags)]


def whole(flags: list[str]) -> float:
    """Train to the end and return the seconds it took; raises SystemExit with the output if it fails."""
    began = time.perf_counter()
    done = subprocess.run(command(*flags), capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"train.py {' '.join(flags)} failed with exit code {done.returncode}:\n{done.stderr}")
    return time.perf_counter() - began


def killed(flags: list[str], seconds: float) -> None:
    """Train, and kill the process after so many seconds."""
    with subprocess.Popen(command(*flags), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            process.wait(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()


def outcome(folder: Path) -> tuple[str, list[dict[str, Any]]]:
    """Return the hash of the weights, and the metrics without times and memory."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    metrics = [{name: value for name, value in line.items() if name not in TIMING_FIELDS} for line in lines]
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest(), metrics


def main() -> int:
    """Kill and continue `count` runs; return 1 if one of them ended otherwise than the whole run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--flags", default="", help="further flags of train.py, such as '--matmul numba'")
    asked = parser.parse_args()
    draw, equal = random.Random(asked.seed), 0
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        text = work / "text.txt"
        text.write_text("\n\n".join(standard_library.documentation())[:1_000_000], encoding="utf-8")
        flags = [f"--{key}={value}" for key, value in {**SETTINGS, **OFTEN, "data": text}.items()] + asked.flags.split()
        whole([*flags, f"--out={work / 'compiles'}"])
        seconds = whole([*flags, f"--out={work / 'whole'}"])
        expected = outcome(work / "whole")
        for number in range(asked.count):
            folder = work / f"killed-{number}"
            moments = [draw.uniform(0.3, seconds) for _ in range(draw.choice([1, 2]))]
            for moment in moments:
                killed(continuing(folder) or [*flags, f"--out={folder}"], moment)
            whole(continuing(folder) or [*flags, f"--out={folder}"])
            same = outcome(folder) == expected
            equal += same
            times = " and ".join(f"{moment:.1f} s" for moment in moments)
            print(f"{number + 1}: killed after {times}: {'equal' if same else 'DIFFERENT'}", flush=True)
    print(f"{equal} of {asked.count} runs ended as the run that was never stopped")
    return int(equal < asked.count)


def continuing(folder: Path) -> list[str] | None:
    """Return the flags that continue a run, or None if it was killed before it had written its record."""
    return [f"--resume={folder}"] if (folder / "minigrad.json").exists() else None


if __name__ == "__main__":
    sys.exit(main())
