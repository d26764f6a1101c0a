"""Programs that write, each in a process of its own: minigrad, transformers on PyTorch, llama.cpp.

Each reads the same folder (llama.cpp: the GGUF file that minigrad wrote from it) and is a function
``begin(prompt, tokens) -> iterator`` of greedy tokens; the pieces of work are made of it. All use the given number of
threads. The peers are called as directly as they allow: one pass a token, logits of the last position, no sampler, no
text; transformers in inference mode, llama.cpp through the functions of its library.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from turns import serve

Begin = Callable[[list[int], int], Iterator[int]]

SHORT, TOKENS = 16, 32  # of a prompt, and of what follows it
LONG, FAR = 512, 2_000
SAMPLES = 16


def pieces(begin: Begin) -> dict[str, Callable[[], float]]:
    """Return the pieces of work that all programs do; each returns its seconds.

    "write" is the time of the tokens after the first one, "far" the same after a prompt of 2,000 tokens, "prompt" the
    time from a prompt of 512 tokens to the first token after it.
    """

    def write(length: int) -> float:
        tokens = begin(prompt_of(length), TOKENS + 1)
        next(tokens)
        started = time.perf_counter()
        count = sum(1 for _ in tokens)
        assert count == TOKENS
        return time.perf_counter() - started

    def read() -> float:
        started = time.perf_counter()
        next(begin(prompt_of(LONG), 1))
        return time.perf_counter() - started

    return {"write": lambda: write(SHORT), "far": lambda: write(FAR), "prompt": read}


def prompt_of(length: int) -> list[int]:
    """Return a prompt of ordinary tokens."""
    return [300 + 7 * number % 1_000 for number in range(length)]


def serve_minigrad(folder: str, threads: int, quantize: str | None) -> None:
    """Write with `minigrad.generation`; also several samples at once, and a plain read of memory."""
    sys.path.insert(0, str(Path(__file__).parent.parent))
    import models
    from minigrad.generation import Sampling, stream
    from minigrad.system import hardware

    hardware.prepare(threads)
    model, sampled = models.load(folder, quantize=quantize), Sampling(tokens=TOKENS + 1)

    def begin(prompt: list[int], tokens: int) -> Iterator[int]:
        return stream(model, prompt, temperature=0, tokens=tokens, end_ids=())

    def sample(count: int) -> float:
        drawn = stream(model, prompt_of(SHORT), sampled, samples=count, end_ids=())
        for _ in range(count):
            next(drawn)
        started = time.perf_counter()
        for _ in drawn:
            pass
        return time.perf_counter() - started

    serve(pieces(begin) | {"sample": lambda: sample(1), "together": lambda: sample(SAMPLES), "memory": memory_reader()})


def memory_reader() -> Callable[[], float]:
    """Return a function that reads 512 MiB from front to back on all threads and returns its seconds."""
    from minigrad.kernels.jit import kernel
    from minigrad.kernels.threads import over_rows

    @kernel
    def add_up(rows: Any, sums: Any, start: int, stop: int) -> None:
        for row in range(start, stop):
            total, line = rows.dtype.type(0), rows[row]
            for j in range(line.size):
                total += line[j]
            sums[row] = total

    rows, sums = np.ones((MEMORY >> 20, 1 << 18), np.float32), np.empty(MEMORY >> 20, np.float32)

    def read() -> float:
        started = time.perf_counter()
        over_rows(lambda start, stop: add_up(rows, sums, start, stop), len(rows), rows.shape[1])
        return time.perf_counter() - started

    return read


MEMORY = 512 << 20
"""The bytes that a plain read of memory reads: many times the size of any cache."""


def serve_torch(folder: str, threads: int) -> None:
    """Write with transformers and its cache."""
    import torch
    from transformers import AutoModelForCausalLM, DynamicCache

    torch.set_num_threads(threads)
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()

    def begin(prompt: list[int], tokens: int) -> Iterator[int]:
        cache, ids = DynamicCache(config=model.config), torch.tensor([prompt])
        for _ in range(tokens):
            logits = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
            ids = logits[:, -1].argmax(-1, keepdim=True)
            yield int(ids)

    with torch.inference_mode():
        serve(pieces(begin))


def serve_llama(file: str, threads: int, context: int, plain: bool) -> None:
    """Write with llama.cpp, through its library; with `plain`, without its layouts for the instructions of a processor.

    With those for AMX, version 0.3.36 crashes on rounded weights (a segmentation fault in the first pass).
    """
    import ctypes

    import llama_cpp

    quiet = llama_cpp.llama_log_callback(lambda level, text, data: None)
    llama_cpp.llama_log_set(quiet, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    loading = llama_cpp.llama_model_default_params()
    loading.use_extra_bufts = not plain
    model = llama_cpp.llama_model_load_from_file(file.encode(), loading)
    options = llama_cpp.llama_context_default_params()
    options.n_ctx = options.n_batch = options.n_ubatch = context
    options.n_threads = options.n_threads_batch = threads
    session = llama_cpp.llama_init_from_model(model, options)
    size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))

    def begin(prompt: list[int], tokens: int) -> Iterator[int]:
        llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(session), True)
        ids = (llama_cpp.llama_token * len(prompt))(*prompt)
        for _ in range(tokens):
            failed = llama_cpp.llama_decode(session, llama_cpp.llama_batch_get_one(ids, len(ids)))
            assert not failed
            logits = np.ctypeslib.as_array(llama_cpp.llama_get_logits_ith(session, -1), (size,))
            ids = (llama_cpp.llama_token * 1)(int(logits.argmax()))
            yield ids[0]

    serve(pieces(begin))


if __name__ == "__main__":
    given = json.loads(sys.argv[sys.argv.index("--serve") + 1])
    {"minigrad": serve_minigrad, "torch": serve_torch, "llama": serve_llama}[given.pop("program")](**given)
