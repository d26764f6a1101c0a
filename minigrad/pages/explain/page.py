"""The page that explains a text: one file of text, tables and pictures, which opens offline and runs no script."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

from minigrad.nn.language_model import LanguageModel
from minigrad.pages.chart import Series, captioned
from minigrad.pages.explain import lens, maps, panel, prediction
from minigrad.pages.explain.atlas import draw_atlas, head_atlas
from minigrad.pages.explain.attention import ATTENTIONS
from minigrad.pages.explain.lens import Lens
from minigrad.pages.explain.prediction import Prediction
from minigrad.pages.explain.tokens import TokenNames
from minigrad.pages.explain.trace import Trace, trace
from minigrad.pages.page import escape, page
from minigrad.system.units import format_count
from minigrad.typing import Tokenizer

MOST_TOKENS = 400
"""The newest tokens of a longer text are shown; the model reads all that its context holds."""


class Reading(NamedTuple):
    """Everything that the page shows: the text and what the model computed as it read it."""

    model: LanguageModel
    names: TokenNames
    tokens: list[int]  # read by the model in one pass, from position 0
    written: int  # the position of the first token that the model wrote
    first: int  # the position of the first token that the page shows
    trace: Trace
    expected: list[Prediction | None]  # of the tokens from `first` on; None for position 0
    lens: Lens  # of the same places

    @property
    def shown(self) -> list[int]:
        """The tokens that the page shows."""
        return self.tokens[self.first :]


def explain(
    model: LanguageModel,
    tokenizer: Tokenizer,
    tokens: Sequence[int],
    *,
    written: int | None = None,
    title: str = "A text, explained",
    drawn: str = "",
) -> str:
    """Return a page that shows what the model computed at each token of a text, at least one.

    The first `written` tokens are the prompt; None: all of them. `drawn` says how the others were drawn. Of a text that
    is longer than the model's context, the newest part is explained.

        ids = document(tok, "The list type")  # of minigrad.generation.decoding
        Path("page.html").write_text(explain(model, tok, ids), encoding="utf-8")
    """
    reading = read(model, tokenizer, tokens, len(tokens) if written is None else written)
    shown = model.panels(reading.trace) if isinstance(model, panel.ShowsPanels) else []
    panels = {f"panel{number}": each for number, each in enumerate(shown)}
    links = _PARTS | {name: each.title for name, each in panels.items()}
    sections = [
        _head(reading, title, drawn, len(tokens), 0 if written is None else len(tokens) - written),
        f"<nav>{''.join(f'<a href=#{name}>{escape(text)}</a> ' for name, text in links.items())}</nav>",
        _text(reading),
        _choices(reading),
        _lens(reading),
        _attention(reading),
        _heads(reading.model),
        *(panel.show_panel(each, name, reading.tokens, reading.first, reading.names) for name, each in panels.items()),
    ]
    return page(title, "\n".join(sections), _STYLE + prediction.STYLE + lens.STYLE + maps.STYLE + panel.STYLE)


def read(model: LanguageModel, tokenizer: Tokenizer, tokens: Sequence[int], written: int) -> Reading:
    """Let the model read a text in one pass, and keep what the page shows."""
    kept = [int(token) for token in tokens][-model.config.context_length :]
    left_out = len(tokens) - len(kept)
    first = max(0, len(kept) - MOST_TOKENS)
    more = model.panel_operations if isinstance(model, panel.ShowsPanels) else ()
    found = trace(model, kept, [*ATTENTIONS, *more])
    start = max(first - 1, 0)  # the logits after a token predict the next one
    logits = lens.last_logits(model, found, start)
    expected: list[Prediction | None] = [] if first else [None]  # nothing stands before position 0
    expected += prediction.predictions(logits[:-1], kept[start + 1 :])
    names, view = TokenNames(tokenizer), lens.logit_lens(model, found, first)
    return Reading(model, names, kept, max(written - left_out, 0), first, found, expected, view)


def _head(reading: Reading, title: str, drawn: str, count: int, written: int) -> str:
    model, left_out = reading.model, count - len(reading.shown)
    facts = f"{format_count(model.num_parameters())} parameters, {model.config.num_layers} layers"
    long = f" The text is longer: its first {left_out:,} tokens are not shown." if left_out else ""
    how = f" Drawn with {escape(drawn)}." if drawn else ""
    return f"<h1>{escape(title)}</h1><p>{facts}; {count:,} tokens; the model wrote {max(written, 0):,}.{how}{long}</p>"


_PARTS = {
    "text": "The text",
    "choices": "Alternatives",
    "lens": "Layer by layer",
    "attention": "Attention",
    "heads": "Heads",
}


def _text(reading: Reading) -> str:
    pairs = list(zip(reading.shown, reading.expected, strict=True))
    size, border = reading.model.config.vocab_size, max(reading.written - reading.first, 0)
    parts = []
    for name, part in (("The prompt", pairs[:border]), ("What the model wrote", pairs[border:])):
        if part:
            parts.append(f"<h3>{name}</h3>{prediction.ribbon(part, reading.names, size)}")
    words = _TEXT.format(size=size, most=math.log2(size))
    return (
        f"<h2 id=text>The text, token by token</h2><p>{words}</p>{_summary(reading)}{''.join(parts)}{_curves(reading)}"
    )


_TEXT = """A model reads and writes tokens: words, parts of words, symbols. Its vocabulary has {size:,} of them. <b>\
The number under a token</b> is the probability that the model gave it, knowing only the text before it. <b>The \
colour</b> shows surprise: strong where the token was unlikely. <b>The bar at the bottom</b> shows the entropy, how \
uncertain the model was: no bar if only one token was possible, a full one ({most:.1f} bits) if all were equally \
likely. Two bits are the uncertainty of a choice among four equally likely tokens."""


def _summary(reading: Reading) -> str:
    """Return the averages over the tokens that the model wrote, or over the prompt if it wrote none."""
    border = reading.written - reading.first
    written = [each for each in reading.expected[max(border, 0) :] if each is not None]
    known = written or [each for each in reading.expected if each is not None]
    if not known:
        return ""
    which = "the model wrote" if written else "it was given"
    which = f"shown that {which}" if reading.first else f"that {which}"
    surprise = sum(min(each.surprise, 99.0) for each in known) / len(known)
    entropy = sum(each.entropy for each in known) / len(known)
    first = sum(each.rank == 1 for each in known) / len(known)
    return (
        f"<p>Over the tokens {which}: surprise {surprise:.1f} bits and entropy {entropy:.1f} bits on average; "
        f"{prediction.percent(first)} of the tokens were the most likely ones.</p>"
    )


def _curves(reading: Reading) -> str:
    """Return a chart of the surprise and one of the entropy, over the positions."""
    known = [(n, each) for n, each in enumerate(reading.expected, start=reading.first) if each is not None]
    if not known:
        return ""
    places, figures = [place for place, _ in known], []
    for title, values in (
        ("Surprise of each token, bits", [min(each.surprise, 99.0) for _, each in known]),
        ("Entropy at each token, bits", [each.entropy for _, each in known]),
    ):
        figures.append(captioned(title, [Series(title, places, values)], over="position"))
    return f"<div class=charts>{''.join(figures)}</div>"


def _choices(reading: Reading) -> str:
    places = zip(itertools.count(reading.first), reading.shown, reading.expected, strict=False)
    known = [(place, token, found) for place, token, found in places if found is not None]
    return f"<h2 id=choices>What else could come here</h2><p>{_CHOICES}</p>{prediction.choices(known, reading.names)}"


_CHOICES = """For each position: the token in the text with its probability and rank (rank 1 is the most likely \
token), and the five tokens that the model considered most likely; a ✓ marks the token in the text among them. \
A dot · is a space, ↵ a line break, \\x.. a byte that is only a part of a character."""


def _lens(reading: Reading) -> str:
    table = lens.lens_table(reading.lens, reading.shown, reading.first, reading.names)
    return f"<h2 id=lens>What each layer would have said</h2><p>{_LENS}</p>{lens.agreement(reading.lens)}{table}"


_LENS = """A model is a stack of layers, and each adds to what the layers before it have found out. Here the answer \
is read off early: the most likely next token, had the model ended after that layer, and its probability (this is \
called the logit lens). Each row is a token that the model has just read; the columns are its guesses for the token \
after it. Guesses in bold are those of the last layer. Early layers were never trained to answer, so their guesses \
may make no sense."""


def _attention(reading: Reading) -> str:
    pictures, count = maps.attention_maps(reading.trace.operations, len(reading.tokens))
    limit = "" if count == len(reading.tokens) else f" The maps show the newest {count:,} tokens."
    words = f"<p>{_ATTENTION}{limit}</p>{maps.legend()}"
    return f"<h2 id=attention>Which token reads which</h2>{words}{pictures}"


_ATTENTION = """In each layer, every token collects information from itself and the tokens before it. A layer has \
several heads, each with its own habit. A map has a row for each token that reads and a column for each token that is \
read; the stronger the colour, the more is taken from there. A row adds up to 100%. The part above the diagonal is \
empty: no token sees a later one. Below each map is the share that the head takes on average from the token \
itself, from the one before it and from the first one. Numbers on the axes are positions, as in the tables above."""


def _heads(model: LanguageModel) -> str:
    atlas = head_atlas(model)
    picture = f"<figure>{draw_atlas(atlas)}</figure>" if atlas else "<p>This cannot be measured in this model.</p>"
    return f"<h2 id=heads>What each head looks for</h2><p>{_HEADS}</p>{picture}"


_HEADS = """This does not depend on the text above. The model has read tokens that were drawn at random, and then the \
same tokens once more. A bar shows where a head looked the second time, on average: the whole bar is all of its \
attention, and the uncoloured part goes to other places. A head that looks at what followed the same token before \
can copy from the text. It often needs one in an earlier layer that looks at the token before. Many models give the \
first token the attention for which they have no other use."""

_STYLE = """
nav a { display: inline-block; margin: .5rem 1rem 0 0; } a { color: var(--link); }
p:not(.ribbon, .pairs) { max-width: 46rem; } h3 { margin: 1.5rem 0 .25rem; font-size: 1.05rem; }
.charts { display: grid; gap: 1rem 1.5rem; grid-template-columns: repeat(auto-fit, minmax(min(100%, 20rem), 1fr)); }
h2 ~ figure { max-width: 30rem; }
"""
