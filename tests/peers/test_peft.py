"""A folder of adapters opens in peft, beside the base in transformers, and gives the same logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.adapters.test_files import logits, taught
from tests.models.tiny import tokens

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]
torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")


@pytest.mark.parametrize(
    ("family", "changes"),
    [("gpt2", {}), ("gpt2", {"tied_head": False}), ("vidya-v2", {"key_shift": False, "value_residual": False})],
)
def test_peft_computes_the_same(family: str, changes: dict[str, bool], tmp_path: Path) -> None:
    wanted = logits(taught(family, tmp_path, **changes))
    base = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "base", dtype=torch.float32)
    ids = torch.tensor(tokens(0, 1, 7))
    with torch.no_grad():
        plain = base.eval()(ids).logits.numpy()
        found = peft.PeftModel.from_pretrained(base, tmp_path / "adapter").eval()(ids).logits.numpy()
    assert np.abs(found - wanted).max() <= 1e-4 * np.abs(wanted).max()
    assert np.abs(plain - wanted).max() > 0.1
