"""The directive `claims`: what one of the source documents claims, and what is true.

    ```{claims} gpt2
    ```

The rows are those of docs/claims/claims.toml. Computed values are taken from that file, and a test computes them.
"""

from __future__ import annotations

from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from docs.claims.table import DOCUMENTS, FILE, Claim, read
from docs.measurements.records import FOLDER
from docs.measurements.records import read as read_measurements


class Claims(SphinxDirective):
    """List the claims of a document."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return one list, an entry for each claim."""
        document = self.arguments[0]
        if document not in DOCUMENTS:
            raise self.error(f"there are no claims of {document!r}; the documents are {', '.join(DOCUMENTS)}")
        for file in (FILE, *FOLDER.glob("*.toml")):
            self.env.note_dependency(str(file))
        self.records = read_measurements()
        listed = nodes.definition_list(classes=["claims"])
        listed += [self.entry(claim) for claim in read() if claim.document == document]
        return [listed]

    def entry(self, claim: Claim) -> nodes.definition_list_item:
        """Return the claim with its verdict, and below it the right value, the reason, and how to check it."""
        verdict = nodes.inline("", claim.verdict, classes=["verdict", f"verdict-{claim.verdict}"])
        term = nodes.term("", "", verdict, nodes.Text(f" {claim.says}"))
        text = nodes.definition()
        text += nodes.paragraph("", "", nodes.strong("", claim.right_value))
        if claim.why:
            text += self.parse_text_to_nodes(claim.why)
        if claim.compute:
            text += nodes.paragraph("", "", nodes.literal("", claim.compute))
        for name in claim.measured:
            record = self.records[name]
            text += self.parse_text_to_nodes(f"`{record.command}`, {record.machine}, {record.date}: {record.runs}")
        return nodes.definition_list_item("", term, text)


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive."""
    app.add_directive("claims", Claims)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
