"""Compare runs: ``python -m minigrad.training.report runs/a runs/b`` writes one page.

The page holds its pictures and opens offline.
"""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # during the imports Ctrl-C ends the program without a traceback

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from minigrad.cli.exits import exit_code
from minigrad.cli.parser import Parser
from minigrad.options import REQUIRED, option
from minigrad.system.files import check_new_file, write_text
from minigrad.system.signals import raise_on_interrupt
from minigrad.system.terminal import prepare_output, say

PROGRAM = "python -m minigrad.training.report"


@dataclass(frozen=True)
class ReportConfig:
    """The runs to compare, and where the page goes."""

    runs: tuple[str, ...] = option(REQUIRED, "run folders, two to eight", positional=True, value="RUN", filled=True)
    out: str = option("comparison.html", "the page to write; no file is overwritten", value="FILE", filled=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, 1 (a fault), 2 (bad input) or 130 (Ctrl-C)."""
    prepare_output()
    parser = Parser(ReportConfig, prog=PROGRAM, description="Compare runs on one page.", aliases={"output": "out"})

    def work() -> None:
        from minigrad.training.report.comparison import comparison, read_runs

        raise_on_interrupt()
        config, _ = parser.read(arguments)
        check_new_file(Path(config.out))
        write_text(config.out, comparison(read_runs(config.runs)))
        say(f"report   {config.out}")

    return exit_code(PROGRAM, work, interrupted="interrupted", less_memory="compare fewer runs")


if __name__ == "__main__":
    sys.exit(main())
