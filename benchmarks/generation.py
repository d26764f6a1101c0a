"""Generation with minigrad and with transformers on PyTorch, in turns: tokens per second, greedy, with a cache.

Both generate 128 tokens after a prompt of 16, with models of the same shape in float32. The last column is minigrad
with 16 samples of 32 tokens at once. Run with nothing else on the machine.

    python benchmarks/generation.py --peer-python ~/peers/bin/python
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np
from turns import Contestant, has, serve

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

PROMPT, COUNT, TURNS = list(range(16)), 128, 5
SAMPLES, SAMPLE_TOKENS = 16, 32
CASES = (("vidya-v2", "nano"), ("vidya-v2", "mini"), ("vidya-v2", "2.0"), ("gpt2", "124m"))


def serve_minigrad(family: str, size: str, threads: int) -> None:
    """Generate with `minigrad.generation`."""
    import models
    from minigrad.generation import Sampling, stream

    model, greedy = models.build(family, size=size), Sampling(temperature=0, tokens=COUNT)
    many = greedy.changed({"samples": SAMPLES, "tokens": SAMPLE_TOKENS})
    tasks = {"write": greedy, "write many": many}
    serve({name: lambda each=each: list(stream(model, PROMPT, each, end_ids=())) for name, each in tasks.items()})


def serve_torch(published: str, threads: int) -> None:
    """Generate with transformers."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    torch.set_num_threads(threads)
    values = json.loads(published)
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(values.pop("model_type"), **values)).eval()
    prompt = torch.from_numpy(np.array([PROMPT]))
    limits = {"min_new_tokens": COUNT, "max_new_tokens": COUNT, "do_sample": False, "pad_token_id": 0}

    def write() -> None:
        with torch.no_grad():
            model.generate(prompt, attention_mask=torch.ones_like(prompt), **limits)

    serve({"write": write})


def main() -> None:
    """Run every case with both, print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peer-python", default=sys.executable, help="an interpreter that has torch and transformers")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.serve:
        options = json.loads(arguments.serve)
        (serve_torch if "published" in options else serve_minigrad)(**options)
        return
    import models
    from minigrad.system import hardware

    peer = has(arguments.peer_python, "torch", "transformers")
    if not peer:
        print(f"{arguments.peer_python} has no torch and transformers: only minigrad writes (see --peer-python)")
    print(hardware.describe())
    print(f"{'model':<16} {'tokens/s':>9} {'torch':>9} {'ratio':>7} {'16 at once':>11}")
    results = []
    for family, size in CASES:
        threads = hardware.threads()
        running = [
            Contestant(__file__, sys.executable, {"family": family, "size": size, "threads": threads}),
        ]
        if peer:
            published = json.dumps(models.configure(family, size).published())
            options = {"published": published, "threads": threads}
            running.append(Contestant(__file__, arguments.peer_python, options))
        for _ in range(TURNS):
            for contestant in running:
                contestant.turn("write")
        running[0].turn("write many")
        together = SAMPLES * SAMPLE_TOKENS / running[0].median("write many")
        speeds = [COUNT / contestant.median("write") for contestant in running]
        for contestant in running:
            contestant.close()
        results.append({"model": f"{family} {size}", "tokens_per_second": speeds, "together": together})
        ratio = f"{speeds[1]:9.1f} {speeds[0] / speeds[1]:6.2f}x" if peer else " " * 17
        print(f"{family + ' ' + size:<16} {speeds[0]:9.1f} {ratio} {together:11.1f}", flush=True)
    print(json.dumps({"machine": hardware.describe(), "results": results}))


if __name__ == "__main__":
    main()
