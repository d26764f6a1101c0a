"""The last words of a process are printed if it is killed, and only then."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import os
from minigrad.distributed.mpi import LastWords
words = LastWords()
words.say("first")
words.say("step 5\\nis saved")
{end}
"""


@pytest.mark.parametrize(
    ("end", "printed"),
    [("os._exit(9)", "step 5 is saved\n"), ("words.forget(); words.forget(); os._exit(9)", ""), ("exit(9)", "")],
)
def test_the_last_sentence_is_printed_if_the_process_ends_without_forgetting_it(end: str, printed: str) -> None:
    # Standard error stays open until the child has ended too, so all of it is read.
    done = subprocess.run([sys.executable, "-c", SCRIPT.format(end=end)], stderr=subprocess.PIPE, check=False)
    assert done.returncode == 9
    assert done.stderr.decode().replace("\r", "") == printed
