"""The page shows the numbers of the model, loads nothing, and stands for texts of every length and every family."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

import models
from minigrad import no_grad
from minigrad.pages.explain import explain
from minigrad.pages.explain import page as page_module
from minigrad.pages.explain.prediction import percent
from minigrad.quantised import quantise

ALONE = {"meta", "br"}
LEFT_OPEN = {"li", "th", "td", "tr", "thead", "tbody"}  # elements whose end HTML lets one leave out


class Checker(HTMLParser):
    """Collects the addresses and names of a page, and checks that its elements close in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.names: list[str] = []
        self.elements: list[str] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(page)
        assert self._open == []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.elements.append(tag)
        if tag not in ALONE | LEFT_OPEN:
            self._open.append(tag)
        for name, value in attributes:
            if name in ("src", "href", "xlink:href", "srcset", "data", "action", "poster"):
                self.addresses.append(value or "")
            if name == "id":
                self.names.append(value or "")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        self._open.remove(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in LEFT_OPEN:
            assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_of_every_family_loads_nothing_and_is_well_formed(model, tok, text):
    page = explain(model, tok, text, written=9, title="a <title>", drawn="seed 0")
    found = Checker(page)
    assert all(address.startswith(("#", "data:image/png;base64,")) for address in found.addresses)
    assert {address[1:] for address in found.addresses if address.startswith("#")} == set(found.names)
    assert not {"script", "link", "iframe", "object", "img"} & set(found.elements)
    assert "http" not in page
    assert "url(" not in page
    assert "@import" not in page
    assert "a <title>" in found.text
    assert f"{len(text)} tokens; the model wrote {len(text) - 9}. Drawn with seed 0." in found.text
    assert page == explain(model, tok, text, written=9, title="a <title>", drawn="seed 0")


def test_the_numbers_under_the_text_are_the_models_probabilities(model, tok, text):
    with no_grad():
        logits = model.eval()([text]).data[0].astype(np.float64)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    ribbons = re.findall(r"<p class=ribbon>(.*?)</p>", explain(model, tok, text))
    shown = re.findall(r"<small>(.*?)</small>", "".join(ribbons))
    assert shown[0] == "read first"
    close = [(place, p[place - 1, token]) for place, token in enumerate(text)][1:]
    for place, chance in close:
        assert shown[place] in {percent(chance * (1 + e)) for e in (-1e-3, 0, 1e-3)}


def test_families_show_what_only_they_have(small, tok, text):
    assert "Wiola" in explain(small("wiola"), tok, text)
    assert "Pattern sparse" in explain(small("vsla"), tok, text)
    assert "Wiola" not in explain(small("gpt2"), tok, text)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_the_shortest_texts(model, tok, text, length):
    page = explain(model, tok, text[:length])
    Checker(page)
    assert page.count("<small>read first</small>") == 1
    assert ("on average" in page.split("Which token reads which")[0]) == (length > 1)
    assert ">The prompt<" in page
    assert "What the model wrote" not in page


def test_a_text_longer_than_the_context_is_read_from_its_newest_part(small, tok, text):
    model = small("vidya-v2")
    long = (text * 5)[:100]
    page = explain(model, tok, long, written=10)
    assert "100 tokens; the model wrote 90." in page
    assert "The text is longer: its first 36 tokens are not shown." in page
    assert ">The prompt<" not in page
    ribbons = [re.findall(r"<p class=ribbon>(.*?)</p>", each) for each in (page, explain(model, tok, long[-64:]))]
    assert ribbons[0] == ribbons[1]


def test_of_a_long_context_the_newest_tokens_are_shown(small, tok, text, monkeypatch):
    model = small("vidya-v2")
    whole = explain(model, tok, text, written=5)
    monkeypatch.setattr(page_module, "MOST_TOKENS", 8)
    page = explain(model, tok, text, written=5)
    assert f"The text is longer: its first {len(text) - 8} tokens are not shown." in page
    (shown,) = re.findall(r"<p class=ribbon>(.*?)</p>", page)
    assert shown.count("<span") == 8
    assert shown in whole
    assert page.count("<th scope=row>") == 8


def test_quantised_weights_are_explained_as_they_compute(tok, text):
    model = models.build("vidya-v2", "nano", vocab_size=261, num_layers=2)
    quantise(model, "int8")
    found = page_module.read(model, tok, text, len(text))
    with no_grad():
        logits = model.eval()([text]).data[0].astype(np.float64)
    p = np.exp(logits - logits.max(axis=1, keepdims=True))
    np.testing.assert_allclose(found.lens.probabilities[-1], (p / p.sum(axis=1, keepdims=True)).max(axis=1), rtol=1e-3)
    Checker(explain(model, tok, text))
