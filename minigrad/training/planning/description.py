"""A plan in words: two columns with the model, its text, its length and its cost, briefly or in full."""

from __future__ import annotations

from pathlib import Path

from minigrad.data.mixture import Mixture
from minigrad.data.split import num_bytes
from minigrad.data.tokens.token_files import TokenMixture
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.kernels.gemm import backend
from minigrad.nn.language_model import LanguageModel
from minigrad.system import blas, environment, hardware
from minigrad.system.terminal import in_lines
from minigrad.system.units import format_bytes, format_count, format_estimate, format_seconds, plural
from minigrad.training.optimizers import NAMES
from minigrad.training.parallel import divides_layers
from minigrad.training.planning import costs, scaling
from minigrad.training.planning.plan import Plan

_LEAST_WORTH = 0.005  # of the last pass over a text, before the plan warns: the 13th, of 0.007, was still worth reading


_UNUSUAL = ("adapters", "claimed", "lessons", "caution", "positions", "variables", "processes")
"""Rows that a usual run lacks: where one has something to say, the brief plan has it too."""


def describe(plan: Plan, folder: Path) -> str:
    """Return a plan in full as two columns; the last row is the folder of the run."""
    return _columns(_model_rows(plan) | _budget_rows(plan) | {"run folder": str(folder)})


def summarise(plan: Plan, folder: Path) -> str:
    """Return a plan in six rows, and a further row for each unusual setting."""
    whole, corpus, settings = _model_rows(plan) | _budget_rows(plan), plan.text.corpus, plan.settings
    size = f"{plural(corpus.num_documents, 'document')}, {format_bytes(plan.text.train.num_bytes)} to train on"
    held_out = f"; validation: {settings.held_out}" if settings.held_out else ""
    name = corpus.description if isinstance(corpus, Mixture) else settings.text_name
    return _columns(
        {
            "model": whole["model"],
            "text": f"{name}: {size}{held_out}",
            **_source_rows(plan.text, _tokens_to_read(plan)),
            **{name: whole[name] for name in (*_UNUSUAL, *plan.rows)},
            "arithmetic": f"{backend.describe()} at {_rate(plan)}: about {_speed(plan)}",
            "length": whole["length"],
            "memory": f"about {format_bytes(plan.memory().total)}; the same command with --plan says more",
            "run folder": str(folder),
        }
    )


def _columns(rows: dict[str, str]) -> str:
    width = max(map(len, rows))  # a row without a value is left out
    return "\n".join(in_lines(f"  {name:<{width}}  ", value) for name, value in rows.items() if value)


def _model_rows(plan: Plan) -> dict[str, str]:
    settings, model = plan.settings, plan.model
    tokens = f"{settings.batch} x {settings.context} tokens"
    if settings.accumulate > 1:
        tokens += f" x {settings.accumulate} parts"
    late = ", which the run does not reach" if settings.steps and settings.warmup > settings.steps else ""
    trained = f"{model.num_trained():,} of the parameters are trained, the others are frozen"
    return {
        "model": f"{settings.model} {settings.size}: {model.num_parameters():,} parameters, "
        f"{plural(model.config.num_layers, 'layer')} of width {model.config.width}{costs.in_each_token(model)}",
        "adapters": f"of rank {settings.adapter_rank}: {trained}" if settings.adapter_rank else "",
        "claimed": plan.claim,
        "lessons": plan.lessons.summary() if plan.lessons else "",
        **text_rows(plan.text, model.config.vocab_size, _tokens_to_read(plan)),
        "caution": plan.caution,
        "step": tokens + plan.source.describe(settings.batch * settings.accumulate) + ", "
        f"peak learning rate {settings.lr:g} after {plural(settings.warmup, 'step')}{late}, "
        f"updates by {NAMES[settings.optimizer]}, dropout {settings.dropout:g}",
        "positions": "" if settings.init else _untrained_positions(model, settings.context),
        **plan.rows,
    }


def _untrained_positions(model: LanguageModel, context: int) -> str:
    """Return a warning if a table has rows for positions that no sequence of this context reaches, else ""."""
    rows = model.config.context_length
    if not model.learns_positions or context >= rows:
        return ""
    which = f"{context:,} of the {rows:,} rows of the table of positions"
    return f"this trains {which}, so the model will not continue longer texts well; --context {rows} trains all"


def _tokens_to_read(plan: Plan) -> float | None:
    """Return the tokens of the text that the whole run reads; None if it reads lessons, or is too short to estimate."""
    if not plan.learns_text:
        return None
    return plan.tokens_before(plan.done) + plan.tokens_to_come() or None


def _budget_rows(plan: Plan) -> dict[str, str]:
    memory = plan.memory()
    at_end = (
        f" (at the end xz takes {format_bytes(memory.xz)} in their place)" if memory.xz > memory.activations else ""
    )
    products = f"matrix products at {_rate(plan)} ({backend.describe()})"
    if hardware.threads() > 1 and not blas.can_use_one_thread():
        products += ", no replicas because the threads of NumPy's BLAS cannot be set"
    shared = "layers" if divides_layers(plan.settings, plan.world) else "sequences of a step and its update"
    processes = f"{plan.world.size}, which share the {shared}; speed and matrix products are those of all, memory is "
    processes += "that of each"
    return {
        "memory": f"about {format_bytes(memory.total)}: {format_bytes(memory.state)} for weights, "
        f"gradients and what {NAMES[plan.settings.optimizer]} keeps, {format_bytes(memory.activations)} "
        f"for activations{at_end}, {format_bytes(memory.snapshot)} to save from while training goes on, "
        f"{format_bytes(memory.program)} for Python, its libraries and the text; about "
        f"{format_bytes(costs.COMPILING)} more while kernels are compiled, once on a machine",
        "refused": plan.lack_of_memory(),
        "machine": f"{hardware.describe()}; {products}",
        "variables": environment.other_processor(),
        "processes": processes if plan.world.size > 1 else "",
        "speed": f"about {_speed(plan)}, at {plan.flops_per_token() / 1e6:,.1f} MFLOP per token",
        "length": _length(plan),
        **(plan.dial.rows(plan.settings) if plan.dial else {}),
    }


def _rate(plan: Plan) -> str:
    return f"{plan.rates.products / 1e9:,.0f} GFLOP/s"


def _speed(plan: Plan) -> str:
    return f"{format_estimate(plan.tokens_per_second())} tokens/s"


def _length(plan: Plan) -> str:
    """Return how long the run is in steps or in time, in tokens, and in passes over the text."""
    settings, steps, speed = plan.settings, plan.settings.steps, plan.tokens_per_second()
    if steps and plan.done >= steps:
        return f"ended after {plural(steps, 'step')}; {settings.larger_limit} continues this run"
    tokens = plan.tokens_to_come()
    per_pass = plan.source.tokens_per_pass(settings.batch * settings.accumulate)
    text = "texts on average" if isinstance(plan.text.corpus, Mixture) else "text"
    read = text if plan.learns_text else "lessons"
    passes = f", {tokens / per_pass:.1f} passes over the {read}" if per_pass else ""
    number, warning = (plan.tokens_before(plan.done) + tokens) / max(per_pass, 1), ""
    if scaling.LAW.worth_of_pass(number) < _LEAST_WORTH and plan.learns_text:
        warning = "; the text is read so often that the last pass teaches almost nothing, and the model learns it by "
        warning += "heart: take less time, or more --data"
    if not steps:
        minutes = format_seconds(60 * (settings.minutes or 0.0))
        done = f" ({plural(plan.done, 'step')} done)" if plan.done else ""
        if not tokens:
            return f"{minutes}{done}: too short for an estimate; the run makes at least two steps"
        return f"{minutes}{done}: about {format_estimate(tokens)} tokens{passes}{warning}"
    done = f" ({plan.done:,} are done)" if plan.done else ""
    in_all = f"in about {format_seconds(tokens / speed + plan.seconds_after())}"
    return f"{plural(steps, 'step')}{done}: {format_count(tokens)} tokens{passes}, {in_all}{warning}"


def text_rows(text: TokenizedCorpus, vocab_size: int, num_tokens: float | None) -> dict[str, str]:
    """Return the rows of a text; `num_tokens` is what will be read of it, where that is known."""
    corpus, train, parts = text.corpus, text.train, text.corpus.split()
    left_out = plural(parts.left_out, "paragraph")
    without = f", without {left_out} that validation or test text has too" if parts.left_out else ""
    test = f", {format_bytes(num_bytes(parts.test))} for the test" if parts.test else ""
    names = {number: name for name, number in text.tokenizer.specials.items()}
    end = names[text.tokenizer.end_of_text_id]
    vocabulary = f"{vocab_size:,} tokens, {train.num_bytes / max(len(train), 1):.2f} bytes each; {end} ends a document"
    if (used := text.tokenizer.used) < vocab_size:
        vocabulary += f"; the tokenizer has {used:,}, and the other rows of the model stay unused"
    name = corpus.description
    if corpus.validation_text:
        name += f"; validation: {corpus.validation_text}"
    whole = (
        f"{name}: {plural(corpus.num_documents, 'document')}, {format_bytes(train.num_bytes)} to train "
        f"on{without}, {format_bytes(text.validation.num_bytes)} for validation{test}"
    )
    return {"text": whole, **_source_rows(text, num_tokens), "vocabulary": vocabulary}


def _source_rows(text: TokenizedCorpus, num_tokens: float | None) -> dict[str, str]:
    """Return a row for each of several texts; none for a single text."""
    if not (isinstance(text.corpus, Mixture) and isinstance(text.train, TokenMixture)):
        return {}
    rows = {}
    each = zip(text.corpus.corpora, text.train.files, text.train.shares, strict=True)
    for number, (source, file, share) in enumerate(each, start=1):
        times = "" if num_tokens is None else f", read {format_estimate(share * num_tokens / max(len(file), 1))} times"
        size = f"{plural(source.num_documents, 'document')}, {format_count(len(file))} tokens to train on"
        rows[f"text {number}"] = f"{100 * share:.3g}%: {source.description}: {size}{times}"
    return rows
