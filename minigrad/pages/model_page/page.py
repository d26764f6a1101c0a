"""The page: one HTML file that holds the model, its tokenizer and its engine, and refers to nothing else."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from minigrad.pages.model_page.export import export
from minigrad.pages.model_page.parts import conversation, editor, sliders
from minigrad.pages.model_page.scripts import DRAWING, ENGINE, STYLE, WRITING, joined
from minigrad.pages.page import escape, page
from minigrad.quantised import format_of
from minigrad.system.units import format_count


def model_page(
    model: LanguageModel,
    words: Mapping[str, Any],
    *,
    title: str,
    prompt: str = "",
    settings: Sampling | None = None,
    chat: bool = False,
) -> str:
    """Return a page that writes with a model, as text of HTML.

    `words` is the tokenizer as data for JSON, with the ids that begin a text under the name `begin`. With `chat` the
    page holds conversations too. Raises InputError for a model without a program, or one too large for a page.
    """
    table, weights = export(model)
    ends = sorted({model.config.end_of_text_id, *model.end_ids, *words["specials"].values()})
    content = {"model": table, "tokenizer": dict(words), "ends": ends, "prompt": prompt, "chat": chat}
    facts = (
        f"{format_count(model.num_parameters())} parameters, {model.config.num_layers} layers, weights in "
        f"{format_of(model) or 'float32'}. The model is in this file and computes on this device: nothing is sent."
    )
    body = _BODY.format(
        title=escape(title),
        facts=escape(facts),
        settings=sliders(settings or Sampling()),
        modes=_MODES if chat else "",
        editor=editor(),
        chat=conversation() if chat else "",
        content=_in_script(json.dumps(content, ensure_ascii=False, separators=(",", ":"))),
        weights=base64.b64encode(weights).decode(),
        script=joined(*ENGINE, *WRITING, *DRAWING, "view", "chat", "start"),
    )
    return page(title, body, STYLE.read_text(encoding="utf-8"), head=_POLICY)


def _in_script(text: str) -> str:
    """Return JSON that can stand between the tags of a script: nothing in it ends the script."""
    return text.replace("<", "\\u003c")


_POLICY = (
    "<meta http-equiv=Content-Security-Policy content=\"default-src 'none'; script-src 'unsafe-inline' "
    "'wasm-unsafe-eval'; style-src 'unsafe-inline'; img-src data:\">\n<link rel=icon href=\"data:,\">\n"
)

_MODES = """<div class=row role=radiogroup aria-label="What the page is for"><label><input type=radio name=mode \
id=as-text autocomplete=off checked> Text</label><label><input type=radio name=mode id=as-chat autocomplete=off> \
Conversation</label></div>"""

_BODY = """<h1>{title}</h1><p>{facts}</p>
<noscript>This page runs the model as a script, so it needs scripts to be enabled.</noscript>
{modes}<main><div><section id=writing aria-label="Text">
{editor}<div class=row role=radiogroup aria-label="What the colours show"><span>Colours:</span><label><input \
type=radio name=colours id=by-surprise checked> surprise</label><label><input type=radio name=colours id=by-head> what \
a head reads</label></div></section>{chat}
<p id=status class="soft status" role=status></p>
<p id=help class=soft>Edit the text anywhere. Ctrl + Enter continues it, Escape stops. The list shows the \
alternatives to the token at the cursor: click one to take another branch. Orange: the stronger the colour, the less \
the model expected the token. Blue: the stronger the colour, the more the head reads the token, compared with the one \
that it reads most.</p></div>
<div><h2 id=here>What may come next</h2><ol id=rivals class=rivals tabindex=-1 aria-labelledby=here></ol>
<p class=soft>Blue: the probability with these settings. Grey: the probability that the model itself gives. \
<em>Cut</em>: the settings leave the token out.</p>
{settings}
<h2>What each layer would have said</h2><table id=layers></table>
<p id=no-layers class=soft hidden>This model does not show its layers here.</p>
<section id=pointing><h2>Which tokens a head reads</h2>
<p class=soft>Choose a head (layer.head), then point at a token of the text.</p>
<div id=heads></div><p id=reads class="soft name" role=status></p></section></div></main>
<script type="application/json" id=content>{content}</script>
<script type="text/plain" id=weights>{weights}</script>
<script>
"use strict";
{script}
</script>"""
