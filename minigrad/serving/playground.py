"""The playground: a page at `/` of the server that writes with the models that it serves."""

from __future__ import annotations

import base64
import hashlib
from pathlib import Path

from minigrad.generation.settings import Sampling
from minigrad.pages.model_page.parts import conversation, editor, sliders
from minigrad.pages.model_page.scripts import DRAWING, STYLE, joined
from minigrad.pages.page import page

FOLDER = Path(__file__).with_name("script")


def playground(*, needs_key: bool) -> tuple[str, str]:
    """Return the page, and the policy that its reply names: one script, and requests to this server alone.

    The page holds no data of a model. It asks the API for the names of the models; with `needs_key` the reader first
    enters the key.
    """
    script = f'"use strict";\n{joined("signs", *DRAWING)}\n{joined("server", "column", "playground", folder=FOLDER)}'
    body = _BODY.format(
        lock="" if needs_key else " hidden",
        columns="".join(_column(number) for number in (1, 2)),
        script=script,
    )
    style = STYLE.read_text(encoding="utf-8") + (FOLDER / "playground.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return page("Playground", body, style, head='<link rel=icon href="data:,">\n'), policy


def _column(number: int) -> str:
    suffix = f"-{number}"
    settings = sliders(Sampling(), suffix, penalties=True)
    return _COLUMN.format(n=suffix, number=number, editor=editor(suffix), chat=conversation(suffix), settings=settings)


_BODY = """<h1>Playground</h1><p>Write with the models of this server. The page talks to this server alone.</p>
<noscript>This page needs scripts to be enabled.</noscript>
<form id=lock class=row{lock}><label>API key <input id=key type=password autocomplete=off></label><button>Use this \
key</button></form><p id=status class="soft status" role=status></p>
<div id=top class=row hidden><label><input id=compare type=checkbox autocomplete=off> Two columns</label><button \
id=both type=button hidden>Write both from the first prompt</button></div>
<main id=columns hidden>{columns}</main>
<p id=help class=soft>Edit the text anywhere. Ctrl + Enter continues it, Escape stops. The stronger the colour of a \
token, the less the model expected it. The list shows the alternatives to the token at the cursor, with the \
probability that the model itself gives: click one to take another branch. The address is a link to the prompt, the \
settings and the models.</p>
<script>{script}</script>"""

_COLUMN = """<section id=column{n} class=column aria-label="Column {number}"><div>
<div class=row><label>Model <select id=model{n} autocomplete=off></select></label><span id=modes{n} class=row \
role=radiogroup aria-label="What the column is for" hidden><label><input type=radio name=mode{n} id=as-text{n} checked \
autocomplete=off> Text</label><label><input type=radio name=mode{n} id=as-chat{n} autocomplete=off> \
Conversation</label></span></div>
<div id=writing{n}>{editor}</div>{chat}
<p id=status{n} class="soft status" role=status></p></div>
<div><div id=looking{n}><h2 id=here{n}>What may come next</h2>
<ol id=rivals{n} class=rivals tabindex=-1 aria-labelledby=here{n}></ol></div>
<div id=settings{n}><h2>Settings</h2>{settings}</div></div></section>
"""
