"""Generate text with a trained model: ``python generate.py runs/vidya-v2-nano --prompt "The list type"``."""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # during the imports Ctrl-C ends the program without a traceback

import itertools
import sys
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from minigrad.cli.exits import exit_code
from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.formats.folders import CONFIG, check_folder
from minigrad.generation import console
from minigrad.generation.settings import GenerateConfig
from minigrad.options import assignments
from minigrad.system import hardware
from minigrad.system.cache import tell_if_nothing_is_kept
from minigrad.system.files import check_new_file, write_text
from minigrad.system.limits import check_limits
from minigrad.system.signals import raise_on_interrupt
from minigrad.system.terminal import close_output, prepare_output, quoted, say
from minigrad.system.units import format_bytes
from minigrad.training.folder.record import was_taught_to_talk
from models.pretrained import find_runs

if TYPE_CHECKING:  # the command line is read before NumPy and the rest are imported
    from minigrad.generation.continuation import Token
    from minigrad.nn.language_model import LanguageModel
    from tokenizer import Tokenizer


def generate(config: GenerateConfig) -> Generator[str]:
    """Yield the texts in parts, each with its prompt first; a rule separates two texts.

    The page of --explain is written at the end, also if Ctrl-C or a closed pipe comes before. Raises InputError if
    the folder cannot be used, or if the page cannot be written.
    """
    if config.explain is not None:
        check_new_file(Path(config.explain))
    loaded = load(config)
    from minigrad.generation.decoding import document

    prompts = [document(loaded.tokenizer, beginning) for beginning in config.prompt]
    limit = loaded.model.config.context_length
    for number, prompt in enumerate(prompts, start=1):
        if len(prompt) > limit:
            which = f"prompt {number}" if len(prompts) > 1 else "the prompt"
            notice(f"{which} has {len(prompt):,} tokens, more than the context of {limit:,}: its last part is used")
    drawn: list[Token] = []

    def explain() -> None:
        if config.explain is not None:
            write_explanation(loaded, prompts[0], drawn, config)

    tokens = watched(loaded.stream(prompts, config), config, loaded.tokenizer, drawn)
    try:
        yield config.prompt[0]
        for number, text, ended in console.in_turn(tokens, config.samples):
            yield text
            if ended:
                following = (number + 1) // config.samples  # the number of the next text's prompt
                yield "\n\n---\n\n" + config.prompt[following] if following < len(prompts) else "\n"
    except (KeyboardInterrupt, GeneratorExit):  # Ctrl-C, or a closed pipe: the page shows what was drawn until then
        explain()
        raise
    explain()


def chat(config: GenerateConfig) -> Generator[str]:
    """Yield the model's answers to the messages of standard input, in parts; prompts are the first messages.

    Raises InputError if the folder holds no chat model.
    """
    loaded = load(config)
    warn_of_untaught(Path(config.run))
    import tokenizer
    from minigrad.generation.chat import HELP, Chat

    form, limit = tokenizer.load_chat(config.run, loaded.tokenizer), loaded.model.config.context_length

    def answer(ids: list[int], turn: int) -> Iterator[Token]:
        return watched(loaded.stream(ids, config, first_sample=turn), config, loaded.tokenizer, [])

    if console.is_terminal():
        notice(HELP)
    conversation = Chat(form.encode, limit - min(config.tokens, limit // 2), answer, notice)
    yield from conversation.run(itertools.chain(config.prompt, console.read_messages()))


def teach(config: GenerateConfig) -> Generator[str]:
    """Yield several answers to each question of standard input; the chosen one goes to the journal.

    Raises InputError if the folder holds no chat model, or the journal cannot be written.
    """
    from minigrad.finetuning.journal import HELP, Journal, TeachingSession

    journal = Journal(Path(config.journal))
    loaded = load(config)
    warn_of_untaught(Path(config.run))
    import tokenizer

    form = tokenizer.load_chat(config.run, loaded.tokenizer)

    def offer(question: str, turn: int) -> list[str]:
        ids, texts = form.encode([{"role": "user", "content": question}]), [""] * config.samples
        first, is_cut = turn * config.samples, False
        for token in loaded.stream(ids, config, first_sample=first):
            texts[token.sample - first] += token.text
            is_cut |= token.ended == "length"
        if is_cut:
            notice(f"some of these answers were cut after --tokens {config.tokens}; a larger number lets them end")
        return texts

    def fits(question: str, answer: str) -> bool:
        messages = [{"role": "user", "content": question}]
        messages += [{"role": "assistant", "content": answer}] if answer else []
        return len(form.encode(messages, add_generation_prompt=not answer)) <= loaded.model.config.context_length

    if console.is_terminal():
        notice(HELP)
    teacher = TeachingSession(journal, offer, fits, notice)
    yield from teacher.run(itertools.chain(config.prompt, console.read_messages()))


class Loaded(NamedTuple):
    """A model with its tokenizer, and the model of --draft."""

    model: LanguageModel
    tokenizer: Tokenizer
    draft: LanguageModel | None

    def stream(
        self, prompt: Sequence[int] | Sequence[Sequence[int]], config: GenerateConfig, first_sample: int = 0
    ) -> Iterator[Token]:
        """Yield the tokens that continue one prompt or several (see `minigrad.generation.stream`)."""
        from minigrad.generation.decoding import stream

        model, tokenizer, draft = self
        return stream(model, prompt, config, tokenizer=tokenizer, draft=draft, first_sample=first_sample)


def load(config: GenerateConfig, dtype: str | None = None) -> Loaded:
    """Load the models and the tokenizer, and compile what is not compiled yet; `dtype`: as in `models.load`.

    Raises InputError if a folder cannot be used, the model cannot generate, or the draft model has another tokenizer.
    """
    for folder in (config.run, config.draft):
        if folder is not None:
            check_folder(Path(folder))
    hardware.prepare(config.threads)
    check_limits(hardware.threads())
    tell_if_nothing_is_kept()
    import tokenizer

    raise_on_interrupt()
    model = load_model(config.run, config, assignments(config.set), dtype)
    tok = tokenizer.load(config.run)
    draft = None
    if config.draft is not None:
        if tokenizer.load(config.draft).fingerprint() != tok.fingerprint():
            raise InputError(f"{config.draft} has another tokenizer than {config.run}, so it cannot propose tokens")
        draft = load_model(config.draft, config)
    compile_kernels(model)
    return Loaded(model, tok, draft)


def load_model(
    folder: str, config: GenerateConfig, changes: Mapping[str, Any] | None = None, dtype: str | None = None
) -> LanguageModel:
    """Load a model that can generate, with `changes` of the fields of its config.

    Raises InputError for a model that cannot generate, a name that is not a field of its config, or a folder that
    cannot be used.
    """
    import models

    changes = changes or {}
    for name in {"folder", "dtype", "quantize"} & changes.keys():  # the other arguments of models.load
        way = f": give --quantize {changes[name]}" if name == "quantize" else ""
        raise InputError(f"--set {name}=... is not a field of the model{way}")
    model = models.load(folder, dtype, quantize=config.quantize, **changes)
    if not model.can_generate:
        raise InputError(f"the model in {folder} cannot continue a text: its layers need the whole text at once")
    model.cache_format = config.cache_format
    return model


def compile_kernels(model: LanguageModel) -> None:
    """Read and continue a short text if its kernels must be compiled first, and say so."""
    from minigrad import no_grad
    from minigrad.kernels.decoding.kept import widen_rows
    from minigrad.kernels.decoding.lines import widen_lines
    from minigrad.kernels.decoding.machine import run_program
    from minigrad.kernels.decoding.products import linear
    from minigrad.kernels.jit import is_stored
    from minigrad.programs.decoder import Decoder
    from minigrad.quantised import format_of

    # A quantised model reads a short prompt with `linear` alone, and widens its matrices for a long one.
    kernels: list[Callable[..., object]] = [run_program]
    if model.cache_format != "float32":
        kernels.append(widen_rows)
    if format_of(model) is not None:
        kernels += [linear, widen_lines]
    if all(is_stored(kernel) for kernel in kernels) or not (decoder := Decoder(model)).has_program:
        return
    # If every start compiles again, `tell_if_nothing_is_kept` has said so.
    notice("compiling kernels, once on this machine, which can take a minute or more")
    model.eval()
    cache = model.new_cache(1, 1)
    with no_grad():
        model([[0] * min(32, model.config.context_length)], last=1)
        model([[0]], cache=cache)
    cache.truncate(0)  # the only position of a context of one token
    decoder.step([0], cache)


def watched(tokens: Iterator[Token], config: GenerateConfig, tok: Tokenizer, drawn: list[Token]) -> Iterator[Token]:
    """Yield the tokens and add them to `drawn`; then print their speed, and the table of --alternatives.

    If no token had text, say so: an empty text looks like a fault of the program.
    """
    speed = console.Speed()
    for token in tokens:
        speed.note(token)
        drawn.append(token)
        yield token
    if not any(token.text for token in drawn):
        notice("nothing was written: the text ended at once, with a special token or a --stop string")
    if drawn and config.alternatives is not None:
        notice("each token with its log-probability, then the most likely ones in its place")
        say(console.alternatives(drawn, tok), sys.stderr)
    if summary := speed.summary():
        notice(summary)


def write_explanation(loaded: Loaded, prompt: list[int], drawn: list[Token], config: GenerateConfig) -> None:
    """Write the page of --explain: the prompt, the text, and what the model computed at each token."""
    from minigrad.pages.explain import explain

    notice(f"reading the text again, for {config.explain}")
    title, ids = f"How {Path(config.run).resolve().name} wrote this", [*prompt, *drawn]
    page = explain(loaded.model, loaded.tokenizer, ids, written=len(prompt), title=title, drawn=config.drawn_with())
    write_text(str(config.explain), page)
    notice(f"{config.explain} shows how this text came about; open it in a browser")


def write_page(config: GenerateConfig) -> Generator[str]:
    """Write the page of --page, with the model inside; yield nothing, because standard output holds texts alone.

    Raises InputError if the folder cannot be used, the page cannot be written, or the model does not fit in a page.
    """
    check_new_file(Path(str(config.page)))
    loaded = load(config, "float32")  # a page computes in this precision alone
    from minigrad.adapters import merge
    from minigrad.generation.decoding import document
    from minigrad.pages.model_page.page import model_page
    from minigrad.quantised import format_of, quantise
    from tokenizer.formats.web_page import for_web_page

    if format_of(loaded.model) is None:
        merge(loaded.model)
        quantise(loaded.model, "float16")
    words = for_web_page(loaded.tokenizer.vocabulary) | {"begin": document(loaded.tokenizer, "")}
    title, talks = Path(config.run).resolve().name, talks_in_own_form(Path(config.run), loaded.tokenizer)
    prompt = next(iter(config.prompt), "")
    page = model_page(loaded.model, words, title=title, prompt=prompt, settings=config, chat=talks)
    write_text(str(config.page), page)
    notice(f"{config.page} holds the model, {format_bytes(len(page))}; open it in a browser, or send it to someone")
    yield from ()


def talks_in_own_form(folder: Path, tok: Tokenizer) -> bool:
    """Return whether a run taught its model conversations in the form of `encode_chat`, the one that pages know."""
    import tokenizer
    from tokenizer.errors import TokenizerError

    try:
        return bool(was_taught_to_talk(folder)) and tokenizer.load_chat(folder, tok).source is None
    except TokenizerError:
        return False


def warn_of_untaught(folder: Path) -> None:
    """Print a remark if a run did not teach its model conversations, nor did a run that it began from."""
    if was_taught_to_talk(folder) is not False:
        return
    from minigrad.formats.huggingface import QUANTISATION
    from minigrad.formats.json_files import read_json

    config = folder / CONFIG  # a folder of adapters has none
    is_rounded = config.exists() and QUANTISATION in read_json(config)
    lesson = f"; teach it: train.py --init {quoted(folder)} --objective sft --data BOOK (docs/teaching.md)"
    notice(
        f"{folder} learned from text alone and was never taught a conversation, so its answers will make no sense; "
        f"vidya-v2-nano-chat, which comes with minigrad, was taught some{'' if is_rounded else lesson}"
    )


def notice(text: str) -> None:
    """Print a remark on standard error: standard output holds the text alone."""
    say(f"[{text}]", sys.stderr)


def write(config: GenerateConfig, explicit: Collection[str] | None = None) -> Generator[str]:
    """Yield what the program prints: texts, or the answers of --chat and --teach.

    `explicit` names the settings that were given, by default everything that differs from its default. If none of them
    says how to draw, a model that was taught to answer takes the most likely tokens in a chat and on a page: it learned
    one answer to a question, and a mixture of two makes no sense.
    """
    config.check()
    if explicit is None:
        explicit = {each.name for each in fields(config) if getattr(config, each.name) != each.default}
    config = find_runs(config)
    draws = {"temperature", "top_k", "top_p", "min_p", "seed"}
    if (config.chat or config.page) and draws.isdisjoint(explicit) and was_taught_to_talk(Path(config.run)):
        config = replace(config, temperature=0.0)
    if config.teach and config.samples == 1 and "samples" not in explicit:
        config = replace(config, samples=4)
    console.check_text("prompt", config.prompt)
    console.check_text("stop", config.stop)
    # A page needs none, and reading one could wait for ever on a pipe that the calling program keeps open.
    needs_no_prompt = config.chat or config.teach or config.page is not None
    if not needs_no_prompt or console.STANDARD_INPUT in config.prompt:
        config = replace(config, prompt=console.read_prompts(config.prompt))
    if config.page is not None:
        return write_page(config)
    return teach(config) if config.teach else chat(config) if config.chat else generate(config)


_ALIASES = {
    "max_tokens": "tokens",
    "max_new_tokens": "tokens",
    "temp": "temperature",
    "num_samples": "samples",
    "n": "samples",
    "logprobs": "alternatives",
    "stop_string": "stop",
    "draft_model": "draft",
    "prompt_file": "prompt",
    "prompts": "prompt",
    "length": "tokens",
    "max_length": "tokens",
}
"""Other names that people type; an error message suggests the field."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, 1 (a fault), 2 (bad input) or 130 (Ctrl-C)."""
    prepare_output()
    description = "Continue a text with a trained model."
    parser = Parser(
        GenerateConfig, prog="generate.py", description=description, aliases=_ALIASES, stray=lambda word: "prompt"
    )

    def work() -> None:
        with closing(write(*parser.read(arguments))) as texts:
            try:
                for text in texts:
                    say(text, end="")
            except KeyboardInterrupt:
                say()
                raise
            except BrokenPipeError:  # the reader closed the pipe, as in `generate.py ... | head`
                close_output()

    less_memory = "take a smaller model, or fewer --tokens or --samples"
    return exit_code("generate.py", work, interrupted="interrupted", less_memory=less_memory)


if __name__ == "__main__":
    sys.exit(main())
