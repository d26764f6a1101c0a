"""The playground: its page, and the page in a browser, which writes what the API writes."""

from __future__ import annotations

import dataclasses
import html.parser
import json
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from minigrad.serving.playground import FOLDER, playground
from minigrad.serving.served import Served
from tests.browser import Browser, needs_a_browser, started
from tests.serving.wire import Wire, serving
from tests.tokenizer import byte_fallback
from tokenizer import Tokenizer

PROMPT = "to <img src=x onerror=alert(1)> be"


class Ids(html.parser.HTMLParser):
    """The ids of a page, and what its labels and descriptions refer to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found, self.named = list[str](), set[str]()
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.found.append(str(value))
            if name in ("for", "aria-labelledby", "aria-describedby"):
                self.named.add(str(value))


def test_every_id_is_there_once_and_every_script_is_in_the_page() -> None:
    page, _ = playground(needs_key=False)
    ids = Ids(page)
    assert len(ids.found) == len(set(ids.found))
    assert ids.named <= set(ids.found)
    for file in FOLDER.glob("*.js"):
        assert file.read_text(encoding="utf-8") in page
        called = set(re.findall(r'[^.\w]\$\("([\w-]+)"\)', file.read_text(encoding="utf-8")))
        parts = {f"{name}-2" for name in re.findall(r'part\("([\w-]+)"\)', file.read_text(encoding="utf-8"))}
        assert called | parts <= set(ids.found)


def test_the_page_refers_to_no_other_address() -> None:
    page, policy = playground(needs_key=False)
    assert not re.search(r"https?:|//\w+\.\w|\b(src|href)=(?!\"data:,\")", page)
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy


def test_the_page_is_served_without_a_key_and_the_models_are_not(make_served: Callable[..., Served]) -> None:
    with serving([make_served()], api_key="secret") as wire:
        connection = wire.send("/")
        reply = connection.getresponse()
        page = reply.read().decode()
        connection.close()
        assert reply.status == 200
        assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
        assert "script-src 'sha256-" in reply.headers["Content-Security-Policy"]
        assert "<form id=lock class=row>" in page
        assert "tiny" not in page
        assert "secret" not in page
        assert wire.call("/v1/models").status == 401
        connection.request("HEAD", "/")
        head = connection.getresponse()
        assert (head.status, head.read(), head.headers["Content-Length"]) == (200, b"", str(len(page.encode())))
        connection.close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("browser") / "profile") as browser:
        yield browser


def open_at(browser: Browser, wire: Wire, link: str = "") -> None:
    browser.call("Page.navigate", url="about:blank")
    browser.requests, browser.errors = [], []
    browser.call("Page.navigate", url=f"http://127.0.0.1:{wire.port}/{link}")
    browser.until("typeof playground !== 'undefined' && document.readyState === 'complete'")


def idle(page: Browser) -> None:
    page.until("playground.columns.every((column) => !column.busy)")


def fill(page: Browser, values: dict[str, Any]) -> None:
    for name, value in values.items():
        page.run(f"""(() => {{ const field = document.getElementById({name!r}); field.value = {str(value)!r};
            for (const kind of ['input', 'change']) field.dispatchEvent(new Event(kind, {{ bubbles: true }})); }})()""")
    idle(page)


def click(page: Browser, which: str) -> None:
    page.run(f"document.querySelector({which!r}).click()")
    idle(page)


def fields(page: Browser, names: Sequence[str]) -> list[str]:
    found: list[str] = page.run(f"{list(names)!r}.map((name) => document.getElementById(name).value)")
    return found


def by_api(wire: Wire, prompt: str, **settings: Any) -> str:
    """Return a text as the API writes it, as a field holds it: without carriage returns and half a character."""
    asked = {"temperature": 0.8, "top_p": 0.95, "max_tokens": 20, "echo": True, "prompt": prompt} | settings
    (choice,) = wire.call("/v1/completions", asked).json["choices"]
    text: str = choice["text"]
    return text.replace("\r", "").rstrip("\ufffd")


@needs_a_browser
def test_it_writes_what_the_api_writes(browser: Browser, make_served: Callable[..., Served]) -> None:
    with serving([make_served("tiny"), make_served("other", teaches=False)]) as wire:
        page = browser
        open_at(page, wire)
        idle(page)
        page.until("!document.getElementById('modes-1').hidden")
        # Markup in a text is text, also before the server has read it.
        unread = f"(playground.columns[0].leave({PROMPT!r}), document.getElementById('paper-1').textContent)"
        assert page.run(unread) == PROMPT
        fill(page, {"count-1": 20, "seed-1": 4, "text-1": PROMPT})
        page.until("document.querySelectorAll('#paper-1 span').length > 5")
        idle(page)
        assert "".join(page.texts("#paper-1 span")) == PROMPT
        click(page, "#write-1")
        written = fields(page, ["text-1"])[0]
        assert written.rstrip("\ufffd") == by_api(wire, PROMPT, seed=4) != PROMPT
        assert page.texts("#rivals-1 button")  # of the token that comes next

        # Another branch: the text before the token at the cursor stays, and its rival follows.
        column, place = "playground.columns[0]", len(PROMPT) + 2
        page.run(f"{column}.part('text').focus(); {column}.part('text').setSelectionRange({place}, {place})")
        page.until("document.getElementById('here-1').textContent.startsWith('Here is ')")
        begun = page.run(f"piecesOf({column}.tokens).slice(0, {column}.place).join('')")
        rivals = "[...document.querySelectorAll('#rivals-1 button')]"
        rival = page.run(f"{rivals}.findIndex((each) => !each.disabled && !each.classList.contains('chosen'))")
        name = page.texts("#rivals-1 .name")[rival]
        click(page, f"#rivals-1 li:nth-child({rival + 1}) button")
        (branch,) = fields(page, ["text-1"])
        assert branch.startswith(begun)
        added = page.run(f"[...new TextEncoder().encode({branch.removeprefix(begun)!r})]")
        assert page.run(f"visible({added})") == name
        click(page, "#undo-1")
        assert fields(page, ["text-1"]) == [written]

        # Two columns, and the link that repeats them.
        click(page, "#undo-1")
        click(page, "#compare")
        fill(page, {"model-2": "other", "seed-2": 5, "temperature-2": 1.5})
        click(page, "#both")
        idle(page)
        found = [text.rstrip("\ufffd") for text in fields(page, ["text-1", "text-2"])]
        expected = by_api(wire, PROMPT, seed=4), by_api(wire, PROMPT, model="other", seed=5, temperature=1.5)
        assert found == [*expected]
        for width in (360, 1280):
            page.resize(width, phone=width < 600)
            assert page.run("document.documentElement.scrollWidth") <= width
        page.until("location.hash.includes('seed-2=5')")
        link = page.run("location.hash")
        open_at(page, wire, link)
        page.until("document.getElementById('text-2').value !== ''")
        idle(page)
        assert fields(page, ["text-1", "text-2", "model-2", "seed-2", "count-2"]) == [
            PROMPT,
            PROMPT,
            "other",
            "5",
            "20",
        ]
        assert page.errors == []
        assert all(each.startswith(f"http://127.0.0.1:{wire.port}/") for each in page.requests)


@needs_a_browser
def test_it_stops_and_says_what_is_wrong_in_a_sentence(browser: Browser, make_served: Callable[..., Served]) -> None:
    page = browser
    with serving([make_served(capacity=512)], api_key="secret") as wire:
        open_at(page, wire)
        assert page.texts("#status") == ["This server requires an API key."]
        for key, said in (("", "The API key is missing: enter it above."), ("wrong", "The API key is wrong.")):
            page.run(f"document.getElementById('key').value = {key!r}; document.getElementById('lock').requestSubmit()")
            page.until(f"document.getElementById('status').textContent === {said!r}")
        page.run("document.getElementById('key').value = 'secret'; document.getElementById('lock').requestSubmit()")
        page.until("!document.getElementById('columns').hidden")
        fill(page, {"text-1": "to be", "count-1": 500, "temperature-1": 0})
        label = page.run(
            """new Promise((resolve) => { const [column] = playground.columns, button = column.part("write");
            const { showText } = column;
            column.showText = () => { showText.call(column); if (column.tokens.length < 20) return;
              delete column.showText; resolve(button.textContent); button.click(); };
            button.click(); })"""
        )
        assert label == "Stop"
        idle(page)
        assert page.texts("#write-1") == ["Continue"]
        assert 20 <= page.run("playground.columns[0].tokens.length") < 500
        assert page.texts("#status-1") == ["stopped"]
        assert "secret" not in page.run("location.href")
        busy = '{"error": {"message": "3 texts are already waiting; try again"}}'
        page.run(f"window.fetch = async () => new Response({busy!r}, {{ status: 429 }})")
        click(page, "#write-1")
        assert page.texts("#status-1") == ["The server is busy: 3 texts are already waiting; try again."]
        assert page.errors == []


@needs_a_browser
def test_a_conversation_is_that_of_the_api(browser: Browser, make_served: Callable[..., Served]) -> None:
    page, question = browser, "be <i>or</i>?"
    with serving([make_served()]) as wire:
        open_at(page, wire)
        page.until("!document.getElementById('modes-1').hidden")
        # Markup in a text is text, also before the server has read it.
        unread = f"(playground.columns[0].leave({PROMPT!r}), document.getElementById('paper-1').textContent)"
        assert page.run(unread) == PROMPT
        fill(page, {"count-1": 20, "seed-1": 4})
        click(page, "#as-chat-1")
        assert fields(page, ["temperature-1"]) == ["0"]  # a mixture of two answers makes no sense
        kept = page.run("playground.fields.find(([field]) => field.id === 'temperature-1')[1]")
        assert kept == "0.8"  # in a link, which is to a text
        fill(page, {"temperature-1": 0.8})
        page.run(f"document.getElementById('message-1').value = {question!r}")
        page.run("document.getElementById('ask-1').requestSubmit()")
        idle(page)
        asked = {"temperature": 0.8, "top_p": 0.95, "max_tokens": 20, "seed": 4}
        asked |= {"messages": [{"role": "user", "content": question}]}
        (choice,) = wire.call("/v1/chat/completions", asked).json["choices"]
        assert page.texts("#messages-1 p") == [question, choice["message"]["content"]]
        page.run("window.fetch = async () => { throw new Error() }")
        page.run("document.getElementById('message-1').value = 'to be?'")
        page.run("document.getElementById('ask-1').requestSubmit()")
        idle(page)
        assert page.texts("#status-1") == ["The server does not answer. Is it still running?"]
        assert fields(page, ["message-1"]) == ["to be?"]  # to be sent again
        assert len(page.texts("#messages-1 p")) == 2
        counted = json.dumps({"count": 1, "beginning": 0, "max_model_len": 96, "specials": []})
        opening = 'data: {"choices":[{"delta":{"content":""}}]}\n\ndata: {"error":{"message":"it broke"}}\n\n'
        page.run(f"window.fetch = async (path) => new Response(path === '/tokenize' ? {counted!r} : {opening!r})")
        page.run("document.getElementById('ask-1').requestSubmit()")
        idle(page)
        assert page.texts("#status-1") == ["The server stopped: it broke."]
        assert fields(page, ["message-1"]) == ["to be?"]
        assert page.run("playground.columns[0].messages.length") == 2
        empty = opening.partition('data: {"error')[0] + "data: [DONE]\n\n"
        page.run(f"window.fetch = async (path) => new Response(path === '/tokenize' ? {counted!r} : {empty!r})")
        page.run("document.getElementById('ask-1').requestSubmit()")
        idle(page)
        assert page.texts("#status-1") == ["The model gave no answer."]
        assert fields(page, ["message-1"]) == ["to be?"]


@needs_a_browser
def test_a_conversation_outlasts_a_look_at_the_text(browser: Browser, make_served: Callable[..., Served]) -> None:
    page, served = browser, make_served()
    served._rules.ends[:] = False  # so that no answer is empty

    def ask(message: str) -> int:
        page.run(f"document.getElementById('message-1').value = {message!r}")
        page.run("document.getElementById('ask-1').requestSubmit()")
        idle(page)
        return len(page.texts("#messages-1 p"))

    with serving([served]) as wire:
        open_at(page, wire)
        page.until("!document.getElementById('modes-1').hidden")
        fill(page, {"count-1": 4})
        click(page, "#as-chat-1")
        assert ask("to be?") == 2
        fill(page, {"temperature-1": 0.5})
        click(page, "#as-text-1")
        assert fields(page, ["temperature-1"]) == ["0.8"]
        click(page, "#as-chat-1")
        assert fields(page, ["temperature-1"]) == ["0.5"]
        assert ask("or?") == 4
        assert page.run("playground.columns[0].messages.length") == 4
        click(page, "#again-1")
        assert ask("to?") == 2
        assert page.run("playground.columns[0].messages.length") == 2
        page.run("playground.columns[0].choose()")  # another model has said nothing yet
        page.until("playground.columns[0].messages.length === 0")
        assert page.errors == []


@needs_a_browser
def test_a_model_that_was_not_taught_to_converse_writes_texts(
    browser: Browser, make_served: Callable[..., Served]
) -> None:
    page, served = browser, make_served()
    served.taught = False
    with serving([served]) as wire:
        open_at(page, wire)
        page.until("document.getElementById('rivals-1').children.length > 0")
        assert page.run("document.getElementById('modes-1').hidden")
        assert page.errors == []


@needs_a_browser
def test_it_writes_as_many_tokens_as_the_server_allows(browser: Browser, make_served: Callable[..., Served]) -> None:
    page, served = browser, make_served()
    served._rules.ends[:] = False  # so that the text does not end by itself
    with serving([served], max_tokens=5) as wire:
        open_at(page, wire)
        page.until("!document.getElementById('modes-1').hidden")
        fill(page, {"text-1": "to be", "count-1": 200, "temperature-1": 0})
        click(page, "#write-1")
        assert fields(page, ["text-1"])[0].rstrip("\ufffd") == by_api(wire, "to be", max_tokens=5, temperature=0)
        fill(page, {"count-1": 0})
        click(page, "#write-1")
        assert fields(page, ["count-1"]) == ["1"]
        assert page.texts("#status-1")[0].startswith("1 token, ")
        click(page, "#as-chat-1")
        page.run("document.getElementById('message-1').value = 'be?'")
        page.run("document.getElementById('ask-1').requestSubmit()")
        idle(page)
        assert page.texts("#status-1") == [""]
        assert len(page.texts("#messages-1 p")) == 2
        assert page.errors == []


@needs_a_browser
def test_the_help_is_there_while_a_column_shows_a_text(browser: Browser, make_served: Callable[..., Served]) -> None:
    page = browser

    def has_help() -> bool:
        return not page.run("document.getElementById('help').hidden")

    with serving([make_served()]) as wire:
        open_at(page, wire)
        page.until("!document.getElementById('modes-1').hidden")
        assert has_help()
        click(page, "#as-chat-1")
        assert not has_help()
        click(page, "#compare")
        page.until("!document.getElementById('modes-2').hidden")
        assert has_help()
        click(page, "#as-chat-2")
        assert not has_help()
        click(page, "#as-text-2")
        click(page, "#compare")
        assert not has_help()
        click(page, "#as-text-1")
        assert has_help()
        assert page.errors == []


@needs_a_browser
def test_a_conversation_that_no_longer_fits_goes_on_without_its_oldest_messages(
    browser: Browser, make_served: Callable[..., Served]
) -> None:
    page = browser

    def ask(message: str) -> str:
        page.run(f"document.getElementById('message-1').value = {message!r}")
        page.run("document.getElementById('ask-1').requestSubmit()")
        idle(page)
        return page.texts("#status-1")[0]

    with serving([make_served(capacity=96)]) as wire:
        open_at(page, wire)
        page.until("!document.getElementById('modes-1').hidden")
        fill(page, {"count-1": 30, "temperature-1": 0})
        click(page, "#as-chat-1")
        said = [ask(f"to be or not to be, number {number}?") for number in range(6)]
        assert said[0] == ""
        assert said[-1] == "The oldest messages were left out: they no longer fit."
        assert len(page.texts("#messages-1 p.user")) == 6  # the page shows them all
        assert page.run("playground.columns[0].messages.length") < 12
        long = "the question " * 60
        assert ask(long).startswith("The message fills the 96 tokens that a conversation may have here")
        assert fields(page, ["message-1"]) == [long]  # to be shortened
        assert ask("to be?") != ""
        assert page.errors == []


@needs_a_browser
def test_a_text_of_a_tokenizer_with_byte_fallback_stays_as_it_is(
    browser: Browser, make_served: Callable[..., Served]
) -> None:
    page, served = browser, make_served()
    served = dataclasses.replace(served, tokenizer=Tokenizer(byte_fallback.vocabulary()), form=None)
    with serving([served]) as wire:
        open_at(page, wire)
        page.until("!document.getElementById('columns').hidden")
        idle(page)
        for text in ("to be", " to be"):
            fill(page, {"text-1": text, "count-1": 5})
            page.run("playground.columns[0].edit()")
            page.until("playground.columns[0].tokens.length > 0")
            idle(page)
            assert fields(page, ["text-1"]) == [text]
        assert page.errors == []
