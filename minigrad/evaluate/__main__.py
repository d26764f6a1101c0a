"""Evaluate a model: ``python -m minigrad.evaluate runs/vidya-v2-nano --data TEXT``.

A program, like train.py: it brings together the model families, a tokenizer and a text.
"""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # during the imports Ctrl-C ends the program without a traceback

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minigrad.cli.exits import exit_code
from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.options import REQUIRED, option, validate
from minigrad.system import hardware
from minigrad.system.cache import tell_if_nothing_is_kept
from minigrad.system.limits import check_limits
from minigrad.system.signals import raise_on_interrupt
from minigrad.system.terminal import phase, prepare_output, say
from minigrad.training.folder.record import Record
from models.pretrained import find_runs

if TYPE_CHECKING:  # the command line is read before NumPy and the rest are imported
    from minigrad.data.tokens.source import Spans
    from minigrad.data.tokens.token_files import TokenFile
    from minigrad.evaluate.measures import Evaluation, Lengths
    from minigrad.nn.language_model import LanguageModel
    from minigrad.typing import Array, Tokenizer

PROGRAM = "python -m minigrad.evaluate"


@dataclass(frozen=True)
class EvaluateConfig:
    """What to evaluate, on what, and how."""

    run: str = option(
        REQUIRED,
        "a run folder, a Hugging Face folder, or the name of a model that comes with minigrad, such as vidya-v2-nano",
        positional=True,
        value="RUN",
    )
    data: str | None = option(
        None,
        "the text: all of a file, a folder or a URL; or, of python-docs, python-source, shakespeare or the text that "
        "the run was trained on, the part that --split names",
        value="TEXT",
        none_means="the text of the run",
    )
    split: str = option(
        "validation",
        "the part of a text that was not trained on: validation for every choice, test only for the final figure",
        choices=("validation", "test"),
    )
    documents: str | None = option(
        None,
        "packed: each document is read alone. windows: all of them in a row, as one text",
        choices=("packed", "windows"),
        none_means="as in training",
    )
    context: int | None = option(
        None, "tokens of the longest sequence", at_least=1, at_most=10**9, none_means="as in training"
    )
    overlap: float = option(
        0.5,
        "the share of the context that each sequence has in common with the one before it, so that each token is "
        "predicted from that many tokens at least; 0 is fastest, a larger share gives a lower loss",
        at_least=0,
        below=1,
    )
    lengths: str | None = option(
        None,
        "also evaluate with sequences of these lengths, each with every rotary scaling that the model has",
        value="N,N,...",
        none_means="",
    )
    threads: int | None = option(None, "processor threads", at_least=1, at_most=256, none_means="one per core")
    json: bool = option(False, "print the figures as JSON, with those of every document")


def check_settings(settings: EvaluateConfig) -> list[int]:
    """Return the lengths; raises InputError for a setting out of its bounds."""
    validate(settings)
    words = settings.lengths.split(",") if settings.lengths is not None else []
    if not all(word.strip().isdecimal() and len(word) <= 20 and 0 < int(word) <= 10**9 for word in words):
        raise InputError(f"--lengths takes whole numbers of at least 1, as in 256,512,1024, not {settings.lengths!r}")
    return [int(word) for word in words]


@dataclass(frozen=True)
class EvaluatedText:
    """A text as it is evaluated: its documents, their tokens, and the number of bytes of each token of the model."""

    description: str
    documents: Sequence[str]
    tokens: TokenFile
    byte_lengths: Array

    def spans(self, way: str, context: int) -> Spans:
        """Return the documents one by one ("packed"), or all in a row ("windows")."""
        from minigrad.data.tokens import reading

        return reading.spans(way, self.tokens, context)


def evaluate(config: EvaluateConfig) -> Evaluation:
    """Return the figures of a model on a text; raises InputError if the folder or the text cannot be used."""
    lengths = check_settings(config)
    config = find_runs(config)
    record = Record.known(Path(config.run)) or Record()
    hardware.prepare(config.threads)
    check_limits(hardware.threads())
    tell_if_nothing_is_kept()
    with phase("starting NumPy and Numba", sys.stderr):
        from minigrad.kernels.gemm import backend
    raise_on_interrupt()
    with backend.own_choice():
        backend.use(record.used.get("matmul", "auto"), record.used.get("precision", "float32"))  # as it was trained
        return figures(config, record, lengths)


def figures(config: EvaluateConfig, record: Record, lengths: Sequence[int]) -> Evaluation:
    """Return the figures of the model of a record, with the matrix products that are in use."""
    with phase("loading the model and the text", sys.stderr):
        import models
        import tokenizer
        from minigrad.evaluate import measures
        from minigrad.system.units import plural

        model = models.load(config.run)
        text = read_text(config, record, tokenizer.load(config.run), model.config.vocab_size)
    longest = model.config.context_length
    context = config.context or min(record.used.get("context") or longest, longest)
    way = config.documents or record.used.get("documents", "packed")
    if context > longest:
        more = "" if model.learns_positions else f"; --lengths {context} extends it"
        raise InputError(f"--context {context:,} is more than the model's {longest:,}{more}")
    if lengths and model.learns_positions:
        raise InputError(f"--lengths needs a model with rotary positions; the one in {config.run} learns its positions")
    with phase("evaluating", sys.stderr):
        spans = text.spans(way, context)
        by_overlap = {
            overlap: measures.token_losses(model, spans, text.byte_lengths, context=context, overlap=overlap)
            for overlap in {config.overlap, 0.0}
        }
        losses, apart = by_overlap[config.overlap], by_overlap[0.0]
        by_length = evaluate_lengths(model, text, config, way, lengths)
    name = f"{record.family} {record.size}, ".lstrip(" ,")
    kind = "each document alone" if way == "packed" else "all documents in a row"
    known = int(config.overlap * context)
    repeated, others = measures.by_repetition(losses)
    return measures.Evaluation(
        model=f"{name}{model.num_parameters():,} parameters, in {config.run}",
        text=text.description,
        reading=f"{kind}, at most {plural(context, 'token')} at a time; each token is predicted "
        f"from {max(known, 1):,} or more, or from all before it",
        whole=measures.whole(losses),
        words=measures.Words.of(text.documents),
        repeated=repeated,
        others=others,
        positions=measures.by_position(apart),
        documents=measures.by_document(losses, text.documents),
        lengths=by_length,
    )


def evaluate_lengths(
    model: LanguageModel, text: EvaluatedText, config: EvaluateConfig, way: str, lengths: Sequence[int]
) -> Lengths:
    """Return the bits per byte with sequences of each length, without a rotary scaling and with each that there is.

    A scaling multiplies the context of the model by a factor of at least 1, so shorter sequences have none (NaN).
    """
    import models
    from minigrad.evaluate import measures
    from minigrad.nn.rotary_settings import SCALINGS, RotaryConfig

    rotary = model.config if isinstance(model.config, RotaryConfig) else None
    known = (rotary and rotary.rope_original_context) or model.config.context_length
    scalings = SCALINGS if rotary else ()

    def score(length: int, **changes: Any) -> float:
        changed, spans = models.load(config.run, **changes), text.spans(way, length)
        losses = measures.token_losses(changed, spans, text.byte_lengths, context=length, overlap=config.overlap)
        return measures.whole(losses).bits_per_byte

    found: Lengths = {}
    for length in lengths:
        none = {"rope_scaling": None} if scalings else {}
        found[length] = {"none": score(length, **none, context_length=max(length, known))}
        for kind in scalings:
            changes = {"rope_scaling": kind, "rope_factor": length / known, "context_length": length}
            found[length][kind] = score(length, **changes) if length > known else math.nan
    return found


def read_text(config: EvaluateConfig, record: Record, tok: Tokenizer, vocab_size: int) -> EvaluatedText:
    """Return the text to evaluate; raises InputError if none was given and the run has no such part of a text here."""
    from minigrad.data import corpus, mixture
    from minigrad.data.tokens.token_files import prepare
    from minigrad.data.tokens.tokenized import token_byte_lengths
    from minigrad.training.folder.places import check_texts
    from minigrad.training.folder.record import beginnings

    def tell(sentence: str) -> None:
        say(sentence, sys.stderr)

    held_out = record.used.get("held_out")
    is_its_own = bool(record.text_name) and (
        config.data is None
        or mixture.identities(config.data) == mixture.identities(record.text_name, record.started_in)
    )
    is_its_own = is_its_own or (held_out in corpus.NAMES and config.data == held_out)
    if config.data is None and not is_its_own:
        raise InputError(f"{config.run} names no text: it was not written by train.py. Give --data")
    if is_its_own:
        check_texts(record, "" if config.data else ", or give --data", to_judge=True)
        check_has_test(config, record)
        own = corpus.read_held_out(held_out, tell) if held_out else mixture.load(record.text_name, progress=tell)
        caution = f". Caution: {record.result['caution']}" if record.result and record.result.get("caution") else ""
        description, parts = f"{config.split} text of the run ({own.description}){caution}", own.split()
        documents = parts.test if config.split == "test" else parts.validation
    else:
        name = str(config.data)
        loaded = corpus.load_for_evaluation(name, config.split, progress=tell)
        description, documents = loaded.description, tuple(loaded.documents)
        earlier = beginnings(init=record.place_of("init"), teacher=record.place_of("teacher"))
        if was_trained_on(record, name):
            description += ", on which the model was trained"
        elif any(was_trained_on(each, name) for _, each in earlier):
            description += ", on which a model that it began or learned from was trained"
    tokens = prepare(documents, tok)
    if is_its_own:
        check_unseen(config, record, documents, tokens)
    return EvaluatedText(description, documents, tokens, token_byte_lengths(tok, vocab_size))


def was_trained_on(record: Record, name: str) -> bool:
    """Return whether a run was trained on the text of that name, unless that is one whose own part is evaluated."""
    from minigrad.data import corpus, mixture

    is_held_out = name in corpus.NAMES and not record.used.get("held_out")
    return corpus.identity(name) in mixture.identities(record.text_name, record.started_in) and not is_held_out


_INSTEAD = "Give --data a text that the model was not trained on"


def check_has_test(config: EvaluateConfig, record: Record) -> None:
    """Raise InputError for the test text of a run that held none out."""
    if config.split == "test" and not record.test_text:
        raise InputError(f"{config.run} was trained without a test text of its own. {_INSTEAD}")


def check_unseen(config: EvaluateConfig, record: Record, documents: Sequence[str], tokens: TokenFile) -> None:
    """Raise InputError if a part of the text of a run is not the one that the run held out."""
    from minigrad.training.folder.run_folder import of_test

    known, found = record.validation_text, tokens.digest
    changed = "the text, the tokenizer, or the way in which minigrad encodes the text,"
    if config.split == "test":
        known, found, changed = record.test_text, of_test(documents), "the text"
    if known not in ("", found):
        raise InputError(
            f"the {config.split} text of {record.used.get('held_out') or record.text_name} is not the one that "
            f"{config.run} held out: {changed} has changed, or Python has another version. {_INSTEAD}"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, 1 (a fault), 2 (bad input) or 130 (Ctrl-C)."""
    prepare_output()
    aliases = {"dataset": "data", "held_out": "data", "context_length": "context", "num_threads": "threads"}
    description = "Evaluate how well a model predicts a text: bits per byte, perplexity, by position, by document."
    parser = Parser(EvaluateConfig, prog=PROGRAM, description=description, aliases=aliases)

    def work() -> None:
        config, _ = parser.read(arguments)
        found = evaluate(config)
        say(json.dumps(found.as_dict(), indent=1) if config.json else found.describe())

    return exit_code(PROGRAM, work, interrupted="interrupted", less_memory="take a smaller model or text")


if __name__ == "__main__":
    sys.exit(main())
