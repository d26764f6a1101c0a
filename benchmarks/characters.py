"""nanoGPT's published setting for a CPU, to its end: the loss on validation text, and the time.

The setting (https://github.com/karpathy/nanoGPT, "I only have a macbook"): characters, 4 layers, 4 heads, width 128,
sequences of 64 in batches of 12, no dropout; AdamW with betas 0.9 and 0.99 for 2,000 steps, of which 100 warm up, and a
cosine from 1e-3 to 1e-4. Its README gives a loss of 1.88 on the last tenth of tiny Shakespeare. PyTorch trains that,
and minigrad trains the same model with `train.py`, with fewer steps and Muon. For PyTorch only the training is timed,
for minigrad the whole process, with its evaluations. Both compute in float32 and are judged alike: on every piece of 64
characters of the last tenth, in nats per character, without the text before the piece. The text is plain ASCII:

    python benchmarks/characters.py --text tinyshakespeare.txt --peer-python ~/peers/bin/python
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from machine import describe_machine
from small_steps import CASES, LEARNING_RATE, SMALL, torch_model, torch_step
from turns import has

ROOT = Path(__file__).parent.parent

PEER_STEPS, WARM_UP, LEAST_RATE = 2_000, 100, 1e-4
STEPS = 900
_, _, _, BATCH, CONTEXT = CASES["nanogpt"]


def split(text: str) -> tuple[str, str]:
    """Return the first nine tenths of a text, and the rest."""
    return text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]


def learning_rate(step: int) -> float:
    """Return nanoGPT's learning rate: a linear warm-up, then a cosine."""
    if step < WARM_UP:
        return LEARNING_RATE * (step + 1) / (WARM_UP + 1)
    done = (step - WARM_UP) / (PEER_STEPS - WARM_UP)
    return LEAST_RATE + 0.5 * (1 + math.cos(math.pi * done)) * (LEARNING_RATE - LEAST_RATE)


def train_torch(file: str, threads: int) -> dict[str, float]:
    """Train with PyTorch; return the seconds of the steps, and nats per character of the last tenth."""
    import torch

    torch.manual_seed(0)
    torch.set_num_threads(threads)
    text = Path(file).read_text(encoding="ascii")
    numbers = {character: number for number, character in enumerate(sorted(set(text)))}
    train, last = (torch.tensor([numbers[character] for character in part]) for part in split(text))
    model = torch_model(len(numbers), CONTEXT)
    step, started = torch_step(model, train, BATCH, CONTEXT), time.perf_counter()
    for number in range(PEER_STEPS):
        step(learning_rate(number))
    seconds, count = time.perf_counter() - started, (len(last) - 1) // CONTEXT
    ids, targets = (last[first : first + count * CONTEXT].view(count, CONTEXT) for first in (0, 1))
    with torch.inference_mode():
        losses = [float(model(*pair)) * len(pair[0]) for pair in zip(ids.split(64), targets.split(64), strict=True)]
    return {"seconds": seconds, "nats": sum(losses) / count}


def train_minigrad(file: str, folder: Path, steps: int) -> dict[str, float]:
    """Train by train.py; return the seconds of the process, and nats per character of the last tenth."""
    for name, part in zip(("train.txt", "validation.txt"), split(Path(file).read_text(encoding="ascii")), strict=True):
        (folder / name).write_text(part, encoding="ascii")
    shape = ",".join(f"{name}={value}" for name, value in SMALL.items() if name != "vocab_size")
    flags = (
        f"--model gpt2 --size nano --set {shape} --vocab 261 --documents windows --batch {BATCH} --context {CONTEXT}"
    )
    training = f"--steps {steps} --optimizer muon --lr 0.006 --dropout 0"
    training += f" --precision float32 --eval-every {steps} --sample-every {steps}"
    run = folder / "run"
    texts = ["--data", str(folder / "train.txt"), "--held-out", str(folder / "validation.txt"), "--out", str(run)]
    started = time.perf_counter()
    subprocess.run(
        [sys.executable, str(ROOT / "train.py"), *flags.split(), *training.split(), *texts],
        check=True,
        stdout=subprocess.DEVNULL,
    )
    seconds = time.perf_counter() - started
    judge = ["-m", "minigrad.evaluate", str(run), "--data", texts[3], "--overlap", "0", "--json"]
    answer = subprocess.run([sys.executable, *judge], check=True, capture_output=True, text=True, cwd=ROOT).stdout
    return {"seconds": seconds, "nats": json.loads(answer)["bits_per_byte"] * math.log(2)}


def main() -> None:
    """Train both, one after the other; print a table, then the same as JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", required=True, help="a file of plain text, such as tiny Shakespeare")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of minigrad")
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has torch")
    parser.add_argument("--as-peer", type=int, metavar="THREADS", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.as_peer:
        print(json.dumps(train_torch(arguments.text, arguments.as_peer)))
        return

    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        results["minigrad"] = {
            "steps": arguments.steps,
            **train_minigrad(arguments.text, Path(temporary), arguments.steps),
        }
    if has(arguments.peer_python, "torch"):
        from minigrad.system import processors

        command = [arguments.peer_python, __file__, "--as-peer", str(processors.cores()), "--text", arguments.text]
        answer = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        results["torch"] = {"steps": PEER_STEPS, **json.loads(answer)}
    print(describe_machine())
    print(f"{'contestant':<12} {'steps':>6} {'seconds':>8} {'nats a character':>17}")
    for name, found in results.items():
        print(f"{name:<12} {found['steps']:>6,} {found['seconds']:8.1f} {found['nats']:17.3f}")
    print(json.dumps({"machine": describe_machine(), "results": results}))


if __name__ == "__main__":
    main()
