"""Distillation: the student learns a trained model's probabilities of every token of a text.

The next token of a text is one draw; a good model knows what else could have come. So a student learns more from each
token than from the text alone (`minigrad.ops.distillation`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from minigrad.autograd.graph import no_grad
from minigrad.autograd.tensor import Tensor
from minigrad.data.tokens.batches import Batch
from minigrad.data.tokens.reading import training_source
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.errors import InputError
from minigrad.finetuning.encoding import TaughtForm
from minigrad.finetuning.teaching import Reward, Student
from minigrad.formats.weights import hash_of_arrays
from minigrad.nn.language_model import LanguageModel
from minigrad.ops.distillation import TeacherOutputs
from minigrad.system.terminal import phase, say
from minigrad.training.run import Finding
from minigrad.training.settings import RunSettings


def with_teacher_outputs(
    batch: Batch, teacher: LanguageModel, *, temperature: float = 1.0, share: float = 1.0, is_reverse: bool = False
) -> Batch:
    """Return a batch with the outputs of a teacher; `share` is the teacher's share of the loss."""
    with no_grad():
        rows, head = teacher.tables()[-1].factors(teacher.hidden(Tensor(batch.tokens), batch.layout))
    outputs = TeacherOutputs(rows.data, head.data, temperature, share, is_reverse)
    return dataclasses.replace(batch, objective=outputs)


def compile_kernels(model: LanguageModel, batch: Batch) -> None:
    """Compile the kernels of the divergence by a pass over a small batch with teacher outputs."""
    with no_grad():
        model.loss(batch.tokens, batch.targets, layout=batch.layout, objective=batch.objective)


class Distillation:
    """The batches of a text with the outputs of a teacher; raises InputError if the teacher cannot read them."""

    form: TaughtForm | None = None
    reward: Reward | None = None
    measured: Sequence[str] = ("teacher_bits_per_byte",)
    read_by_teacher = 1.0
    learns_text = True

    def __init__(self, settings: RunSettings, text: TokenizedCorpus, teacher: LanguageModel) -> None:
        if settings.context > teacher.config.context_length:
            raise InputError(
                f"--teacher {settings.teacher} reads at most {teacher.config.context_length:,} tokens, and --context "
                f"is {settings.context:,}; take a smaller one"
            )
        self.settings, self.teacher = settings, teacher
        teacher.freeze().eval()
        self.text = training_source(settings.documents, text.train, settings.context)
        self.tokens_before, self.tokens_per_pass = self.text.tokens_before, self.text.tokens_per_pass
        self.attended_length, self.describe = self.text.attended_length, self.text.describe

    def batch(self, *, seed: int, step: int, batch_size: int) -> Batch:
        """Return the tokens of one step and the teacher's outputs, a function of the arguments alone."""
        return with_teacher_outputs(
            self.text.batch(seed=seed, step=step, batch_size=batch_size),
            self.teacher,
            temperature=self.settings.teacher_temperature,
            share=self.settings.teacher_share,
            is_reverse=self.settings.teacher_divergence == "reverse",
        )

    def summary(self) -> str:
        """Describe the teacher and the divergence, in words."""
        settings = self.settings
        divergence = "KL(teacher, student)" if settings.teacher_divergence == "forward" else "KL(student, teacher)"
        return (
            f"{settings.teacher}, {self.teacher.num_parameters():,} parameters, teaches: {divergence} at temperature "
            f"{settings.teacher_temperature:g} is {settings.teacher_share:g} of the loss"
        )

    def fingerprint(self) -> str:
        """Return a hash of the weights of the teacher."""
        return hash_of_arrays(self.teacher.state_dict())

    def begin(self, model: LanguageModel) -> None:
        """Compile the kernels of the loss."""
        compile_kernels(model, self.batch(seed=0, step=0, batch_size=1))

    def measure(self, student: Student) -> dict[str, float]:
        """Measure the teacher on the validation text."""
        with phase("evaluating the teacher"):
            bits = student.bits_per_byte(self.teacher)
        say(f"the teacher: validation text {bits:.3f} bits per byte")
        return {"teacher_bits_per_byte": bits}

    def examine(self, student: Student, before: Mapping[str, float], bits_per_byte: float) -> Finding:
        """Compare the student with its teacher on the validation text."""
        teacher = before["teacher_bits_per_byte"]
        sentence = (
            f"On the validation text the student needs {bits_per_byte:.3f} bits per byte, and its teacher "
            f"{teacher:.3f} (lower is better)."
        )
        note = "The training curve above is of the loss with the share of the teacher, which is not a loss on text."
        section = f"<h2>What it learned from its teacher</h2><p>{sentence} {note}</p>"
        return Finding(section, {"teacher_bits_per_byte": teacher}, sentence)
