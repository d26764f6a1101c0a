"""Step through a computation: a picture of its graph that fills with values, and then with gradients.

It is a piece of a web page: the picture, and beside it a list that puts every step into words. Without scripts both are
complete. A short script adds a slider, which shows the picture as it is after each step.
"""

from __future__ import annotations

import html
import itertools
from collections.abc import Callable, Iterable, Sequence

from numpy.typing import ArrayLike

from minigrad.autograd.tensor import Tensor
from minigrad.pages.graph.drawing import BoxLine, picture, shown
from minigrad.pages.graph.history import Box, history
from minigrad.typing import Array

_SUBSCRIPTS = str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉")


def step_through(function: Callable[..., Tensor], **inputs: ArrayLike) -> str:
    """Return HTML that steps through ``function(**inputs)``, a Tensor of one element, forward and back.

    Step 0 gives the inputs. Each operation then computes its value, in the order of the program. The result gets the
    gradient 1, and each operation, the newest first, passes gradients on to its arguments. A gradient that arrives in
    parts is shown with the sum so far. What `inputs` may be, and the errors, are those of `draw_graph`.
    """
    boxes = history(function, inputs)
    count = sum(box.number > 0 for box in boxes)
    told = [
        f"Given: {_listed(_equation(box) for box in boxes if not box.number)}.",
        *_values_told(boxes),
        f"The backward pass begins at {_name(boxes[-1])}, whose gradient is 1.",
        *_gradients_told(boxes),
    ]

    def lines(box: Box) -> tuple[BoxLine, list[BoxLine]]:
        return BoxLine(_name(box), shown(box.value), _between(box.number)), _gradients(box, count)

    def attributes(box: Box) -> str:
        steps = [box.number, count + 1 + box.visit] if box.number else [0]
        return f' data-steps="{" ".join(map(str, steps))}"'

    steps = "".join(f"<li>{html.escape(each)}</li>" for each in told)
    svg = picture(boxes, lines, attributes)
    return f'<div class="graph-steps"><div>{svg}{_CONTROLS}</div><ol start="0">{steps}</ol></div>{_STYLE}{_SCRIPT}'


def _name(box: Box) -> str:
    """Return the name of a box; operations are numbered as in "add₂", because several may have one title."""
    return f"{box.title}{str(box.number).translate(_SUBSCRIPTS)}" if box.number else box.title


def _values_told(boxes: Sequence[Box]) -> list[str]:
    """Return a sentence for each operation, in the order of computing."""
    operations = sorted((box for box in boxes if box.number), key=lambda box: box.number)
    words = ((_name(box), _listed(map(_equation, box.inputs)), _words(box.value)) for box in operations)
    return [f"{name} takes {inputs}. Its value is {value}." for name, inputs, value in words]


def _equation(box: Box) -> str:
    return f"{_name(box)} = {_words(box.value)}"


def _words(array: Array) -> str:
    return shown(array).replace("shape", "an array of shape")


def _gradients_told(boxes: Sequence[Box]) -> list[str]:
    """Return a sentence for each operation, in the order of the backward pass."""
    told = []
    for box in sorted((box for box in boxes if box.visit), key=lambda box: box.visit):
        receivers = [each for each in dict.fromkeys(box.inputs) if any(part.sender is box for part in each.arrivals)]
        told.append(f"{_name(box)} passes on {_listed(_passed(box, each) for each in receivers) or 'nothing'}.")
    return told


def _passed(sender: Box, receiver: Box) -> str:
    """Return what an operation passes on to one of its inputs, and the sum if that has received parts before."""
    arrived = [each for each in receiver.arrivals if each.sender is sender]
    parts = " and ".join(_words(each.part) for each in arrived)
    is_first_and_only = receiver.arrivals[0] is arrived[-1]
    total = "" if is_first_and_only else f" (together {_words(arrived[-1].total)})"
    return f"{parts} to {_name(receiver)}{total}"


def _gradients(box: Box, count: int) -> list[BoxLine]:
    """Return the gradient of a box as it is after each visit that added to it, the last sum as the final one."""
    if box.gradient is None:
        return []
    sums = {count + 1 + each.sender.visit: each.total for each in box.arrivals} or {count + 1: box.gradient}
    ends = itertools.zip_longest(sums.items(), list(sums)[1:])
    return [BoxLine("gradient", shown(total), _between(begin, end)) for (begin, total), end in ends]


def _between(begin: int, end: int | None = None) -> str:
    """Return the attributes that show an element from one step until another, or until the end."""
    return f' data-from="{begin}"' + ("" if end is None else f' data-until="{end}" class="hidden"')


def _listed(words: Iterable[str]) -> str:
    """Return words as in a sentence: "a, b and c"; "" for none."""
    *first, last = [*words] or [""]
    return f"{', '.join(first)} and {last}" if first else last


_CONTROLS = """<p hidden><button type="button" aria-label="one step back">◀</button>\
<input type="range" min="0" aria-label="step of the computation">\
<button type="button" aria-label="one step forward">▶</button></p>"""

_STYLE = """<style>
.graph-steps { display: grid; gap: .5rem 1.5rem; margin: 1rem 0;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 19rem), 1fr)); }
.graph-steps svg { display: block; width: 100%; height: auto; }
.graph-steps .hidden { visibility: hidden; }
.graph-steps :is(rect, path).now { stroke: #d9730d; stroke-width: 3; stroke-opacity: 1; }
.graph-steps p:not([hidden]) { display: flex; gap: .5rem; max-width: 27rem; margin: .75rem 0; }
.graph-steps button { padding: .4rem .9rem; border: 1px solid; border-radius: .4rem; background: none; color: inherit;
  font-size: 1rem; }
.graph-steps input { flex: 1; min-width: 0; accent-color: #d9730d; }
.graph-steps ol { margin: 0; padding-left: 2.2rem; font-size: .9em; }
.graph-steps li { margin: 0; padding: .15rem .5rem; border-left: 3px solid transparent; }
.graph-steps li.now { border-color: #d9730d; background: rgb(217 115 13 / .12); }
</style>"""

# The list is also the script's source: what it says of a step is what a screen reader says of the slider there. After
# the last step, the slider returns to the first one.
_SCRIPT = """<script>
for (const graph of document.querySelectorAll(".graph-steps:not([data-ready])")) {
  const [back, slider, forward] = graph.querySelectorAll("button, input");
  const steps = [...graph.querySelectorAll("li")];
  const show = (wanted) => {
    const step = (wanted + steps.length) % steps.length;
    slider.value = step;
    slider.setAttribute("aria-valuetext", steps[step].textContent);
    steps.forEach((each, place) => each.classList.toggle("now", place === step));
    for (const part of graph.querySelectorAll("[data-from]"))
      part.classList.toggle("hidden", step < part.dataset.from || step >= (part.dataset.until ?? steps.length));
    for (const part of graph.querySelectorAll("[data-steps]"))
      part.classList.toggle("now", part.dataset.steps.split(" ").includes(String(step)));
  };
  slider.max = steps.length - 1;
  slider.oninput = () => show(Number(slider.value));
  back.onclick = () => show(Number(slider.value) - 1);
  forward.onclick = () => show(Number(slider.value) + 1);
  steps.forEach((each, place) => { each.onclick = () => show(place); });
  slider.parentElement.hidden = false;
  graph.dataset.ready = "";
  show(steps.length - 1);
}
</script>"""
