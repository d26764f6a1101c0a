"""Build the documentation as pages that need no network: `python docs/build.py --open` shows them in a browser.

The cells of the pages are run meanwhile, so what they print and draw is of this machine. Needs the extra `docs`:
`pip install -e ".[docs]"`. With `--notebooks` the chapters are written as notebooks for Jupyter in place of pages, and
with `--pictures` the pictures that chapters have on a code host are drawn again.
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
    parser.add_argument("--out", type=Path, help="the folder of the pages, by default build/docs")
    parser.add_argument("--notebooks", action="store_true", help="write the chapters as notebooks, to build/notebooks")
    parser.add_argument(
        "--pictures", nargs="*", metavar="CHAPTER", help="draw the pictures of these chapters, or of all"
    )
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
    out = options.out or DOCS.parent / "build" / ("notebooks" if options.notebooks else "docs")
    sys.path.insert(0, str(DOCS.parent))
    if options.pictures is not None:
        from docs.extensions.pictures import pictures, write_pictures

        known = {picture.chapter.stem for picture in pictures()}
        if unknown := sorted(set(options.pictures) - known):
            print(f"{unknown[0]} is no chapter with a picture; there are {', '.join(sorted(known))}", file=sys.stderr)
            return 2
        for path in write_pictures(*options.pictures):
            print(f"{path}: {path.stat().st_size:,} bytes")
        return 0
    if options.notebooks:
        from docs.extensions.notebooks import write_notebooks

        print(f"{len(write_notebooks(out))} notebooks are in {out.resolve()}")
        return 0
    code = build(out)
    first = (out / "index.html").resolve()
    if first.exists():
        print(f"The first page is {first}")
        if options.open:
            webbrowser.open(first.as_uri())
    return 1 if code else 0


if __name__ == "__main__":
    sys.exit(main())
