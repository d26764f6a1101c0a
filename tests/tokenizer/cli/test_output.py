"""What the commands print, and where the output takes nothing."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tokenizer.cli.output import say

ROOT = Path(__file__).parents[3]


@given(st.text(st.characters(codec="utf-8") | st.sampled_from("\x1b\x07\x9b\x08\r\x7f")))
def test_what_is_said_moves_no_cursor(text):
    stream = io.StringIO()
    say(text, stream)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", stream.getvalue())
    assert len(stream.getvalue()) == len(text) + 1


@pytest.mark.skipif(os.name == "nt" or not Path("/dev/full").exists(), reason="no shell that closes files, no device")
@pytest.mark.parametrize(
    ("arguments", "redirected", "code", "said"),
    [
        ("encode TOKENIZER", ">/dev/full", 1, r"python -m tokenizer encode: No space left on device\n"),
        ("encode nowhere", "2>/dev/full", 2, ""),
        ("decode TOKENIZER", ">&- 2>&-", 0, ""),
    ],
)
def test_output_that_takes_nothing_gives_no_traceback(trained, arguments, redirected, code, said):
    command = f'exec "$0" -m tokenizer {arguments.replace("TOKENIZER", trained[0])} {redirected}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable], cwd=ROOT, input="65 66", capture_output=True, text=True
    )
    assert done.returncode == code
    assert re.fullmatch(said, done.stderr)
