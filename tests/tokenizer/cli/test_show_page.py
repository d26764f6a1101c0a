import re
from html.parser import HTMLParser

import tokenizer
from tokenizer.cli.show import NUM_COLOURS, STYLE, page, readable, separated


class Page(HTMLParser):
    """The links and anchors of a page, its text, and what it would load from elsewhere."""

    def __init__(self, html):
        super().__init__()
        self.open, self.links, self.anchors, self.foreign, self.words = [], [], set(), [], []
        self.feed(html)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag != "meta" and tag != "!doctype":
            self.open.append(tag)
        if tag in ("script", "link", "img", "iframe"):
            self.foreign.append(tag)
        if "id" in attributes:
            self.anchors.add(attributes["id"])
        if tag == "a":
            self.links.append(attributes["href"].removeprefix("#"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "a" in self.open:
            self.words.append(data)


def test_the_page_is_whole_and_explains_every_token(run, trained, tmp_path):
    path, tok = trained
    text = "to be <script>alert('&')</script> TREES é 日\n<|end|>"
    code, _, _ = run("show", path, "--html", tmp_path / "page.html", "--allow-special", "all", stdin=text.encode())
    assert code == 0
    html = (tmp_path / "page.html").read_text(encoding="utf-8")
    seen = Page(html)
    ids = tok.encode(text, allow_special=True)
    assert seen.links == [f"t{number}" for number in ids]
    assert set(seen.links) <= seen.anchors
    assert not seen.open
    assert not seen.foreign
    assert "http" not in html
    assert "".join(seen.words) == "".join(readable(tok.decode_bytes([number])) for number in ids)


def test_one_of_a_kind_is_counted_in_the_singular():
    tok = tokenizer.train(["ab"] * 3, vocab_size=262)
    assert "1 token for 1 byte, " in page(tok, tok.encode("a"))
    html = page(tok, tok.encode("a ab a"))
    counts = re.findall(r"<p>id \d+, ([^<]*)</p>", html)
    assert set(counts) == {"once", "2 times"}


def test_a_tree_names_the_merges_in_the_order_of_training():
    tok = tokenizer.train(["abcd abcd"] * 3, vocab_size=300, min_frequency=2)
    html = page(tok, tok.encode("abcd"))
    merged = re.findall(r'name">([^<]*)<small>merge (\d+)', html)
    assert [name for name, _ in merged] == ["ab", "cd", "abcd"] or [name for name, _ in merged][-1] == "abcd"
    for name, rank in merged:
        left, right = tok.vocabulary.merges[int(rank) - 1]
        assert (left + right).decode() == name
    assert "no merge makes it" in page(tok, [0])
    assert page(tok, [])


def test_long_tokens_make_no_deep_recursion():
    tok = tokenizer.train(["a" * 3000 + "b"], vocab_size=300, split="none", min_frequency=1)
    assert separated(tok, tok.encode("a" * 3000)).startswith("aa")
    assert page(tok, tok.encode("a" * 3000)).count("<section") >= 1


def test_every_background_has_a_style():
    assert all(f".c{i} " in STYLE for i in range(NUM_COLOURS))
    assert f".c{NUM_COLOURS} " not in STYLE
