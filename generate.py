"""Let a trained model write: ``python generate.py runs/vidya-v2-nano --prompt "The list type"``."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from minigrad import hardware
from minigrad.config import Parser, complain, nearest
from minigrad.errors import InputError, RunError
from minigrad.faults import explain_missing_package, explain_system_error
from minigrad.interrupt import close_output, forgive_encoding
from minigrad.progress import printable
from minigrad.settings import GenerateConfig, assignments


def generate(config: GenerateConfig) -> Iterator[str]:
    """Yield the text piece by piece, prompt first; with several samples, a blank line and a rule stand between them.

    Raises InputError if the folder cannot be used.
    """
    refuse_other_folders(Path(config.run))
    hardware.prepare(config.threads)
    import models
    import tokenizer
    from minigrad import sampling

    model, tok = models.load(config.run, **assignments(config.set)), tokenizer.load(config.run)
    if tok.vocab_size > model.config.vocab_size:
        raise InputError(
            f"the tokenizer in {config.run} has {tok.vocab_size:,} tokens, but the model knows "
            f"{model.config.vocab_size:,}: they do not belong together"
        )
    choice = sampling.Sampling(
        config.temperature,
        config.top_k,
        config.top_p,
        config.min_p,
        config.repetition_penalty,
        config.frequency_penalty,
    )
    prompt = [tok.end_of_text_id, *tok.encode(config.prompt)]
    limit = model.config.context_length
    if len(prompt) > limit:
        notice(f"the prompt has {len(prompt):,} tokens, more than the context of {limit:,}: its last part is used")
    for index in range(config.samples):
        if index:
            yield "\n\n---\n\n"
        yield config.prompt
        pace = Pace()
        tokens = sampling.generate(
            model,
            prompt,
            count=config.tokens,
            sampling=choice,
            seed=config.seed,
            index=index,
            stop_ids=[tok.end_of_text_id],
            forbidden_ids=sampling.unusable_ids(tok, model.config.vocab_size),
        )
        yield from until(config.stop, pieces(tok, pace.watch(tokens)))
        pace.tell()


def refuse_other_folders(folder: Path) -> None:
    """Raise InputError for a folder without a model, naming those in it, or the one beside it with the nearest name."""
    if (folder / "config.json").exists():
        return
    if (folder / "minigrad.json").exists():
        raise InputError(f"{folder} has no weights yet: its training has not reached the first checkpoint")
    inside = [str(found.parent) for found in sorted(folder.glob("*/config.json"))]
    beside = nearest(str(folder), [str(found.parent) for found in folder.parent.glob("*/config.json")])
    guess = " or ".join(inside[:5]) or beside
    hint = f". Did you mean {guess}?" if guess else ""
    raise InputError(f"{folder} is no run folder: it has no config.json{hint}")


class Pace:
    """How fast the tokens of a text come: the time to read the prompt, then tokens per second."""

    def __init__(self) -> None:
        self.started = self.first = time.perf_counter()
        self.count = 0

    def watch(self, tokens: Iterator[int]) -> Iterator[int]:
        """Pass tokens on and count them."""
        for token in tokens:
            self.count += 1
            if self.count == 1:
                self.first = time.perf_counter()
            yield token

    def tell(self) -> None:
        """Say it, once the text has ended."""
        if self.count > 1:
            rate = (self.count - 1) / (time.perf_counter() - self.first)
            seconds = self.first - self.started
            notice(f"{self.count} tokens, {rate:,.0f} tokens/s, after {seconds:.2f} s for the first")


def pieces(tok: Any, tokens: Iterator[int]) -> Iterator[str]:
    """Turn tokens into text; a character that is spread over several tokens comes when it is whole."""
    decoder = tok.stream_decoder()
    for token in tokens:
        yield decoder.push(token)
    yield decoder.flush()


def until(stop: str | None, texts: Iterator[str]) -> Iterator[str]:
    """Pass text on up to `stop`; what could be its beginning is held back until it is clear that it is not."""
    if not stop:
        yield from texts
        return
    held = ""
    for text in texts:
        held += text
        if stop in held:
            yield held[: held.index(stop)]
            return
        possible = next(n for n in range(min(len(stop) - 1, len(held)), -1, -1) if held.endswith(stop[:n]))
        yield held[: len(held) - possible]
        held = held[len(held) - possible :]
    yield held


def notice(text: str) -> None:
    """Say something about the writing, on standard error so that the text itself can be piped on."""
    print(f"\n[{text}]", file=sys.stderr, flush=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, 1 (a fault), 2 (bad input) or 130 (Ctrl-C)."""
    parser = Parser(
        GenerateConfig,
        prog="generate.py",
        description="Continue a text with a trained model, as fast as it thinks.",
        aliases={"max_tokens": "tokens", "max_new_tokens": "tokens", "temp": "temperature", "num_samples": "samples"},
    )
    config, _ = parser.parse(arguments)
    forgive_encoding()
    try:
        for text in generate(config):
            print(printable(text), end="", flush=True)
        print(flush=True)
    except (InputError, RunError) as error:
        return complain("generate.py", error)
    except ValueError as error:
        from tokenizer import TokenizerError

        if not isinstance(error, TokenizerError):
            raise
        return complain("generate.py", InputError(error))
    except ModuleNotFoundError as error:
        return complain("generate.py", explain_missing_package(error, "generate.py"))
    except BrokenPipeError:  # the reader has seen enough, as in `generate.py ... | head`
        close_output()
    except OSError as error:
        return complain("generate.py", explain_system_error(error))
    except KeyboardInterrupt:
        print(flush=True)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
