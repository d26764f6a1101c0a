"""Draw the moving picture of README.md: a model that comes with minigrad writes, token by token.

The text is what generate.py writes with this command; the time between two tokens is stretched, so that one can follow.
The less probable a token was, the stronger its colour. It plays once.

    python benchmarks/moving_picture.py
"""

from __future__ import annotations

import argparse
import html
import math
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from pictures import LINE, MARGIN, page

import models
import tokenizer
from minigrad.generation.continuation import Token
from minigrad.generation.decoding import document, stream
from minigrad.generation.settings import Sampling
from minigrad.system.terminal import printable

ROOT = Path(__file__).parent.parent
MODEL, PROMPT, PENALTY = "vidya-v2-nano", "The list type", 1.1
WIDTH, ROWS = 836, 14
EVERY = 0.06  # seconds from token to token
BITS = (1, 3, 6)  # of surprise, from which a stronger colour is taken

_STYLE = """<style>
.sample tspan { animation: appear .01s backwards; }
@keyframes appear { from { opacity: 0; } }
@media (prefers-reduced-motion: reduce) { .sample tspan { animation: none; } }
.bits1 { fill: #9a6700; } .bits2 { fill: #bc4c00; } .bits3 { fill: #cf222e; }
@media (prefers-color-scheme: dark) {
.bits1 { fill: #d4a72c; } .bits2 { fill: #f0883e; } .bits3 { fill: #ff7b72; } }
</style>"""


def moving_picture(command: str, prompt: str, tokens: Sequence[Token]) -> str:
    """Return a picture in which the tokens after a prompt appear one after the other."""
    rows, surprises = [""], [0, *(surprise(token) for token in tokens)]
    for number, text in enumerate([prompt, *(token.text for token in tokens)]):
        for part, line in enumerate(text.split("\n")):
            if part:
                rows.append("")
            shown = f'<tspan class="bits{surprises[number]}" style="animation-delay:{EVERY * number:.2f}s">'
            rows[-1] += f"{shown}{html.escape(printable(line))}</tspan>" if line else ""
    top = 58 + 1.4 * LINE
    body = [_STYLE, f'<text class="soft" x="{MARGIN}" y="58">$ {html.escape(command)}</text>']
    body += [
        f'<text class="sample" x="{MARGIN}" y="{top + LINE * n:g}">{row}</text>' for n, row in enumerate(rows[:ROWS])
    ]
    return page("A small model writes", "\n".join(body), top + LINE * min(ROWS, len(rows)) + 6, WIDTH)


def surprise(token: Token) -> int:
    """Return how many of the bounds a token reaches, which was drawn with its log-probability."""
    assert token.log_probability is not None
    return sum(-token.log_probability / math.log(2) >= bits for bits in BITS)


def main() -> None:
    """Let the model write, and draw it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures" / "writing.svg")
    arguments = parser.parse_args()
    model, tok = models.load(MODEL), tokenizer.load(MODEL)
    sampling = Sampling(repetition_penalty=PENALTY, alternatives=0)
    tokens = list(stream(model, document(tok, PROMPT), sampling, tokenizer=tok))
    command = f'python generate.py {MODEL} --prompt "{PROMPT}" --repetition-penalty {PENALTY}'
    picture = moving_picture(command, PROMPT, tokens)
    arguments.out.write_text(picture, encoding="utf-8", newline="\n")
    print(f"{arguments.out}: {len(picture.encode()):,} bytes")


if __name__ == "__main__":
    main()
