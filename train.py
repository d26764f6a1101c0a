"""Train a language model: ``python train.py --model vidya-v2`` is enough.

Real text, ten minutes, and at the end a checkpoint, a sample and a report. `loop` is the training itself; `prepare`
decides what is trained on what, `finish` tells how it went.
"""

from __future__ import annotations

import math
import shlex
import sys
import textwrap
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minigrad import hardware
from minigrad.config import Parser, complain, validate
from minigrad.errors import InputError, RunError
from minigrad.faults import explain_missing_package, explain_system_error
from minigrad.interrupt import BROKEN_PIPE, close_output, forgive_encoding, stop_requests
from minigrad.progress import Progress, format_bytes, format_seconds, phase
from minigrad.settings import TRAIN_ALIASES, TrainConfig, assignments, refuse_conflicts

if TYPE_CHECKING:
    from minigrad.training import Run

_STARTED = time.perf_counter()  # a budget of minutes counts the whole process; what was imported so far is little


@dataclass(frozen=True)
class TrainResult:
    """What a run came to. Losses are in nats per token; the `val_` figures are of all held-out text."""

    out: Path
    steps: int
    tokens: int
    loss: float
    val_loss: float
    val_bits_per_byte: float
    xz_bits_per_byte: float | None
    seconds: float
    command: str  # repeats the run bit for bit


class Stopped(Exception):  # noqa: N818  (nothing went wrong)
    """The run was asked to stop, and its checkpoint is saved; `code` is the exit code that says so."""

    def __init__(self, code: int, step: int, folder: Path) -> None:
        again = f"python train.py --resume {shlex.quote(str(folder))}"
        super().__init__(f"stopped after step {step:,} and saved; continue with: {again}")
        self.code = code


def train(
    config: TrainConfig, *, clock: Callable[[], float] | None = None, explicit: Collection[str] | None = None
) -> TrainResult | None:
    """Run a whole training as ``python train.py`` does; returns None if only the plan was wanted.

    `clock` gives the seconds since the run began; tests bring their own. `explicit` names the settings that were given,
    by default those that differ from their defaults: a continued run refuses the ones it does not have. The threads and
    the matrix products of this process stay as the settings chose them. Raises InputError for settings that cannot be
    used, RunError if the run fails, and Stopped, after saving, on Ctrl-C or SIGTERM.
    """
    validate(config)
    refuse_conflicts(config)
    started = time.perf_counter()
    hardware.prepare(config.threads)
    run = prepare(config, explicit, clock or (lambda: time.perf_counter() - started))
    if run is None:
        return None
    loop(run)
    return finish(run)


def prepare(given: TrainConfig, explicit: Collection[str] | None, clock: Callable[[], float]) -> Run | None:
    """Read the text, choose what was left open, print the plan, and build or load the model.

    Nothing is written before everything given has been found usable.
    """
    with phase("starting NumPy and Numba"):
        import models
        import tokenizer
        from minigrad import checkpoint, corpus, costs, data, optim, plan, profile, run_folder
        from minigrad.budget import Budget
        from minigrad.evaluate import token_byte_lengths
        from minigrad.kernels import products
        from minigrad.training import Run
        from models import claims

    folder, record, asked = run_folder.open_settings(given, explicit)
    changes = assignments(asked.set)
    if asked.init:
        # A run that is continued has noted the shape of what it started from, which may be gone by now.
        source_file = folder / run_folder.RECORD if folder else Path(asked.init) / "config.json"
        described = record.get("architecture") or checkpoint.read_json(source_file)
        wanted_family = asked.model if folder or "model" in run_folder.explicit_names(given, explicit) else None
        family, size, skeleton = models.start_from(described, source_file, wanted_family, asked.size, **changes)
        asked, ladder = replace(asked, model=family), {size: skeleton}
    else:
        sizes = models.ladder(asked.model, asked.size)
        ladder = {size: models.skeleton(asked.model, size, **changes) for size in sizes}
    hardware.prepare(asked.threads and min(asked.threads, hardware.cores()))  # a continued run as it began, if possible
    products.use(asked.matmul, asked.precision)
    rate = costs.matmul_rate()
    size = plan.choose_size(ladder, asked, rate)
    if folder is None:
        folder = Path(asked.out or f"runs/{asked.model}-{size}")
        if not given.plan:
            run_folder.refuse_existing(folder)
    with phase(f"reading {asked.data}"):
        source = corpus.load(asked.data, progress=print)
        train_documents, held_out_documents = source.split()
    with phase("preparing the tokens"):
        known = folder if record else asked.tokenizer
        wanted = asked.vocab or ladder[size].config.vocab_size
        tok = tokenizer.load(known) if known else tokenizer.train(train_documents, vocab_size=wanted)
        tokens, held_out = data.prepare(train_documents, tok), data.prepare(held_out_documents, tok)
    config = plan.choose_numbers(replace(asked, size=size), ladder[size], rate)
    vocab = ladder[size].config.vocab_size if config.init else tok.vocab_size
    shape: dict[str, Any] = {"vocab_size": vocab, "dropout": config.dropout}
    if not ladder[size].learns_positions:
        shape["context_length"] = config.context
    model = models.variant(ladder[size], end_of_text_id=tok.end_of_text_id, **shape)
    plan.check_vocabulary(config, tok.vocab_size, vocab)
    start = None
    if config.init and not (record and checkpoint.latest(folder)):
        start = models.start(model, config.init)
        if start.grown:
            print(f"{config.init} grows, and says what it said before: {start.grown}")
    text = plan.Text(source.description, len(source.documents), tokens, held_out, tok.used)
    plan.check_text(text, config.context)
    if record:
        run_folder.check_text(record, tokens, folder)
    print(plan.describe(config, model, text, rate, claims.beside(config.model, size, ladder[size])), flush=True)
    if given.plan:
        return None
    plan.refuse_too_large(config, model)
    saved = checkpoint.load(folder) if record and checkpoint.latest(folder) else None
    model.initialise(config.seed, "float64" if config.precision == "float64" else "float32")
    model.recompute_layers(config.checkpointing)
    if start is not None:
        start.fill(model)
    optimizer = optim.AdamW(model.parameters(), weight_decay=config.weight_decay)
    seconds = None if config.minutes is None else 60 * config.minutes
    budget = Budget(config.steps, seconds, plan.seconds_after(config, model, text, rate))
    lengths = token_byte_lengths(tok, tok.vocab_size)
    run = Run(config, folder, record, budget, tok, source, text, lengths, model, optimizer, rate, clock)
    run.profile = profile.Profile() if given.profile else None
    if start is not None and start.moments:
        # The first steps of what is new have another length (see there); the new warm-up makes that harmless.
        run.take_moments(start.moments_for(model), start.updates)
    if saved is not None:
        run.restore(saved)
        finished = "; this run is finished, but a larger --steps, --tokens or --minutes continues it"
        print(f"continuing after step {run.step:,}{finished if run.step == budget.steps else ''}")
    if record:
        run_folder.note_choices(record, config)
        run_folder.write_record(folder, record)
    else:
        facts = {"parameters": model.num_parameters(), "matmul_rate": rate, "text": run_folder.fingerprint(tokens)}
        run.record = run_folder.new_record(asked, config, **facts, architecture=model.config.published())
        run_folder.begin(folder, tok, run.record)
    run.warm_up()
    return run


def loop(run: Run) -> None:
    """Take steps until the budget is used up; log, evaluate, write samples and save on the way."""
    from minigrad import costs, metrics

    config, budget, began, first, pace = run.settings, run.budget, run.seconds(), run.step, 0.0
    log, progress, training = metrics.Metrics(run.folder, resume_step=run.step), Progress(budget.steps), 0.0
    flops = costs.flops_per_token(run.model, config.context)
    with stop_requests() as request:
        while budget.steps is None or run.step < budget.steps:
            if budget.decide(run.step, run.seconds(), pace):
                run.fix_steps()
                progress.set_total(budget.steps or 0)
            before = run.seconds()
            learning_rate, norm = run.take_step()
            last, now = run.step == budget.steps, run.seconds()
            training += now - before  # since the last line; looks, samples and checkpoints are no training
            pace = (now - began) / (run.step - first)
            score = run.look(everything=last) if last or run.step % config.eval_every == 0 else None
            try:
                if score or run.step == 1 or run.step % config.log_every == 0:
                    line = run.measurements(learning_rate, norm, training, score)
                    log.log(**line)
                    progress.log(
                        step=run.step,
                        loss=line["loss"],
                        bits_per_byte=line["bits_per_byte"],
                        learning_rate=learning_rate,
                        tokens_per_second=line["tokens_per_second"],
                        matmul_share=line["tokens_per_second"] * flops / run.matmul_rate,
                        seconds_left=budget.seconds_left(run.step, run.seconds(), pace),
                        time_share=budget.share(run.step, run.seconds()),
                        val_bits_per_byte=score.bits_per_byte if score else None,
                    )
                    training = 0.0
                if last or run.step % config.sample_every == 0:
                    sample = textwrap.indent(run.write_sample().strip(), "    | ", predicate=lambda line: True)
                    progress.say(f"what it writes after {run.step:,} steps:\n{sample}")
            except BrokenPipeError:
                close_output()
                request.code = BROKEN_PIPE
            if last or request.code or run.step % config.save_every == 0:
                run.save()
            if request.code and not last:
                progress.close()
                raise Stopped(request.code, run.step, run.folder)
    progress.close()


def finish(run: Run) -> TrainResult:
    """Compare with xz, write the report, and say what came out and how to repeat it."""
    from minigrad import metrics, report, run_folder

    config, lines = run.settings, metrics.read(run.folder)
    score = run.score or run.look(everything=True)
    xz, no_xz = run.ask_xz()
    stages = run.record.get("stages", [])
    command = run_folder.repeat_command(replace(config, steps=run.step), run.folder, stages)
    result = TrainResult(
        out=run.folder,
        steps=run.step,
        tokens=run.step * run.tokens_per_step,
        loss=lines[-1]["loss"] if lines else math.nan,
        val_loss=score.loss,
        val_bits_per_byte=score.bits_per_byte,
        xz_bits_per_byte=xz,
        seconds=run.seconds(),
        command=command,
    )
    figures: dict[str, Any] = {"bits_per_byte": score.bits_per_byte, "xz_bits_per_byte": xz, "no_xz": no_xz}
    run.record["result"] = figures | {"steps": run.step, "tokens": result.tokens, "command": command}
    run_folder.write_record(run.folder, run.record)
    summary = {"model": config.model, "size": config.size, "parameters": run.model.num_parameters()}
    path = report.write_report(
        run.folder,
        summary=summary | figures | {"data": config.data},
        samples=run.samples,
        settings=run_folder.stored(config),
        command=command,
    )
    peak = format_bytes(hardware.peak_memory_bytes())
    if run.profile is not None:
        print(run.profile.table(run.matmul_rate, len(run.learners.replicas)))
    print(report.compare_with_xz(**figures))
    print(f"{result.tokens:,} tokens in {format_seconds(run.seconds())}, at most {peak} of memory")
    print(f"report   {path}")
    print(f"write    python generate.py {shlex.quote(str(run.folder))}")
    print(f"repeat   {command}", flush=True)
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, 1 (a fault), 2 (bad input), 130 or 143 (stopped)."""
    parser = Parser(
        TrainConfig,
        prog="train.py",
        description="Train a small language model on this computer's processor. With --model alone: real text, "
        "ten minutes, a checkpoint, samples and a report.",
        aliases=TRAIN_ALIASES,
    )
    config, explicit = parser.parse(arguments)
    forgive_encoding()
    try:
        train(config, clock=lambda: time.perf_counter() - _STARTED, explicit=explicit)
    except Stopped as stopped:
        print(stopped, file=sys.stderr)
        return stopped.code
    except (InputError, RunError) as error:
        return complain("train.py", error)
    except ValueError as error:
        from tokenizer import TokenizerError

        if not isinstance(error, TokenizerError):
            raise
        return complain("train.py", InputError(error))
    except ModuleNotFoundError as error:
        return complain("train.py", explain_missing_package(error, "train.py"))
    except MemoryError:
        return complain("train.py", RunError("this computer's memory is full; take a smaller --size or --batch"))
    except BrokenPipeError:
        close_output()
        return BROKEN_PIPE
    except OSError as error:
        return complain("train.py", explain_system_error(error))
    except KeyboardInterrupt:
        print("\ninterrupted; a run that had begun continues with --resume", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
