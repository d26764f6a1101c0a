"""The parts that pages of text share: the editor, the conversation and the settings.

A page with several of each tells them apart by a suffix of their ids.
"""

from __future__ import annotations

import math

from minigrad.generation.settings import Sampling


def editor(suffix: str = "") -> str:
    """Return a text field over the paper that shows the colours of its tokens, and its buttons."""
    return _EDITOR.format(n=suffix)


def conversation(suffix: str = "") -> str:
    """Return the messages of a conversation and the field for the next; the page shows it when it is chosen."""
    return _CONVERSATION.format(n=suffix)


def sliders(settings: Sampling, suffix: str = "", *, penalties: bool = False) -> str:
    """Return sliders for the distribution of the next token, and fields for the seed and the number of tokens."""
    rows: list[tuple[str, str, float, float, float, float]] = [
        ("temperature", "Temperature", settings.temperature, 0, 2, 0.05),
        ("top-k", "Top-k", settings.top_k or 0, 0, 200, 1),
        ("top-p", "Top-p", settings.top_p or 1, 0.05, 1, 0.01),
        ("min-p", "Min-p", settings.min_p or 0, 0, 0.5, 0.01),
    ]
    if penalties:
        rows += [
            ("presence-penalty", "Presence", settings.presence_penalty, -2, 2, 0.1),
            ("frequency-penalty", "Frequency", settings.frequency_penalty, -2, 2, 0.1),
            ("repetition-penalty", "Repetition", settings.repetition_penalty, 0.5, 2, 0.05),
        ]
    found = "".join(
        _slider(f"{name}{suffix}", f"{name}-value{suffix}", label, value, least, most, step)
        for name, label, value, least, most, step in rows
    )
    return found + _NUMBERS.format(n=suffix, seed=settings.seed, count=settings.tokens)


def _slider(name: str, shown: str, label: str, value: float, least: float, most: float, step: float) -> str:
    """Return a slider that can show its value: to another one, a browser would give the nearest value that it can."""
    steps = (value - least) / step
    any_or_step = step if math.isclose(steps, round(steps), abs_tol=1e-9) else "any"
    return (
        f"<div class=setting><label for={name}>{label}</label><input id={name} type=range min={min(least, value)} "
        f"max={max(most, value)} step={any_or_step} value={value}><output id={shown} for={name}></output></div>"
    )


_EDITOR = """<div id=editor{n} class=editor><div id=paper{n} class=paper aria-hidden=true></div><textarea id=text{n} \
class=text spellcheck=false autocomplete=off autocapitalize=off aria-label="The text: write, and let the model \
continue" aria-describedby=help placeholder="Write the beginning of a text"></textarea></div>
<div class="row actions"><button id=write{n} class=strong type=button>Continue</button><button id=undo{n} \
type=button disabled>Undo</button><button id=new{n} type=button>New text</button></div>
"""

_CONVERSATION = """<section id=chat{n} hidden aria-label="Conversation"><div id=messages{n} class=messages role=log \
aria-live=polite></div>
<form id=ask{n} class=row><input id=message{n} class=message aria-label="Your message" autocomplete=off \
placeholder="Your message"><button id=send{n} class=strong>Send</button><button id=again{n} type=button>New \
conversation</button></form></section>"""

_NUMBERS = """<div class=row><label>Seed <input id=seed{n} type=number min=0 max=4294967295 step=1 value={seed}></label>
<label>Tokens <input id=count{n} type=number min=1 max=100000 step=1 value={count}></label></div>"""
