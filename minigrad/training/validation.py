"""The validation of a run: its weights must be finite, its text is evaluated, and the text's beginning is continued."""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np

from minigrad.autograd.anomaly import AnomalyError, detect_anomaly
from minigrad.autograd.graph import no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.data.tokens.source import Spans
from minigrad.data.tokens.token_files import beginning
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.evaluate import losses
from minigrad.evaluate.losses import Score, evaluation_batches
from minigrad.generation.decoding import stream
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.module import in_evaluation
from minigrad.training.folder.checkpoint import QuickEvaluation, Sample
from minigrad.training.parallel import Replicas
from minigrad.training.run import Run


def check_finite(run: Run) -> None:
    """Raise RunError if the weights, or the loss that they give, are not finite; such weights must not be saved."""
    if run.checked_step == run.step:  # an evaluation, a sample and a checkpoint share it
        return
    run.optimizer.complete()
    for name, parameter in run.model.named_parameters():
        if not np.isfinite(parameter.data).all():
            raise run.divergence(f"{name} holds numbers that are not finite", is_over=True)
    one = next(evaluation_batches(run.validation, context=run.settings.context))

    def loss() -> Tensor:
        with in_evaluation(run.model):  # in training mode, this pass would replace what modules measured in the step
            return run.model.loss(one.tokens, one.targets, layout=one.layout, weights=one.weights)

    with no_grad(), np.errstate(all="ignore"):
        if not math.isfinite(loss().item()):
            raise run.divergence(first_anomaly(run, loss), is_over=True)
    run.checked_step = run.step


def first_anomaly(run: Run, repeat: Callable[[], object]) -> str:
    """Repeat the work of a step with every operation checked; name the first that made a NaN or an infinity.

    Each process repeats its share with all layers: stages of a pipeline would wait for the one that found something.
    """
    run.optimizer.complete()
    run.workers = Replicas(run.model, 1, run.settings.seed, run.world, run.settings.accumulate)
    run.optimizer.zero_grad()
    found = ""
    try:
        with detect_anomaly():
            repeat()
    except AnomalyError as error:
        found = str(error)
    return next(filter(None, run.world.collect(found)), "the gradient became too large")


_SAMPLE_TOKENS = 80


def score(run: Run, spans: Spans, limit: int | None = None) -> Score:
    """Evaluate the model of a run on a text, by all processes together; `limit`: see `minigrad.evaluate.losses`."""
    watch, lengths = functools.partial(run.pace.each, "evaluated batch"), run.text.byte_lengths
    context = run.settings.context
    return losses.evaluate(run.model, spans, lengths, context=context, limit=limit, watch=watch, world=run.world)


def evaluate(run: Run, *, everything: bool) -> Score:
    """Evaluate on the validation text: all of it, or a quick estimate; raises RunError if training diverged."""
    check_finite(run)
    with run.pace.work("whole evaluation" if everything else "evaluation"), run.evaluating():
        found = quick = score(run, run.validation, None if everything else run.quick_tokens)
        if everything and run.evaluates_twice:
            quick = score(run, run.validation, run.quick_tokens)
    if not math.isfinite(quick.bits_per_byte):
        raise run.divergence("the loss of the validation text is not finite", is_over=True)
    run.score = found if everything else run.score
    run.last = QuickEvaluation(run.step, quick.bits_per_byte)
    if run.plan.learns_text and (run.best is None or quick.bits_per_byte < run.best.bits_per_byte):
        run.best = run.last
    return found


def score_of_test(run: Run) -> Score | None:
    """Evaluate on the test text if the run asks for it; only at its end, when nothing is left to choose."""
    if not run.settings.test:
        return None
    with run.evaluating():
        return score(run, run.spans_of(run.text.test))


def write_sample(run: Run) -> str:
    """Generate a text, append it to the samples of the run, and return it; raises RunError if training diverged."""
    check_finite(run)
    with run.pace.work("sample"), run.evaluating():
        text = continuation(run.model, run.text, seed=run.settings.seed, step=run.step)
    run.samples.append(Sample(run.step, text))
    return text


def continuation(model: LanguageModel, text: TokenizedCorpus, *, seed: int, step: int) -> str:
    """Continue the beginning of the first validation document, by draws of seed and step; return both as one text."""
    tok, prompt = text.tokenizer, prompt_of(text)
    settings = Sampling(tokens=min(_SAMPLE_TOKENS, model.config.context_length), seed=seed)
    written = stream(model, prompt, settings, tokenizer=tok, first_sample=step)
    shown = prompt[len(beginning(tok)) :]
    return tok.decode([*shown, *(token for token in written if token.ended != "end")])


def prompt_of(text: TokenizedCorpus) -> list[int]:
    """Return the beginning of the first validation document: no more than 8 of its tokens, and not beyond its end."""
    end, begin = text.tokenizer.end_of_text_id, beginning(text.tokenizer)
    first = text.validation.tokens[len(begin) : len(begin) + 8].tolist()
    return [*begin, *itertools.takewhile(lambda token: token != end, first)]
