"""Build the documentation as pages that need no network: `python docs/build.py --open` shows them in a browser.

The cells of the pages are run meanwhile, so what they print and draw is of this machine. Needs the extra `docs`:
`pip install -e ".[docs]"`.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import webbrowser
from pathlib import Path

DOCS = Path(__file__).parent
NEEDED = ("sphinx", "myst_nb", "furo", "matplotlib", "latex2mathml")


def build(folder: Path) -> int:
    """Build all pages into a folder, and return 0 if there was neither an error nor a warning."""
    from sphinx.cmd.build import build_main

    # Two pages at a time: while one imports and compiles, the other computes.
    return build_main(["--fail-on-warning", "--keep-going", "--quiet", "--jobs=2", str(DOCS), str(folder)])


def main(arguments: list[str] | None = None) -> int:
    """Build, say where the first page is, and open it if asked to."""
    parser = argparse.ArgumentParser(description="Build the documentation of minigrad.")
    parser.add_argument("--out", type=Path, default=DOCS.parent / "build" / "docs", help="the folder of the pages")
    parser.add_argument("--open", action="store_true", help="open the first page in a browser")
    options = parser.parse_args(arguments)
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        print(
            f"The documentation needs packages that are not installed here ({', '.join(missing)}). They are the extra "
            f'`docs`; install it with:\n{sys.executable} -m pip install -e "{DOCS.parent}[docs]"',
            file=sys.stderr,
        )
        return 2
    code = build(options.out)
    first = (options.out / "index.html").resolve()
    if first.exists():
        print(f"The first page is {first}")
        if options.open:
            webbrowser.open(first.as_uri())
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
