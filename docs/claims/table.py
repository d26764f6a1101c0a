"""The rows of claims.toml, checked as they are read."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "claims.toml"

DOCUMENTS = {
    "gpt2": "GPT-2 with 300 million parameters",
    "vidya": "Vidya, the plan for a second version",
    "wiola": "Wiola (arXiv 2607.01394)",
    "vsla": "VSLA, the plan for a variable-shape transformer",
}

VERDICTS = {
    "right": "the claim holds",
    "wrong": "the correct value is a different one, or what is claimed does not happen",
    "misleading": "true, but of something else, or in fewer cases than it seems",
    "measured": "the claim is a matter of degree, and the entry gives what was measured here",
    "unproven": "the document does not show it, and nothing here settles it",
}


@dataclass(frozen=True)
class Claim:
    """One claim of a document, and what is true; the fields are explained at the top of claims.toml."""

    document: str
    says: str
    verdict: str
    right: str
    compute: str = ""
    value: Any = None
    within: float = 0.0005
    why: str = ""

    @property
    def right_value(self) -> str:
        """The right value in words, with the computed value in its place.

        >>> Claim("gpt2", "two by two is five", "wrong", "{:.1f}", compute="2 * 2", value=4).right_value
        '4.0'
        """
        values = self.value if isinstance(self.value, list) else [self.value]
        return self.right.format(*values)

    @property
    def measured(self) -> list[str]:
        """The names of the measurements that the right value is computed from.

        >>> Claim("gpt2", "twice as fast", "measured", "{:.1f}", compute='measured("a-run", "nano") / 2').measured
        ['a-run']
        """
        return list(dict.fromkeys(re.findall(r'measured\("([^"]+)"', self.compute)))


def read(file: Path = FILE) -> list[Claim]:
    """Return the rows of a file; raises ValueError, naming the claim, for one that is not complete."""
    known = {field.name for field in fields(Claim)}
    claims = []
    for row in tomllib.loads(file.read_text(encoding="utf-8"))["claim"]:
        name = f"the claim {row.get('says')!r}"
        if unknown := row.keys() - known:
            raise ValueError(f"{name} has unknown fields: {', '.join(sorted(unknown))}")
        if missing := {"document", "says", "verdict", "right"} - row.keys():
            raise ValueError(f"{name} lacks {', '.join(sorted(missing))}")
        if row["document"] not in DOCUMENTS or row["verdict"] not in VERDICTS:
            raise ValueError(f"{name} has the document {row['document']!r} and the verdict {row['verdict']!r}")
        if ("compute" in row) != ("value" in row):
            raise ValueError(f"{name}: compute and value belong together")
        if not row.keys() & {"compute", "why"}:
            raise ValueError(f"{name} does not say how its right value is known")
        claims.append(Claim(**row))
    return claims
