"""Scripts of pages in Node.js, for tests. It is not a dependency: where there is none, these tests are skipped."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from minigrad.pages.model_page.scripts import ENGINE, WRITING, joined

NODE = shutil.which("node")
Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Return a function that runs JavaScript after scripts, by default those of the page; `given` is what it is given.

    What the JavaScript returns is returned, as JSON; the bytes given as `file` are there as a Uint8Array.
    """
    if NODE is None:
        pytest.skip("no Node.js is installed; the project does not need one")

    def run(body: str, file: bytes = b"", scripts: str = joined(*ENGINE, *WRITING), **given: Any) -> Any:
        (tmp_path / "given.json").write_text(
            json.dumps(given | {"file": base64.b64encode(file).decode()}), encoding="utf-8"
        )
        start = 'const given = JSON.parse(require("fs").readFileSync(process.argv[2], "utf8"));\n'
        bytes_of_file = 'const file = new Uint8Array(Buffer.from(given.file, "base64"));\n'
        work = f"const work = async () => {{ {body} }};\n"
        work += "work().then((found) => console.log(JSON.stringify(found)));\n"
        (tmp_path / "run.js").write_text(scripts + start + bytes_of_file + work, encoding="utf-8")
        done = subprocess.run(
            [str(NODE), tmp_path / "run.js", tmp_path / "given.json"], capture_output=True, encoding="utf-8"
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run
