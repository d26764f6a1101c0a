"""The settings of the model: its family, its size and the weights it starts from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from minigrad.errors import InputError
from minigrad.options import Group, assignments, option

_OWN_FLAGS = {"vocab_size": "--vocab", "dropout": "--dropout"}
_OWN_FLAGS |= dict.fromkeys(("end_of_text_id", "begin_of_text_id", "padding_id"), "--tokenizer")


@dataclass(frozen=True)
class ModelSettings(Group):
    """Which model is trained."""

    heading: ClassVar[str] = "model"

    model: str = option("vidya-v2", "gpt2, vidya-v1, vidya-v2, vsla or wiola", value="NAME")
    size: str = option(
        "auto", "auto, nano, micro, mini, small or a published size; auto: the best for the time", value="SIZE"
    )
    init: str | None = option(
        None, "start from the weights in this run folder, and its size", value="DIR", none_means=""
    )
    set: str | None = option(
        None, "change the model's config, as in rope_theta=1e6,tied_head=false", value="NAME=VALUE,...", none_means=""
    )

    def check(self) -> None:
        """Raise InputError if `set` changes a field that has a flag of its own."""
        for name, flag in _OWN_FLAGS.items():
            if name in assignments(self.set):
                raise InputError(f"--set {name}=... has a flag of its own: {flag}")
