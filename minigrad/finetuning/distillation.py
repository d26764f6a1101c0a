"""Distillation: a text is read together with a trained model, whose probabilities of every token are learned.

The next token of a text is one draw; a good model knows the other likely tokens too. A student that learns their
probabilities learns more from each token than from the text alone (`minigrad.ops.distillation`).
"""

from __future__ import annotations

import dataclasses
import hashlib

from minigrad.autograd.graph import no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.data.tokens.batches import Batch
from minigrad.data.tokens.reading import training_source
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.errors import InputError
from minigrad.evaluate.losses import evaluate
from minigrad.nn.language_model import LanguageModel
from minigrad.ops.distillation import objective_of
from minigrad.system.terminal import phase, say
from minigrad.training.run import Finding, Run
from minigrad.training.settings import RunSettings
from minigrad.training.validation import evaluate as evaluate_run
from minigrad.typing import Teaching


class Distillation:
    """The batches of a text, each with the outputs of the teacher; raises InputError if the teacher cannot read it."""

    reward = None

    def __init__(self, settings: RunSettings, text: TokenizedCorpus, teacher: LanguageModel) -> None:
        if settings.context > teacher.config.context_length:
            raise InputError(
                f"--teacher {settings.teacher} reads at most {teacher.config.context_length:,} tokens, and --context "
                f"is {settings.context:,}; take a smaller one"
            )
        self.settings, self.teacher = settings, teacher
        self.teacher.freeze().eval()
        self.text = training_source(settings.documents, text.train, settings.context)

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the tokens of one step and the teacher's outputs, a function of the arguments alone."""
        batch, settings = self.text.batch(seed=seed, step=step, batch_size=batch_size), self.settings
        with no_grad():
            rows = self.teacher.hidden(Tensor(batch.tokens), batch.layout).data
        share, temperature = settings.teacher_share, settings.teacher_temperature
        said = Teaching(rows, self.teacher.head().data, temperature, share, settings.teacher_divergence == "reverse")
        return dataclasses.replace(batch, teaching=said)

    def tokens_before(self, step: int, *, seed: int, batch_size: int) -> int:
        """Return the number of tokens that the steps before `step` read."""
        return self.text.tokens_before(step, seed=seed, batch_size=batch_size)

    def tokens_per_pass(self, batch_size: int) -> int:
        """Return the number of tokens of the text."""
        return self.text.tokens_per_pass(batch_size)

    def attended_length(self) -> float:
        """Return the length of the sequence of a token, averaged over the tokens."""
        return self.text.attended_length()

    def describe(self, batch_size: int) -> str:
        """Return what a step reads, in words."""
        return self.text.describe(batch_size)

    def summary(self) -> str:
        """Return who teaches, in words."""
        settings = self.settings
        divergence = "KL(teacher, student)" if settings.teacher_divergence == "forward" else "KL(student, teacher)"
        return (
            f"{settings.teacher}, {self.teacher.num_parameters():,} parameters, teaches: {divergence} at temperature "
            f"{settings.teacher_temperature:g} is {settings.teacher_share:g} of the loss"
        )

    def fingerprint(self) -> str:
        """Return a hash of the weights of the teacher."""
        digest = hashlib.blake2b(digest_size=16)
        for name, array in self.teacher.state_dict().items():
            digest.update(name.encode() + array.tobytes())
        return digest.hexdigest()

    def begin(self, run: Run) -> None:
        """Note in minigrad.json how well the teacher knows the validation text; compile the kernel of the loss."""
        if not run.step and not run.folder.record.before:
            with phase("evaluating the teacher"):
                score = evaluate(self.teacher, run.validation, run.text.byte_lengths, context=self.settings.context)
            run.folder.record.before = {"teacher_bits_per_byte": score.bits_per_byte}
            run.folder.write()
            say(f"the teacher: validation text {score.bits_per_byte:.3f} bits per byte")
        with no_grad():
            few = self.batch(seed=0, step=0, batch_size=1)
            run.model.loss(few.tokens, few.targets, layout=few.layout, objective=objective_of(few.teaching))

    def examine(self, run: Run) -> Finding:
        """Compare the student with its teacher on the validation text."""
        score = run.score or evaluate_run(run, everything=True)
        teacher = run.folder.record.before["teacher_bits_per_byte"]
        sentence = (
            f"The validation text takes the student {score.bits_per_byte:.3f} bits per byte, and its teacher "
            f"{teacher:.3f} (lower is better)."
        )
        note = "The training curve above is of the loss with the share of the teacher, which is not a loss on text."
        section = f"<h2>What it learned from its teacher</h2><p>{sentence} {note}</p>"
        return Finding(section, {"teacher_bits_per_byte": teacher}, sentence)
