"""The directive `files`, which shows every file of a folder, and the role `source`, which links to a line of them.

    ```{files} minigrad/ops
    ```

    The gradient is in {source}`minigrad.ops.softmax.softmax`.

Each file is laid out as `annotate` does it, below a heading of its name. A `source` of a name that no file defines is a
warning of the build, and the build turns warnings into errors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from annotate import ROOT, annotated
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.roles import XRefRole
from sphinx.util.docutils import SphinxDirective

from docs.extensions.source_parts import definitions, find, parts_of


class Files(SphinxDirective):
    """Show the files of a folder, or one file."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        """Return one section for each file."""
        place = ROOT / self.arguments[0]
        paths = [place] if place.suffix == ".py" and place.is_file() else sorted(place.glob("*.py"))
        if not paths:
            raise self.error(f"there are no files of Python in {self.arguments[0]}")
        return [self.section(path) for path in paths]

    def section(self, path: Path) -> nodes.section:
        """Return the heading of a file and its lines, and note where each of its names is."""
        parts = path.relative_to(ROOT).with_suffix("").parts
        module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        excerpt = find(module, ROOT)
        self.env.note_dependency(str(path))
        names = definitions(excerpt, module)
        section = nodes.section(ids=[module])
        section += nodes.title("", "", nodes.literal("", path.relative_to(ROOT).as_posix()))
        section += annotated(self, excerpt, parts_of(excerpt), names)
        for name in [module, *names.values()]:
            self.env.domains.standard_domain.note_object("definition", name, name, location=section)
        return section


def setup(app: Sphinx) -> dict[str, Any]:
    """Register the directive, and the role with its kind of target."""
    app.add_directive("files", Files)
    app.add_crossref_type("definition", "source")
    role = XRefRole(innernodeclass=nodes.literal, warn_dangling=True)
    app.add_role_to_domain("std", "source", role, override=True)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
