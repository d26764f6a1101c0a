"""The commands between the messages that a person types in `generate.py --chat` and `--teach`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

ENDS = ("/exit", "/quit", "/bye")


def messages(
    inputs: Iterable[str], help: str, tell: Callable[[str], None], obey: Mapping[str, Callable[[str], None]]
) -> Iterator[str]:
    """Yield the inputs that do not begin with a slash, until /exit, /quit or /bye.

    Of the commands between them, /help prints the `help`, and `obey` has the others: each name with the function that
    takes the rest of the line. `tell` prints a remark.
    """
    for text in inputs:
        if not text.startswith("/"):
            yield text
            continue
        command, _, rest = text.strip().partition(" ")
        if command in ENDS:
            return
        if command == "/help":
            tell(help)
        elif command in obey:
            obey[command](rest.strip())
        else:
            tell(f"unknown command {command}; {help}. A message that begins with / needs a space before it")
