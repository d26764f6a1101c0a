"""A run folder opens in transformers as it is, and says the same."""

from pathlib import Path

import numpy as np
import pytest

import models
import tokenizer
from minigrad.sampling import Sampling, generate

pytestmark = [pytest.mark.peers, pytest.mark.filterwarnings("default")]
TEXT = "The list type is a mutable sequence.\n\n    It holds é, 中文 and emoji 🙂 too; see list.append().\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    where = tmp_path_factory.mktemp("run")
    tok = tokenizer.train([TEXT * 20], vocab_size=400)
    model = models.build("vidya-v2", "nano", vocab_size=tok.vocab_size, context_length=128, seed=3, init_std=0.2)
    model.save(where)
    tok.save(where)
    return where


def test_logits_and_ids_are_those_of_transformers(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model, tok = models.load(folder), tokenizer.load(folder)
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
    their_tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    ids = tok.encode(TEXT)
    assert their_tokenizer(TEXT)["input_ids"] == ids
    assert their_tokenizer.decode(ids) == TEXT
    ours = model([ids]).data
    with torch.no_grad():
        expected = theirs(torch.tensor([ids])).logits.numpy()
    assert np.abs(ours - expected).max() <= 1e-4 * np.abs(expected).max()


def test_greedy_text_is_that_of_transformers(folder: Path) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    model, prompt = models.load(folder), tokenizer.load(folder).encode("The list type")
    ours = list(generate(model, prompt, count=30, sampling=Sampling(temperature=0)))
    theirs = transformers.AutoModelForCausalLM.from_pretrained(folder)
    written = theirs.generate(torch.tensor([prompt]), max_new_tokens=30, do_sample=False, eos_token_id=None)
    assert ours == written[0, len(prompt) :].tolist()
