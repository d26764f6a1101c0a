"""A training run under way: one step, one look at held-out text, one sample, one checkpoint."""

from __future__ import annotations

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minigrad import anomaly, checkpoint, corpus, data, hardware, plan, run_folder
from minigrad.anomaly import AnomalyError
from minigrad.budget import Budget
from minigrad.checkpoint import Checkpoint
from minigrad.errors import InputError, RunError
from minigrad.evaluate import Score, bits_per_byte, evaluate
from minigrad.graph import no_grad
from minigrad.language_model import LanguageModel
from minigrad.optim import AdamW, decay_start, warmup_stable_decay
from minigrad.parallel import DataParallel, num_replicas
from minigrad.profile import Profile
from minigrad.progress import phase
from minigrad.sampling import Sampling, generate, unusable_ids

_QUICK_LOOK = 16_384  # held-out tokens read while training; at the end all are
_SAMPLE_TOKENS = 80


def _nothing() -> dict[str, float]:
    return {"nats": 0.0, "bytes": 0.0, "loss": 0.0, "steps": 0.0}


@dataclass
class Run:
    """What is trained on what, and how far it is. All that decides the next step lives in a checkpoint."""

    settings: Any  # the TrainConfig, with everything chosen
    folder: Path
    record: dict[str, Any]  # minigrad.json
    budget: Budget
    tokenizer: Any
    corpus: corpus.Corpus
    text: plan.Text  # the same as tokens
    byte_lengths: NDArray[Any]  # (V,), to turn nats per token into bits per byte
    model: LanguageModel
    optimizer: AdamW
    matmul_rate: float  # what this machine can do, in operations per second
    clock: Callable[[], float]  # seconds since this process began
    seconds_before: float = 0.0  # used by the process that this one continues
    step: int = 0
    since_logged: dict[str, float] = field(default_factory=_nothing)
    samples: list[dict[str, Any]] = field(default_factory=list)
    score: Score | None = None  # on all held-out text, once the last step is done
    profile: Profile | None = None  # of the steps, if wanted
    sound_at: int | None = None  # the step after which the weights were last found to be finite

    def seconds(self) -> float:
        """Return the seconds used so far, those of the process that this one continues included."""
        return self.seconds_before + self.clock()

    @property
    def tokens_per_step(self) -> int:
        """Tokens that one update learns from."""
        return int(self.settings.batch * self.settings.context * self.settings.accumulate)

    @functools.cached_property
    def learners(self) -> DataParallel:
        """The model and its replicas, which learn side by side."""
        return DataParallel(self.model, num_replicas(self.model, self.settings.batch, self.settings.context))

    def learning_rate(self) -> float:
        """Return the rate of the step about to run."""
        steps = self.budget.steps
        start = self.step + 1 if steps is None else decay_start(steps)
        return warmup_stable_decay(
            self.step,
            peak=self.settings.lr,
            warmup=self.settings.warmup,
            decay_start=start,
            steps=steps or start,
        )

    def warm_up(self) -> None:
        """Let every kernel be compiled, on the smallest batch; nothing is learned."""
        with phase("compiling kernels (kept for the next run)"):
            self.model.loss(*data.batch(self.text.train, seed=0, step=0, batch_size=1, context=2)).backward()
        self.optimizer.zero_grad()

    def take_step(self) -> tuple[float, float]:
        """Learn from the next batch; return the learning rate and the length of the gradient.

        Raises RunError, naming the operation, if the loss or the gradient is not finite; weights and checkpoints are
        then as they were.
        """
        with self.profile or contextlib.nullcontext():
            return self._take_step()

    def _take_step(self) -> tuple[float, float]:
        rate = self.learning_rate()
        with np.errstate(all="ignore"):  # whether the numbers are finite is looked at here
            nats, num_bytes, loss = self._accumulate_gradients()
            with self.profile.measure("AdamW", "update") if self.profile else contextlib.nullcontext():
                norm = self.optimizer.step(rate, max_norm=1.0) if math.isfinite(loss) else math.nan
            if not math.isfinite(norm):
                raise self._divergence(self._first_anomaly())
        self.optimizer.zero_grad()
        for name, value in (("nats", nats), ("bytes", num_bytes), ("loss", loss), ("steps", 1)):
            self.since_logged[name] += value
        self.step += 1
        return rate, norm

    def _accumulate_gradients(self) -> tuple[float, float, float]:
        """Add up the gradients of the parts of a step; return its nats, its bytes and its mean loss."""
        settings = self.settings
        nats, num_bytes, count = 0.0, 0.0, 0
        for micro in range(settings.accumulate):
            inputs, targets = data.batch(
                self.text.train,
                seed=settings.seed,
                step=self.step,
                batch_size=settings.batch,
                context=settings.context,
                micro=micro,
                accumulate=settings.accumulate,
            )
            loss = self.learners.backward(
                inputs,
                targets,
                seed=settings.seed,
                step=self.step * settings.accumulate + micro,
                scale=1 / settings.accumulate,
            )
            nats += loss * targets.size
            num_bytes += float(self.byte_lengths[targets].sum())
            count += targets.size
        return nats, num_bytes, nats / count

    def _first_anomaly(self) -> str:
        """Repeat the step with every operation checked, to name the one that made the first NaN or infinity."""
        self.optimizer.zero_grad()
        try:
            with anomaly.detect_anomaly():
                self._accumulate_gradients()
        except AnomalyError as error:
            return str(error)
        return "the gradient became too large"

    def _refuse_damage(self) -> None:
        """Raise RunError if the weights are not finite or give no finite loss: they are neither measured nor saved.

        Once found sound, they are so until the next step: a look, a sample and a checkpoint share one test.
        """
        if self.sound_at == self.step:
            return
        for name, parameter in self.model.named_parameters():
            if not np.isfinite(parameter.data).all():
                raise self._divergence(f"{name} holds numbers that are not finite")
        settings = self.settings
        one = data.batch(self.text.train, seed=settings.seed, step=self.step, batch_size=1, context=settings.context)
        with no_grad(), np.errstate(all="ignore"):
            if not math.isfinite(self.model.loss(*one).item()):
                raise self._divergence(self._first_anomaly())
        self.sound_at = self.step

    def _divergence(self, what: str) -> RunError:
        saved = checkpoint.steps(self.folder)
        rest = f"the checkpoint of step {saved[-1]} is intact" if saved else "no checkpoint was saved yet"
        return RunError(
            f"training diverged at step {self.step + 1}: {what}. Nothing of this was kept; {rest}. "
            "A smaller --lr or a longer --warmup usually helps."
        )

    def look(self, everything: bool) -> Score:
        """Score the held-out text: all of it, or a quick estimate; raises RunError if training diverged."""
        self._refuse_damage()
        score = evaluate(
            self.model,
            self.text.held_out,
            self.byte_lengths,
            context=self.settings.context,
            limit=None if everything else _QUICK_LOOK,
        )
        if everything:
            self.score = score
        return score

    def ask_xz(self) -> tuple[float | None, str]:
        """Return what xz needs for the held-out text in bits per byte, or None and why there is no figure."""
        if too_long := plan.too_long_for_xz(self.settings, self.text):
            return None, too_long
        with phase("asking xz about the same text"):
            figure = corpus.xz_bits_per_byte(*self.corpus.split())
        return figure, "" if figure is not None else "this Python lacks lzma"

    def measurements(self, rate: float, norm: float, seconds: float, score: Score | None) -> dict[str, Any]:
        """Return one line of metrics: averages over the steps since the last line, which took `seconds`."""
        sums, self.since_logged = self.since_logged, _nothing()
        line: dict[str, Any] = {
            "step": self.step,
            "tokens": self.step * self.tokens_per_step,
            "loss": sums["loss"] / sums["steps"],
            "bits_per_byte": bits_per_byte(sums["nats"], sums["bytes"]),
            "learning_rate": rate,
            "gradient_norm": norm,
            "seconds": self.seconds(),
            "tokens_per_second": sums["steps"] * self.tokens_per_step / max(seconds, 1e-9),
            "memory_bytes": hardware.memory_bytes(),
        }
        line["of_family"] = self.learners.measurements()
        if score is not None:
            line |= {"val_loss": score.loss, "val_bits_per_byte": score.bits_per_byte}
        return line

    def write_sample(self) -> str:
        """Let the model write, beginning as a held-out document begins; keep and return the whole.

        Raises RunError if training diverged.
        """
        self._refuse_damage()
        tok, prompt = self.tokenizer, self._sample_prompt()
        continuation = generate(
            self.model,
            prompt,
            count=min(_SAMPLE_TOKENS, self.model.config.context_length),
            sampling=Sampling(temperature=0.8, top_p=0.95),
            seed=self.settings.seed,
            index=self.step,
            stop_ids=[tok.end_of_text_id],
            forbidden_ids=unusable_ids(tok, self.model.config.vocab_size),
        )
        sample = str(tok.decode([*prompt[1:], *continuation]))
        self.samples.append({"step": self.step, "text": sample})
        return sample

    def _sample_prompt(self) -> list[int]:
        """Return the beginning of the first held-out document: no more than 8 tokens, and not beyond its end."""
        end, first = self.tokenizer.end_of_text_id, [int(token) for token in self.text.held_out.tokens[1:9]]
        return [end, *itertools.takewhile(lambda token: token != end, first)]

    def save(self) -> None:
        """Write a checkpoint, then the weights for other programs beside it.

        Raises RunError if training diverged or the disk refuses; the checkpoint before is then intact.
        """
        self._refuse_damage()
        names = [name for name, _ in self.model.named_parameters()]
        moments = {
            f"{name}.{kind}": array
            for name, pair in zip(names, self.optimizer.moments(), strict=True)
            for kind, array in zip("mv", pair, strict=True)
        }
        state = {
            "updates": self.optimizer.steps,
            "seconds": self.seconds(),
            "since_logged": self.since_logged,
            "samples": self.samples,
        }
        checkpoint.save(self.folder, self.step, weights=self.model.state_dict(), moments=moments, state=state)
        self.model.save(self.folder)

    def restore(self, saved: Checkpoint) -> None:
        """Continue from a checkpoint; raises InputError if it belongs to another model."""
        parameters = self.model.named_parameters()
        checkpoint.check_names(saved.weights, {name: parameter.shape for name, parameter in parameters})
        shapes = {f"{name}.{kind}": parameter.shape for name, parameter in parameters for kind in "mv"}
        checkpoint.check_names(saved.moments, shapes)
        self.model.load_state_dict(saved.weights)
        try:
            self.take_moments(saved.moments, int(saved.state["updates"]))
            self.seconds_before = float(saved.state["seconds"])
            self.since_logged = {name: float(saved.state["since_logged"][name]) for name in _nothing()}
            self.samples = [{"step": int(each["step"]), "text": str(each["text"])} for each in saved.state["samples"]]
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"state.json of step {saved.step} in {self.folder} lacks or garbles {error}") from None
        self.step, self.sound_at = saved.step, None

    def take_moments(self, moments: Mapping[str, NDArray[Any]], updates: int) -> None:
        """Let the optimizer go on from moments, named as `save` names them, that come from so many updates."""
        for (name, _), pair in zip(self.model.named_parameters(), self.optimizer.moments(), strict=True):
            for kind, array in zip("mv", pair, strict=True):
                array[...] = moments[f"{name}.{kind}"]
        self.optimizer.steps = updates

    def fix_steps(self) -> None:
        """Write the number of steps that the clock chose into minigrad.json, before it takes effect."""
        assert self.budget.steps is not None
        self.record["chosen"] |= {"steps": self.budget.steps, "decay_start": decay_start(self.budget.steps)}
        run_folder.write_record(self.folder, self.record)
