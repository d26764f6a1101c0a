"""`python -m tokenizer`: train a tokenizer, use it, show its tokens, and compare it with others."""

from __future__ import annotations

import sys

from tokenizer.cli.command_line import main

if __name__ == "__main__":
    sys.exit(main())
