"""Draw a module as a column of boxes: what it computes, in order, recorded while it computes it.

Nothing is drawn by hand. An observer notes every operation and every module that is called, and which arrays it was
given. A box is a module without modules of its own, such as a matrix or a norm, or an operation outside of those. An
arrow leads from the box that computed an array to each box that reads it.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from dataclasses import dataclass, field, replace

import numpy as np

from minigrad import Tensor, no_grad
from minigrad.autograd.observers import Observer, watch

VIEWS = {"reshape", "slice", "transpose", "astype"}
"""Operations that compute nothing; they have no box, and what they return counts as their argument."""

WIDTH, LANE = 10.0, 0.45  # of a box, and from one line beside the boxes to the next


@dataclass
class Box:
    """One step of a computation."""

    name: str
    kind: str = ""  # the class of a module
    owner: str = ""  # the path of the module around it
    shape: tuple[int, ...] = ()
    parameters: int = 0  # those that no box before it has
    is_tied: bool = False  # whether it uses some that a box before it has
    inputs: list[int] = field(default_factory=list)  # the numbers of the boxes whose results it reads


class Recorder(Observer):
    """The observer that makes a box of each step; modules of the classes `closed` are not opened."""

    def __init__(self, module, inputs, closed):
        self.boxes, self.root, self.closed = [], module, closed
        self.paths = {id(each): path for path, each in module.named_modules()}
        self.parameters = {id(each.data): each for each in module.parameters()}
        self.made_by = {}  # the number of the box that computed an array, by its key
        self.kept = []  # arrays whose keys are in use
        self.counted = set()  # the ids of parameters that belong to a box
        self.called = []  # the modules inside which we are, outermost first
        self.hidden = 0  # how many of them are closed
        for name, value in inputs.items():
            self.add(Box(name), [], value)

    def add(self, box, sources, array, parameters=()):
        """Add a box that computed `array` from `sources`; an array that is known already is no new step."""
        if key(array) in self.made_by:
            return
        self.kept.append(array)
        box.shape, own = array.shape, [each for each in parameters if id(each) not in self.counted]
        box.parameters, box.is_tied = sum(math.prod(each.shape) for each in own), len(own) < len(parameters)
        self.counted |= {id(each) for each in own}
        box.inputs = sorted({self.made_by[key(each)] for each in sources if key(each) in self.made_by})
        self.made_by[key(array)] = len(self.boxes)
        self.boxes.append(box)

    def path(self, module):
        """Return the path of a module inside the one that is drawn, '' for that one itself."""
        return self.paths.get(id(module), "")

    @contextlib.contextmanager
    def module(self, module, arguments):
        """Make one box of a closed module, or of one without modules inside it; the one that is drawn is opened."""
        leaf = module is not self.root and (len(module.named_modules()) == 1 or isinstance(module, self.closed))
        outermost = leaf and not self.hidden
        owner = self.path(self.called[-1]) if self.called else ""
        self.called.append(module)
        self.hidden += leaf

        def note(output):
            if outermost and isinstance(output, Tensor):
                name = self.path(module).removeprefix(f"{owner}.")
                self.add(
                    Box(name, type(module).__name__, owner), arrays_in(arguments), output.data, module.parameters()
                )
            return output

        try:
            yield note
        finally:
            self.called.pop()
            self.hidden -= leaf

    @contextlib.contextmanager
    def forward(self, name, arrays, options):
        """Make one box of an operation outside of closed modules."""

        def note(result):
            array = np.asarray(result[0])
            if self.hidden:
                return result
            if name in VIEWS and key(arrays[0]) in self.made_by:
                self.kept.append(array)
                self.made_by[key(array)] = self.made_by[key(arrays[0])]
            elif name not in VIEWS:
                used = [self.parameters[id(each)] for each in arrays if id(each) in self.parameters]
                owner = self.path(self.called[-1]) if self.called else ""
                self.add(Box(name.replace("_", " "), "", owner), arrays, array, used)
            return result

        yield note


def key(array):
    """Return what tells an array from others: its place in memory; of integers and single numbers, which are copied
    on the way, the content."""
    return array.tobytes() if array.dtype.kind in "iu" or not array.ndim else id(array)


def arrays_in(values):
    """Return the arrays of the tensors among some values, also of those in lists."""
    flat = itertools.chain.from_iterable(each if isinstance(each, list) else [each] for each in values)
    return [each.data for each in flat if isinstance(each, Tensor)]


def record(module, inputs, call, closed=()):
    """Return the boxes of ``call()``, which calls a module; `inputs` are arrays by name, drawn as the first boxes."""
    recorder = Recorder(module, inputs, tuple(closed))
    with no_grad(), watch(recorder):
        call()
    return recorder.boxes


def folded(boxes):
    """Join modules of one class that follow each other and read nothing else: the layers of a plain stack."""
    found, numbers = [], []
    for number, box in enumerate(boxes):
        before = found[-1] if found else box
        if box.kind and box.kind == before.kind and box.inputs == [number - 1]:
            name = f"{before.name.split()[0]} to {box.name}"
            found[-1] = replace(before, name=name, parameters=before.parameters + box.parameters)
        else:
            found.append(replace(box, inputs=sorted({numbers[each] for each in box.inputs})))
        numbers.append(len(found) - 1)
    return found


def draw(boxes, description, rows=None):
    """Draw boxes below each other. `rows` is the number of tokens in the recorded pass, shown as T."""
    import matplotlib.pyplot as plt

    lanes = lanes_of(boxes)
    right = WIDTH + LANE * (2 + max(lanes.values(), default=-1))
    figure, axes = plt.subplots(figsize=(5.4, 0.4 * len(boxes)), num=description)
    for number, box in enumerate(boxes):
        y = -number
        has_parameters = bool(box.parameters) or box.is_tied
        colour = "C0" if has_parameters else "gray" if box.inputs else "C1"
        axes.add_patch(plt.Rectangle((0, y - 0.33), WIDTH, 0.66, facecolor=colour, alpha=0.2))
        axes.add_patch(plt.Rectangle((0, y - 0.33), WIDTH, 0.66, fill=False, edgecolor=colour))
        axes.text(0.2, y, box.name, fontsize=min(10.5, 190 / len(box.name)), fontweight="bold", va="center")
        count = f"{box.parameters:,}" if box.parameters else "tied" if box.is_tied else ""
        axes.text(6.5, y, count, fontsize=10, ha="right", va="center")
        shape = " × ".join("T" if size == rows else f"{size:,}" for size in box.shape)
        axes.text(WIDTH - 0.2, y, shape, fontsize=10, ha="right", va="center")
        if number - 1 in box.inputs:
            arrow = {"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0, "lw": 1}
            axes.annotate("", (WIDTH / 2, y + 0.33), (WIDTH / 2, y + 0.67), arrowprops=arrow)
    for source, lane in lanes.items():
        targets = [number for number, box in enumerate(boxes) if source in box.inputs and number > source + 1]
        x = WIDTH + LANE * (lane + 1)
        axes.plot([WIDTH, x, x], [-source, -source, -targets[-1]], color="black", lw=1)
        for number in targets:
            arrow = {"arrowstyle": "->", "shrinkA": 0, "shrinkB": 0, "lw": 1}
            axes.annotate("", (WIDTH, -number - 0.12), (x, -number - 0.12), arrowprops=arrow)
    for owner, first, last in groups(boxes):
        axes.plot([-0.35, -0.35], [-first + 0.33, -last - 0.33], color="C2", lw=2)
        axes.text(-0.5, -(first + last) / 2, owner, fontsize=10, rotation=90, ha="right", va="center")
    axes.set(xlim=(-1.3, right), ylim=(-len(boxes) + 0.5, 0.5))
    axes.axis("off")
    return figure


def lanes_of(boxes):
    """Return the lanes of the lines beside the boxes, by the box where each begins; short lines are inside.

    Two lines that meet at one box have lanes of their own: one ends there with an arrow, the other leaves it.
    """
    ends = {}
    for number, box in enumerate(boxes):
        for source in box.inputs:
            if number > source + 1:
                ends[source] = number
    lanes, taken = {}, []
    for source in sorted(ends, key=lambda each: (ends[each] - each, each)):
        lane = next(
            n for n in itertools.count() if not any(n == m and source <= e and s <= ends[source] for m, s, e in taken)
        )
        lanes[source] = lane
        taken.append((lane, source, ends[source]))
    return lanes


def groups(boxes):
    """Return (path, first, last) for each stretch of boxes inside one module."""
    found, first = [], 0
    for owner, stretch in itertools.groupby(boxes, lambda box: box.owner):
        last = first + len(list(stretch)) - 1
        if owner:
            found.append((owner, first, last))
        first = last + 1
    return found
