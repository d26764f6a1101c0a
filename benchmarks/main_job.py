"""The main job: does it end on time, and is the model better than xz on held-out text?

Runs ``python train.py --model vidya-v2`` (with any further flags given here) into a temporary folder. It takes as
long as that command, ten minutes by default; run it with nothing else on the machine:

    python benchmarks/main_job.py
    python benchmarks/main_job.py --minutes 2
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main() -> None:
    """Run the command, then print its figures and the same as JSON."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, str(ROOT / "train.py"), "--model", "vidya-v2", "--out", str(out), *sys.argv[1:]]
        started = time.perf_counter()
        subprocess.run(command, check=True)
        seconds = time.perf_counter() - started
        record = json.loads((out / "minigrad.json").read_text(encoding="utf-8"))
    result = record["result"]
    print()
    print(record["hardware"])
    print(f"size {record['size']}, {record['parameters']:,} parameters, {result['tokens']:,} tokens")
    print(f"whole process {seconds:.1f} s")
    xz = result["xz_bits_per_byte"]
    beside = "not measured" if xz is None else f"{xz:.3f}"
    print(f"held-out text: {result['bits_per_byte']:.3f} bits per byte; xz -9e {beside}")
    print(json.dumps({"machine": record["hardware"], "seconds": seconds, "size": record["size"], **result}))


if __name__ == "__main__":
    main()
