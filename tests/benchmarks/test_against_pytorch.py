"""What PyTorch trains has the parameters of what minigrad trains."""

from __future__ import annotations

import pytest

import models
from benchmarks.against_pytorch import CASES, model_of, published
from models import vidya_v2
from models.gpt2 import GPT2Config


@pytest.mark.parametrize("name", CASES)
def test_both_train_as_many_parameters(name: str) -> None:
    case = CASES[name]
    ours, config = models.count(case.family, case.size, **model_of(case)), published(case)
    if config["model_type"] == "gpt2":
        theirs = models.FAMILIES["gpt2"].skeleton(GPT2Config.from_published(config)).num_parameters()
    else:
        theirs = models.FAMILIES["vidya-v2"].skeleton(vidya_v2.VidyaV2Config.from_published(config)).num_parameters()
    assert theirs == ours
