"""Writing with minigrad, with transformers on PyTorch and with llama.cpp, in turns: tokens per second of each.

All write the same models, with random weights, greedily, with a cache (see `writers`); with --formats also weights in
smaller formats, against llama.cpp's files of type F16, Q8_0 and Q4_0. The measures:

- write: 32 tokens after a prompt of 16; for minigrad also as a share of the memory bandwidth that a plain read reaches;
- prompt: the time to the first token after a prompt of 512;
- together: 16 samples at once against one at a time, at the default temperature and top-p, minigrad alone;
- far: 32 tokens after a prompt of 2,000 against those after 16, minigrad alone.

A peer is left out if its interpreter has no such package. Run with nothing else on the machine:

    python benchmarks/generation.py --torch-python ~/peers/bin/python --llama-python ~/llama/bin/python
    python benchmarks/generation.py --models 2.0 --measures write prompt
"""

from __future__ import annotations

import argparse
import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from machine import describe_machine
from turns import Contestant, has
from writers import FAR, LONG, MEMORY, SAMPLES, SHORT, TOKENS

FORMATS = {"float32": (4, "f32"), "float16": (2, "f16"), "int8": (1, "q8_0"), "int4": (18 / 32, "q4_0")}
"""Bytes of a weight, and the type of the GGUF file that holds as much."""
ROUND_TO_Q4_0 = """
import ctypes, sys, llama_cpp
quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
options = llama_cpp.llama_model_quantize_default_params()
options.ftype, options.pure = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_0, True  # pure: the embedding too, as minigrad's
source, target = (name.encode() for name in sys.argv[1:])
sys.exit(llama_cpp.llama_model_quantize(source, target, ctypes.byref(options)))
"""
MODELS = {"nano": ("vidya-v2", "nano"), "2.0": ("vidya-v2", "2.0"), "124m": ("gpt2", "124m")}
LENGTHS = {"write": SHORT + TOKENS, "prompt": LONG, "together": SHORT + TOKENS, "far": FAR + TOKENS}
MEASURES = tuple(LENGTHS)
TURNS = {"write": 7, "prompt": 3, "together": 3, "far": 1}


def prepare(folder: Path, name: str, kind: str, llama_python: str) -> Path:
    """Return a folder with a model of random weights and a GGUF file of a type; what is missing is made.

    A file of type Q4_0, which minigrad does not write, is made by llama.cpp.
    """
    import models
    import tokenizer
    from minigrad.formats.gguf.__main__ import GGUFConfig, export

    run = folder / name
    if not (run / "tokenizer.json").exists():
        models.build(*MODELS[name]).save(run)
        tokenizer.train([], vocab_size=261).save(run)
    if (run / f"model-{kind}.gguf").exists():
        return run
    if kind != "q4_0":
        export(GGUFConfig(str(run), kind))
    elif has(llama_python, "llama_cpp"):
        source = prepare(folder, name, "f32", llama_python) / "model-f32.gguf"
        subprocess.run([llama_python, "-c", ROUND_TO_Q4_0, str(source), str(run / "model-q4_0.gguf")], check=True)
    return run


def contestants(run: Path, peers: dict[str, str], context: int, format: str, *, plain: bool) -> dict[str, Contestant]:
    """Start minigrad and the peers that have this format; each has read the model when this returns."""
    from minigrad.system import hardware

    threads = hardware.threads()
    options: dict[str, dict[str, Any]] = {
        "minigrad": {"folder": str(run), "quantize": None if format == "float32" else format},
        "torch": {"folder": str(run)},
        "llama": {"file": str(run / f"model-{FORMATS[format][1]}.gguf"), "context": context, "plain": plain},
    }
    script = str(Path(__file__).parent / "writers.py")
    running = {}
    for program, python in {"minigrad": sys.executable, **peers}.items():
        if program == "torch" and format != "float32":
            continue
        given = {"program": program, "threads": threads, **options[program]}
        running[program] = Contestant(script, python, given)
        running[program].turn("write", times=0)  # alone, because starting uses all processors
    return running


def run_measure(measure: str, running: dict[str, Contestant], weight_bytes: int) -> dict[str, float]:
    """Let the contestants take turns; return tokens per second by program, and other figures by their names."""
    ours, figures = running["minigrad"], dict[str, float]()
    pieces = {"write": ("write", "memory"), "together": ("sample", "together"), "far": ("write", "far")}
    for turn in range(TURNS[measure]):
        for work in pieces.get(measure, (measure,)):
            for contestant in running.values() if work == measure in ("write", "prompt") else (ours,):
                contestant.turn(work, warm_up=turn == 0)
    if measure in ("write", "prompt"):
        tokens = TOKENS if measure == "write" else LONG
        figures |= {program: tokens / contestant.median(measure) for program, contestant in running.items()}
    if measure == "write":
        figures["memory GB/s"] = MEMORY / ours.median("memory") / 1e9
        figures["weights GB/s"] = weight_bytes * figures["minigrad"] / 1e9
        figures["share"] = figures["weights GB/s"] / figures["memory GB/s"]
    elif measure == "together":
        figures["alone"] = TOKENS / ours.median("sample")
        figures["together"] = SAMPLES * TOKENS / ours.median("together")
        figures["ratio"] = figures["together"] / figures["alone"]
    elif measure == "far":
        figures["near"], figures["far"] = (TOKENS / ours.median(work) for work in ("write", "far"))
        figures["ratio"] = figures["far"] / figures["near"]
    return figures | {
        f"over {peer}": figures["minigrad"] / figures[peer] for peer in ("torch", "llama") if peer in figures
    }


def main() -> None:
    """Take every measure of every model, print a line for each, and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=MODELS)
    parser.add_argument("--measures", nargs="+", default=list(MEASURES), choices=MEASURES)
    parser.add_argument("--formats", nargs="+", default=["float32"], choices=FORMATS)
    parser.add_argument("--torch-python", default=sys.executable, help="an interpreter with torch and transformers")
    parser.add_argument("--llama-python", default=sys.executable, help="an interpreter with llama-cpp-python")
    parser.add_argument("--folder", type=Path, default=Path("runs/writers"), help="where the models are kept")
    parser.add_argument("--plain", action="store_true", help="llama.cpp without its layouts for AMX (see `writers`)")
    arguments = parser.parse_args()
    import models

    wanted = {
        "torch": (arguments.torch_python, ["torch", "transformers"]),
        "llama": (arguments.llama_python, ["llama_cpp"]),
    }
    peers = {peer: python for peer, (python, packages) in wanted.items() if has(python, *packages)}
    for peer in wanted.keys() - peers.keys():
        print(f"{wanted[peer][0]} has no {' and '.join(wanted[peer][1])}: left out")
    print(describe_machine())
    results = []
    for name, format in itertools.product(arguments.models, arguments.formats):
        width, kind = FORMATS[format]
        skeleton, run = models.skeleton(*MODELS[name]), prepare(arguments.folder, name, kind, arguments.llama_python)
        context, weight_bytes = skeleton.config.context_length, int(width * skeleton.macs_per_token(0))
        running = contestants(run, peers, context, format, plain=arguments.plain)
        for measure in arguments.measures:
            if LENGTHS[measure] > context:
                continue
            figures = run_measure(measure, running, weight_bytes)
            results.append({"model": name, "format": format, "measure": measure, **figures})
            shown = "  ".join(f"{key} {value:,.2f}" for key, value in figures.items())
            print(f"{name:<6} {format:<8} {measure:<9} {shown}", flush=True)
        for contestant in running.values():
            contestant.close()
    print(json.dumps({"machine": describe_machine(), "results": results}))


if __name__ == "__main__":
    main()
