"""The directive `reference`: every public name of a module with its signature, docstring and a link to its source.

    ```{reference} minigrad.ops
    ```

The argument is a module, or a class of one (`models.gpt2.GPT2Config`). A public name without a docstring is an error of
the build.
"""

from __future__ import annotations

import html
import importlib
from typing import Any

from docutils import nodes
from public_names import PublicName, described, public_names
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective
from sphinx.util.nodes import make_id

from docs.extensions.source_parts import NotFoundError, escaped, markdown


class Reference(SphinxDirective):
    """List the public names of a module."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return one section for each name."""
        target = self.arguments[0]
        try:
            module, _, name = target.rpartition(".")
            if name[:1].isupper():
                names = [described(name, getattr(importlib.import_module(module), name), module)]
            else:
                module, names = target, public_names(target)
        except (NotFoundError, ImportError, AttributeError) as error:
            raise self.error(f"reference of {target}: {error}") from None
        self.env.note_reread()  # the names come from modules: Sphinx does not see when these change
        return [self.section(module, each) for each in names]

    def section(self, module: str, name: PublicName) -> nodes.section:
        """Return the heading of a name and what is said about it."""
        section = nodes.section(ids=[make_id(self.env, self.state.document, term=f"{module}.{name.name}")])
        section += nodes.title("", "", nodes.literal("", name.name))
        if name.signature:
            section += signature_html(name)
        section += self.parse_text_to_nodes(markdown(name.docstring))
        section += self.parse_text_to_nodes(f"{inheritance(name)}Source: {{source}}`{name.home}`.")
        if name.fields:
            section += self.entries("Fields", [(each, None, escaped(meaning)) for each, meaning in name.fields])
        if name.methods:
            rows = [(each.signature, each.home, markdown(each.docstring)) for each in name.methods]
            section += self.entries("Methods and properties", rows)
        return section

    def entries(self, title: str, rows: list[tuple[str, str | None, str]]) -> list[nodes.Node]:
        """Return a list of signatures, linked to their source if they have a home, each with its meaning below it."""
        listed = nodes.definition_list(classes=["reference-entries"])
        for signature, home, meaning in rows:
            item = nodes.definition_list_item()
            linked = self.parse_text_to_nodes(f"{{source}}`{signature} <{home}>`") if home else []
            term = nodes.term("", "", *(linked[0].children if linked else [nodes.literal("", signature)]))
            text = nodes.definition()
            text += self.parse_text_to_nodes(meaning)
            item += [term, text]
            listed += item
        return [nodes.rubric("", title), listed]


def signature_html(name: PublicName) -> nodes.raw:
    """Return the signature of a name in colours."""
    code = highlight(name.signature, PythonLexer(), HtmlFormatter(nowrap=True))
    label = html.escape(f"how to call {name.name}")
    block = f'<pre tabindex="0" role="region" aria-label="{label}">{code}</pre>'
    return nodes.raw("", f'<div class="reference-signature highlight">{block}</div>', format="html")


def inheritance(name: PublicName) -> str:
    """Return the beginning of the line below a docstring: what a class inherits from."""
    if not name.bases:
        return ""
    return "Inherits from " + ", ".join(f"{{source}}`{base.rpartition('.')[2]} <{base}>`" for base in name.bases) + ". "


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("reference", Reference)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
