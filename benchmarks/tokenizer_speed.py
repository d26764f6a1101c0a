"""Training and encoding against Hugging Face tokenizers and tiktoken: same text, same processors, one run.

Every library has a process of its own; they are measured in turns, and medians are printed. With the defaults it takes
three minutes; run it with nothing else on the machine. The interpreter given with --peers must have `tokenizers` and
`tiktoken`; a library that it does not have is left out, with a notice.

    python benchmarks/tokenizer_speed.py [--peers /path/to/python] [--rounds 5] [--megabytes 30] [--streamed 1000]

The text is the source of the running Python's standard library, and of its installed packages if that is too little;
the docs are the same corpus that train.py learns from by default. All encode with minigrad's
vocabulary, and the ids are compared (of a batch, those of 99 texts).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from machine import describe_machine
from turns import has, peak_bytes

SPECIALS = ["<|endoftext|>"]
LIBRARIES = {"minigrad": "tokenizer", "huggingface": "tokenizers", "tiktoken": "tiktoken"}
SIZES = {"source": 32_000, "docs": 8_192}
MEASURES = ["train source", "train docs", "encode long", "encode batch"]


def read(path: Path) -> list[str]:
    """Return the texts of a file with one JSON string per line."""
    with path.open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def python_source(megabytes: float) -> Iterator[str]:
    """Yield Python files up to a total size."""
    left = megabytes * 1e6
    for name in ("stdlib", "purelib"):
        root = Path(sysconfig.get_path(name))
        for path in sorted(root.rglob("*.py")):
            if name == "stdlib" and "site-packages" in path.parts:
                continue
            try:
                text = path.read_text(encoding="utf-8")
            except UnicodeDecodeError:
                continue  # tests of other encodings
            left -= len(text.encode())
            yield text
            if left <= 0:
                return


def synthetic(megabytes: int) -> Iterator[str]:
    """Yield documents of 100 kB: repeated paragraphs, with new words between them."""
    import numpy as np

    rng = np.random.default_rng(0)

    def words(number: int, length: int) -> list[str]:
        return [row.tobytes().decode() for row in rng.integers(97, 123, (number, length), np.uint8)]

    known = words(20_000, 6)
    paragraphs = [" ".join([known[i] for i in rng.zipf(1.3, 70) % len(known)]) for _ in range(2_000)]
    for _ in range(10 * megabytes):
        parts = zip(rng.integers(0, len(paragraphs), 200), words(200, 9), strict=True)
        yield " ".join([f"{paragraphs[i]} {new}" for i, new in parts])


Job = Callable[[], list[Any]]  # does the work and returns the ids, or a list of them for each text


def worker(library: str, folder: Path) -> None:
    """Do the work that each line on standard input names; answer with JSON: seconds, and a hash of the ids."""
    texts = {name: read(folder / f"{name}.jsonl") for name in SIZES}
    jobs = JOBS[library](texts, "".join(texts["source"])[:5_000_000], folder)
    first = 0 if library == "tiktoken" else len(SPECIALS)  # the id of the first byte
    for line in sys.stdin:
        job = jobs.get(line.strip())
        if job is None:
            print("null", flush=True)
            continue
        started = time.perf_counter()
        ids = job()
        seconds = time.perf_counter() - started
        if ids and not isinstance(ids[0], int):
            ids = [i for each in ids[:99] for i in getattr(each, "ids", each)]
        digest = hashlib.blake2b(b"".join(int(i - first).to_bytes(4, "little") for i in ids)).hexdigest()
        print(json.dumps([seconds, digest]), flush=True)


def ours(texts: dict[str, list[str]], long_text: str, folder: Path) -> dict[str, Job]:
    """Return the measures as functions."""
    import tokenizer

    tok = tokenizer.load(folder / "tokenizer.json")

    def train(name: str) -> list[int]:
        tokenizer.train(texts[name], SIZES[name], special_tokens=SPECIALS, threads=2)
        return []

    return {
        "train source": lambda: train("source"),
        "train docs": lambda: train("docs"),
        "encode long": lambda: tok.encode(long_text),
        "encode batch": lambda: tok.encode_batch(texts["source"], threads=2),
    }


def huggingface(texts: dict[str, list[str]], long_text: str, folder: Path) -> dict[str, Job]:
    """Return the measures as functions."""
    import tokenizers

    tok = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))

    def train(name: str) -> list[int]:
        new = tokenizers.Tokenizer(tokenizers.models.BPE())
        new.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        alphabet = tokenizers.pre_tokenizers.ByteLevel.alphabet()
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=SIZES[name], min_frequency=2, special_tokens=SPECIALS, initial_alphabet=alphabet,
            show_progress=False,
        )  # fmt: skip
        new.train_from_iterator(texts[name], trainer)
        return []

    return {
        "train source": lambda: train("source"),
        "train docs": lambda: train("docs"),
        "encode long": lambda: tok.encode(long_text).ids,
        "encode batch": lambda: tok.encode_batch_fast(texts["source"]),
    }


def tiktoken(texts: dict[str, list[str]], long_text: str, folder: Path) -> dict[str, Job]:
    """Return the measures as functions; tiktoken cannot train."""
    import tiktoken as library

    # GPT-2's pattern in tiktoken's spelling.
    pattern = r"'(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s"
    ranks = {
        bytes.fromhex(token): rank for token, rank in json.loads((folder / "ranks.json").read_text(encoding="utf-8"))
    }
    tok = library.Encoding("ours", pat_str=pattern, mergeable_ranks=ranks, special_tokens={})
    return {
        "encode long": lambda: tok.encode_ordinary(long_text),
        "encode batch": lambda: tok.encode_ordinary_batch(texts["source"], num_threads=2),
    }


JOBS = {"minigrad": ours, "huggingface": huggingface, "tiktoken": tiktoken}


def prepare(folder: Path, megabytes: float) -> None:
    """Write the texts, our vocabulary, and its tokens in order for tiktoken."""
    import tokenizer
    from minigrad.data import corpus

    docs, size = [], 0
    for text in corpus.load("python-docs").documents:
        docs.append(text)
        size += len(text.encode())
        if size >= 2e6:
            break
    for name, texts in (("source", python_source(megabytes)), ("docs", docs)):
        with (folder / f"{name}.jsonl").open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(text) + "\n" for text in texts)
    tok = tokenizer.train(read(folder / "source.jsonl"), SIZES["source"], special_tokens=SPECIALS)
    tok.save(folder / "tokenizer.json")
    ranks = [(tok.decode_bytes([number]).hex(), number - len(SPECIALS)) for number in tok.ids[len(SPECIALS) :]]
    (folder / "ranks.json").write_text(json.dumps(ranks), encoding="utf-8")


def peak(library: str, python: str, folder: Path, streamed: int) -> float:
    """Return the peak memory in MB of a new process that only trains, on the source or on a synthetic stream."""
    command = [python, __file__, "--memory-of", library, "--folder", str(folder), "--streamed", str(streamed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, env=environment())
    return float(done.stdout)


def train_and_tell_memory(library: str, folder: Path, streamed: int) -> None:
    """Train, and print the peak memory of this process in MB."""
    if streamed:
        import tokenizer

        tokenizer.train(synthetic(streamed), SIZES["source"], threads=2)
    else:
        texts = {name: read(folder / f"{name}.jsonl") if name == "source" else [] for name in SIZES}
        JOBS[library](texts, "", folder)["train source"]()
    print(peak_bytes() / 1e6)


def environment() -> dict[str, str]:
    """Return the environment of all processes: two threads."""
    return os.environ | {"RAYON_NUM_THREADS": "2", "TOKENIZERS_PARALLELISM": "true"}


def compare(pythons: dict[str, str], folder: Path, rounds: int) -> dict[str, dict[str, float]]:
    """Return the median seconds of each measure and library, measured in turns."""
    workers = {
        library: subprocess.Popen(
            [python, __file__, "--worker", library, "--folder", str(folder)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(),
        )
        for library, python in pythons.items()
    }  # fmt: skip
    times: dict[str, dict[str, list[float]]] = {measure: {} for measure in MEASURES}
    for turn in range(rounds + 1):
        for measure in MEASURES:
            digests = set()
            for library, process in workers.items():
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(measure + "\n")
                process.stdin.flush()
                answer = json.loads(process.stdout.readline())
                if answer is not None:
                    digests.add(answer[1])
                    if turn > 0:  # the first turn is a warm-up
                        times[measure].setdefault(library, []).append(answer[0])
            if len(digests) > 1:
                raise SystemExit(f"{measure}: the libraries do not agree on the ids")
    for process in workers.values():
        process.communicate()
    return {
        measure: {name: statistics.median(each) for name, each in found.items()} for measure, found in times.items()
    }


def main() -> None:
    """Print a table and JSON."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--peers", default=sys.executable, help="the interpreter that has tokenizers and tiktoken")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--megabytes", type=float, default=30.0)
    parser.add_argument("--streamed", type=int, default=1_000, help="MB of synthetic text; 0 leaves it out")
    parser.add_argument("--worker", choices=LIBRARIES, help=argparse.SUPPRESS)
    parser.add_argument("--memory-of", choices=LIBRARIES, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.worker:
        return worker(asked.worker, asked.folder)
    if asked.memory_of:
        return train_and_tell_memory(asked.memory_of, asked.folder, asked.streamed)
    return run(asked)


def run(asked: argparse.Namespace) -> None:
    """Measure everything and print it."""

    pythons = {"minigrad": sys.executable}
    for library in ("huggingface", "tiktoken"):
        if has(asked.peers, LIBRARIES[library]):
            pythons[library] = asked.peers
        else:
            print(f"{library} is left out: {asked.peers} has no module {LIBRARIES[library]!r}; see --peers")
    machine = f"{describe_machine()}, Python {platform.python_version()}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, asked.megabytes)
        seconds = compare(pythons, folder, asked.rounds)
        memory = {library: peak(library, pythons[library], folder, 0) for library in pythons if library != "tiktoken"}
        streamed = peak("minigrad", sys.executable, folder, asked.streamed) if asked.streamed else None
    print(f"{machine}; two threads, `encode long` one\n")
    print(f"| measure | {' | '.join(pythons)} |\n| --- |{' --: |' * len(pythons)}")
    for measure, found in seconds.items():
        own = found["minigrad"]
        cells = [f"{found[each]:.3f} s ({found[each] / own:.1f}x)" if each in found else "" for each in pythons]
        print(f"| {measure} | {' | '.join(cells)} |")
    cells = [f"{memory[each]:.0f} MB" if each in memory else "" for each in pythons]
    print(f"| peak memory, train source | {' | '.join(cells)} |")
    if streamed is not None:
        print(f"| peak memory, {asked.streamed:,} MB streamed | {streamed:.0f} MB |{' |' * (len(pythons) - 1)}")
    print(json.dumps({"machine": machine, "seconds": seconds, "peak_mb": memory, "streamed_peak_mb": streamed}))


if __name__ == "__main__":
    main()
