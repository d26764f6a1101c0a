"""The validation text of a run: it is evaluated again and again, and its beginning is the prompt of the samples."""

from __future__ import annotations

import functools
import itertools

from minigrad.data.tokens.source import Spans
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.evaluate import losses
from minigrad.evaluate.losses import Score
from minigrad.generation.decoding import stream
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from minigrad.training.divergence import check_weights
from minigrad.training.folder.state import Best, Sample
from minigrad.training.run import Run

_SAMPLE_TOKENS = 80


def score(run: Run, spans: Spans, limit: int | None = None) -> Score:
    """Evaluate the model of a run on a text, by all processes together; `limit`: see `minigrad.evaluate.losses`."""
    return losses.evaluate(
        run.model,
        spans,
        run.text.byte_lengths,
        context=run.settings.context,
        limit=limit,
        watch=functools.partial(run.pace.each, "evaluated batch"),
        world=run.world,
    )


def evaluate(run: Run, *, everything: bool) -> Score:
    """Evaluate on the validation text: all of it, or a quick estimate; raises RunError if training diverged."""
    check_weights(run)
    with run.pace.work("whole evaluation" if everything else "evaluation"), run.evaluating():
        found = quick = score(run, run.validation, None if everything else run.quick_evaluation)
        if everything and run.evaluates_twice:
            quick = score(run, run.validation, run.quick_evaluation)
    run.score = found if everything else run.score
    run.last = Best(run.step, quick.bits_per_byte)
    learns_text = run.settings.objective is None  # else the text tells what is forgotten, not what is learned
    if learns_text and (run.best is None or quick.bits_per_byte < run.best.bits_per_byte):
        run.best = run.last
    return found


def score_of_test(run: Run) -> Score | None:
    """Evaluate on the test text if the run asks for it; only for its end, when nothing is left to be chosen."""
    if not run.settings.test:
        return None
    with run.evaluating():
        return score(run, run.spans_of(run.text.test))


def write_sample(run: Run) -> str:
    """Generate a text, append it to the samples of the run, and return it; raises RunError if training diverged."""
    check_weights(run)
    with run.pace.work("sample"), run.evaluating():
        text = continuation(run.model, run.text, seed=run.settings.seed, step=run.step)
    run.samples.append(Sample(run.step, text))
    return text


def continuation(model: LanguageModel, text: TokenizedCorpus, *, seed: int, step: int) -> str:
    """Generate a continuation of the beginning of the first validation document; return both as one text.

    The prompt is the same in every sample, and the draws are a function of seed and step.
    """
    tok, prompt = text.tokenizer, prompt_of(text)
    settings = Sampling(tokens=min(_SAMPLE_TOKENS, model.config.context_length), seed=seed)
    written = stream(model, prompt, settings, tokenizer=tok, first_sample=step)
    return tok.decode([*prompt[1:], *(token for token in written if token.ended != "end")])


def prompt_of(text: TokenizedCorpus) -> list[int]:
    """Return the beginning of the first validation document: no more than 8 tokens, and not beyond its end."""
    end, first = text.tokenizer.end_of_text_id, [int(token) for token in text.validation.tokens[1:9]]
    return [end, *itertools.takewhile(lambda token: token != end, first)]
