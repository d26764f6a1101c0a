"""Draw the pictures of README.md: the curve of a run, a sample growing over its steps, and a graph with its gradients.

Curve, samples and the scores of xz and of n-grams come from a run folder, the graph from tensors computed here. The
same folder gives the same pictures, byte for byte. The run in README.md was made by

    python train.py --model vidya-v2 --test
    python benchmarks/pictures.py runs/vidya-v2-nano

Each picture is an SVG with a background of its own, light or dark as the reader's system is.
"""

from __future__ import annotations

import argparse
import html
import itertools
import sys
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from minigrad import draw_graph
from minigrad.evaluate import rivals
from minigrad.pages.chart import Series, line_chart
from minigrad.system.terminal import printable
from minigrad.training.folder import checkpoint, metrics
from minigrad.training.folder.checkpoint import Sample, State
from minigrad.training.folder.record import Record
from minigrad.training.report.curves import even

ROOT = Path(__file__).parent.parent
LINES = (2, 3, 3, 5)  # of each sample shown: the first, two between, and the last
COLUMNS, NOTE = 48, 58  # letters in a line of a sample, and of a note
WIDTH, MARGIN, LINE = 460, 18, 20

_STYLE = """
svg { color: #1f2328; font-family: system-ui, -apple-system, "Segoe UI", sans-serif; }
.page { fill: #ffffff; stroke: #d1d9e0; } .soft { fill-opacity: .7; }
.sample { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: 14px; white-space: pre; }
@media (prefers-color-scheme: dark) { svg { color: #e6edf3; } .page { fill: #0d1117; stroke: #3d444d; } }
"""


def page(title: str, body: str, height: float, width: float = WIDTH) -> str:
    """Return a picture that stands by itself: `body`, below a title, on a background of its own."""
    name = html.escape(title)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" fill="currentColor" font-size="14" role="img" aria-label="{name}">\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect class="page" x=".5" y=".5" width="{width - 1:g}" height="{height - 1:g}" rx="8"/>\n'
        f'<text x="{MARGIN}" y="30" font-size="16" font-weight="600">{name}</text>\n{body}\n</svg>\n'
    )


def placed(svg: str, x: float, y: float, width: float, height: float) -> str:
    """Return a drawing as a part of another one."""
    return svg.replace("<svg ", f'<svg x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" ', 1)


def notes(lines: Sequence[str], bottom: float) -> str:
    """Return lines of small text that end at the height `bottom`."""
    first = bottom - LINE * (len(lines) - 1)
    return "".join(
        f'<text class="soft" x="{MARGIN}" y="{first + LINE * number:g}">{html.escape(line)}</text>'
        for number, line in enumerate(lines)
    )


def loss_picture(records: Sequence[Mapping[str, Any]], references: Sequence[tuple[str, float]], caption: str) -> str:
    """Return the curve of a run: bits per byte of the text in training and of validation text, over the steps."""
    series = [
        _series("in training", even(records), "bits_per_byte"),
        _series("validation text", [each for each in records if "val_bits_per_byte" in each], "val_bits_per_byte"),
    ]
    labelled = [(f"{label}: {value:.2f}", value) for label, value in references]
    chart = line_chart("bits per byte over training steps", series, references=labelled)
    words = [
        "Bits needed for each byte of the text: fewer is better.",
        "Validation text is never trained on; the last point is of all of it.",
    ]
    lines = [*words, *_in_width(caption)]
    bottom = 336 + LINE * len(lines)
    return page("Learning to predict text", placed(chart, 0, 44, WIDTH, 290) + notes(lines, bottom), bottom + 18)


def _in_width(caption: str) -> list[str]:
    return textwrap.wrap(caption, NOTE, break_on_hyphens=False)


def _series(label: str, records: Sequence[Mapping[str, Any]], key: str) -> Series:
    return Series(label, [each["step"] for each in records], [each[key] for each in records])


def sample_picture(samples: Sequence[Sample], caption: str) -> str:
    """Return what the model wrote after the steps of `samples`, below the prompt that all of them begin with."""
    letters = itertools.takewhile(lambda each: len(set(each)) == 1, zip(*(each.text for each in samples), strict=False))
    prompt = "".join(each[0] for each in letters)
    parts = [f'<text x="{MARGIN}" y="58"><tspan class="soft">prompt </tspan>{_shown(prompt.strip())}</text>']
    y = 58.0
    for sample, lines in zip(samples, LINES, strict=True):
        y += 1.5 * LINE
        parts.append(f'<text class="soft" x="{MARGIN}" y="{y:g}">after {sample.step:,} steps</text>')
        for line in wrapped(sample.text[len(prompt) :])[:lines]:
            y += LINE - 2
            parts.append(f'<text class="sample" x="{MARGIN}" y="{y:g}">{_shown(line)}</text>')
    lines = _in_width(caption)
    bottom = y + 0.6 * LINE + LINE * len(lines)
    return page("Learning to write", "\n".join(parts) + notes(lines, bottom), bottom + 0.9 * LINE)


def wrapped(text: str) -> list[str]:
    """Return the lines of a sample without its blank lines, none longer than the picture is wide.

    >>> wrapped("one\\n\\n  two " + 9 * "three ")
    ['one', '  two three three three three three three three', 'three three']
    """
    return [part for line in text.splitlines() for part in textwrap.wrap(line, COLUMNS) if part.strip()]


def _shown(text: str) -> str:
    return html.escape(printable(text))


def chosen(samples: Sequence[Sample]) -> list[Sample]:
    """Return the first and the last sample, and between them those next to equal ratios of steps.

    Each one is shown once, if there are enough.
    """
    first, last = samples[0].step, samples[-1].step
    places: list[int] = []
    for number in range(len(LINES)):
        wanted = first * (last / first) ** (number / (len(LINES) - 1))
        later = range(places[-1] + 1 if places else 0, len(samples) - len(LINES) + number + 1)
        places.append(min(later or range(len(samples)), key=lambda place: abs(samples[place].step - wanted)))
    return [samples[place] for place in places]


def graph_picture() -> str:
    """Return the graph of one neuron and its squared error, with all values and gradients."""
    graph = draw_graph(lambda w, x, b: ((w * x + b).tanh() - 1) ** 2, w=0.5, x=2.0, b=-0.5)
    width, height = (float(each) for each in graph.split('viewBox="0 0 ')[1].split('"')[0].split())
    left = (WIDTH - width) / 2
    return page("((w x + b).tanh() - 1) ** 2", placed(graph, left, 48, width, height), height + 66)


def main() -> None:
    """Draw the pictures of the run folder given on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    arguments = parser.parse_args()
    record, records = Record.read(arguments.run), metrics.read(arguments.run)
    samples = State.read(checkpoint.load(arguments.run), arguments.run).samples
    names = {f"{rivals.ORDER}-gram of bytes": "ngram_bits_per_byte", "xz": "xz_bits_per_byte"}
    references = [(name, value) for name, key in names.items() if (value := record.result.get(key))]
    text = record.data.replace(",", ", ")
    caption = f"{record.family} {record.size}, {records[-1]['step']:,} steps, seed {record.seed}, {text}"
    pictures = {
        "loss": loss_picture(records, references, caption),
        "sample": sample_picture(chosen(samples), caption),
        "graph": graph_picture(),
    }
    arguments.out.mkdir(parents=True, exist_ok=True)
    for name, picture in pictures.items():
        path = arguments.out / f"{name}.svg"
        path.write_text(picture, encoding="utf-8", newline="\n")
        print(f"{path}: {len(picture.encode()):,} bytes")


if __name__ == "__main__":
    main()
