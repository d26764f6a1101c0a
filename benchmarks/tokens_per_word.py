"""Tokens for each word of a text that a tokenizer did not learn from, by the size of its vocabulary.

Every tokenizer learns from the training part of the text and reads the validation part. A word is what lies between two
spaces or line ends. `vidya-v1` is the tokenizer of the first Vidya, with its 2,188 tokens.

    python benchmarks/tokens_per_word.py [--data python-docs] [--sizes 2188 4096 8192 16384 32768]
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import tokenizer
from minigrad.data import corpus
from tokenizer import vidya_v1

WINDOW = 256  # tokens


def main() -> None:
    """Print a row for each tokenizer."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default="python-docs")
    parser.add_argument("--sizes", type=int, nargs="+", default=[2_188, 4_096, 8_192, 16_384, 32_768])
    arguments = parser.parse_args()
    parts = corpus.load(arguments.data, progress=lambda line: print(line, file=sys.stderr)).split()
    words = sum(len(text.split()) for text in parts.validation)
    bytes_read = sum(len(text.encode()) for text in parts.validation)
    print(f"{words:,} words, {bytes_read:,} bytes")
    print(f"| tokenizer | tokens a word | bytes a token | words in {WINDOW} tokens |\n| --- | --: | --: | --: |")
    rows = {}
    kinds = [("vidya-v1, 2,188", vidya_v1.train_to_size(parts.train, vocab_size=2_188))]
    for name, tok in [
        *kinds,
        *((f"{size:,}", tokenizer.train(parts.train, vocab_size=size)) for size in arguments.sizes),
    ]:
        tokens = sum(len(tok.encode(text)) for text in parts.validation)
        rows[name] = {"tokens_per_word": tokens / words, "bytes_per_token": bytes_read / tokens}
        print(f"| {name} | {tokens / words:.2f} | {bytes_read / tokens:.2f} | {WINDOW * words / tokens:.0f} |")
    print(json.dumps({"data": arguments.data, "tokenizers": rows}))


if __name__ == "__main__":
    main()
