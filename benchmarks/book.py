"""How many questions of a file of conversations a taught model answers right, each answered by its most likely tokens.

By default these are the held-out questions of the book that ships: other wordings of taught questions, which no run
learns. An answer is right if every token is, and the token that ends it.

    python benchmarks/book.py RUN [--questions models/pretrained/book-held-out.jsonl]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import models
import tokenizer
from minigrad.cli.exits import exit_code
from minigrad.evaluate.answers import Answered, Question, ask, share_exact
from minigrad.finetuning.conversations import conversations_in
from minigrad.finetuning.encoding import encode_conversation, questions_of

HELD_OUT = Path(__file__).parent.parent / "models" / "pretrained" / "book-held-out.jsonl"


def questions_for(run: str, path: Path) -> list[Question]:
    """Return the questions in a file of conversations, in the form and the tokens of a run."""
    form, context = tokenizer.load_chat(run, tokenizer.load(run)), models.load(run).config.context_length
    return questions_of(encode_conversation(read(), form, context) for read in conversations_in(path))


def describe(answered: list[Answered]) -> str:
    """Return the wrong answers, one a line, and the share of the right ones.

    >>> print(describe([Answered("Hi!", "Hello.", "Hello.", True), Answered("Bye!", "Goodbye.", "Hello.", False)]))
    Bye! -> Hello.
    1 of 2 right (50.0%)
    """
    wrong = [f"{each.question} -> {each.said}\n" for each in answered if not each.exact]
    right = len(answered) - len(wrong)
    return f"{''.join(wrong)}{right:,} of {len(answered):,} right ({100 * share_exact(answered):.1f}%)"


def main() -> int:
    """Ask the questions, print what was answered wrong, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("run", help="the folder of a taught model")
    parser.add_argument("--questions", type=Path, default=HELD_OUT, help="a file of conversations")
    asked = parser.parse_args()

    def work() -> None:
        questions = questions_for(asked.run, asked.questions)
        print(describe(ask(models.load(asked.run), tokenizer.load(asked.run), questions)))

    return exit_code(parser.prog, work, interrupted="interrupted", less_memory="close other programs")


if __name__ == "__main__":
    sys.exit(main())
