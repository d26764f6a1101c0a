"""The page with the model, as a reader uses it: writing, editing, branches, settings, heads and conversations."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import generate as program
import models
import tokenizer
from minigrad import generation
from minigrad.nn.language_model import LanguageModel
from minigrad.quantised import quantise
from tests.browser import Browser, needs_a_browser, started
from tokenizer import Tokenizer

pytestmark = needs_a_browser

PROMPT = "to <b>be</b> & or\n"


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("browser") / "profile") as browser:
        yield browser


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, tok = tmp_path_factory.mktemp("run") / "run", tokenizer.train([PROMPT * 20], vocab_size=270)
    models.build("vidya-v2", "nano", vocab_size=270, num_layers=2, context_length=128, init_std=0.3).save(place)
    tok.save(place)
    (place / "minigrad.json").write_text('{"settings": {"objective": "sft"}, "chosen": {}}', encoding="utf-8")
    return place


@pytest.fixture(scope="module")
def file(folder: Path) -> Path:
    page = folder.parent / "page.html"
    settings = ["--prompt", PROMPT, "--tokens", "30", "--temperature", "0"]
    assert program.main([str(folder), "--page", str(page), *settings]) == 0
    return page


@pytest.fixture(scope="module")
def loaded(folder: Path) -> tuple[LanguageModel, Tokenizer]:
    model, tok = models.load(folder), tokenizer.load(folder)
    quantise(model, "float16")
    return model, tok


@pytest.fixture
def page(browser: Browser, file: Path) -> Iterator[Browser]:
    browser.resize(1280)
    browser.call("Page.navigate", url="about:blank")
    browser.open(file)
    idle(browser)
    yield browser
    assert browser.errors == []
    assert browser.requests == [file.resolve().as_uri()]


def idle(browser: Browser) -> None:
    browser.until("!view.isBusy && !view.left")


def click(page: Browser, which: str) -> None:
    page.run(f"document.querySelector({which!r}).click()")
    idle(page)


def by_python(loaded: Any, prompt: str, tokens: int) -> str:
    """Return a text without carriage returns, which a field removes, and an unfinished character at its end."""
    return generation.write(*loaded, prompt, temperature=0, tokens=tokens).replace("\r", "").rstrip("\ufffd")


def text_of(page: Browser) -> str:
    text: str = page.run("document.getElementById('text').value")
    return text.rstrip("\ufffd")


def caret(page: Browser, place: int) -> None:
    page.run(
        f"(() => {{ const t = document.getElementById('text'); t.focus(); t.setSelectionRange({place}, {place}); }})()"
    )
    page.until(f"document.getElementById('text').selectionStart === {place}")


def test_it_writes_what_python_writes_and_can_be_written_on(page: Browser, loaded: Any) -> None:
    click(page, "#write")
    assert text_of(page) == by_python(loaded, PROMPT, 30)
    shown = page.run("document.getElementById('text').value")  # bytes that are no character are shown as U+FFFD
    click(page, "#write")
    assert text_of(page) == by_python(loaded, shown, 30)
    assert "".join(page.texts("#paper span")).rstrip("\ufffd") == text_of(page)
    assert page.run("document.querySelectorAll('#paper b').length") == 0  # markup in a text is text
    click(page, "#undo")
    click(page, "#undo")
    assert text_of(page) == PROMPT


@pytest.mark.parametrize("count", ["0", "", "-3"])
def test_it_writes_at_least_one_token_and_the_field_says_so(page: Browser, count: str) -> None:
    page.run(f"document.getElementById('count').value = {count!r}")
    click(page, "#write")
    assert page.run("document.getElementById('count').value") == "1"
    assert page.texts("#status")[0].startswith("1 token, ")
    page.until("location.hash.includes('count=1&')")


def test_it_writes_on_from_the_cursor(page: Browser, loaded: Any) -> None:
    click(page, "#write")
    assert page.texts("#write") == ["Continue"]
    before = text_of(page)
    caret(page, 7)
    page.until("document.getElementById('write').textContent === 'Continue from here'")
    click(page, "#write")
    assert text_of(page) == by_python(loaded, PROMPT[:7], 30) != before
    click(page, "#undo")
    assert text_of(page) == before


def test_it_is_read_and_written_with_keys_alone(page: Browser, loaded: Any) -> None:
    page.run("document.getElementById('text').focus()")
    page.call("Input.insertText", text="")
    page.run("document.getElementById('text').setSelectionRange(999, 999)")
    page.call("Input.insertText", text=" é🙂")
    idle(page)
    _, tok = loaded
    assert page.run("view.reader.ids") == [tok.end_of_text_id, *tok.encode(PROMPT + " é🙂")]
    for kind in ("rawKeyDown", "keyUp"):
        page.call("Input.dispatchKeyEvent", type=kind, key="Enter", code="Enter", windowsVirtualKeyCode=13, modifiers=2)
    idle(page)
    assert text_of(page) == by_python(loaded, PROMPT + " é🙂", 30)


def test_a_rival_takes_another_branch(page: Browser, loaded: Any) -> None:
    click(page, "#write")
    before = text_of(page)
    caret(page, len(PROMPT) + 2)
    page.until("document.getElementById('here').textContent.startsWith('Here is ')")
    place = page.run("view.place")
    begun = page.run(f"view.pieces.slice(0, {place}).join('')")
    assert page.run("document.querySelector('#rivals .chosen .share').textContent") == "100%"
    page.run("document.getElementById('temperature').value = 1")
    page.run("document.getElementById('temperature').dispatchEvent(new Event('input'))")
    other = "#rivals button:not(.chosen, :disabled)"  # a part of a character cannot be taken
    name = page.run(f"document.querySelector({other!r}).querySelector('.name').textContent")
    click(page, other)
    assert page.run("view.reader.ids.length") == place + 1
    assert page.run("view.words.name(view.reader.ids.at(-1))") == name
    assert text_of(page).startswith(begun.rstrip("\ufffd"))  # a character that is not complete yet
    click(page, "#undo")
    assert text_of(page) == before


def test_settings_show_their_effect_on_the_distribution(page: Browser) -> None:
    def shares() -> list[str]:
        return page.texts("#rivals .share")

    assert shares()[:2] == ["100%", "cut"]  # temperature 0
    for name, value in (("temperature", 1), ("top-p", 1), ("top-k", 3)):
        page.run(f"document.getElementById('{name}').value = {value}")
        page.run(f"document.getElementById('{name}').dispatchEvent(new Event('input'))")
    assert [share == "cut" for share in shares()] == [False] * 3 + [True] * 7
    assert page.run("document.getElementById('top-k-value').textContent") == "3"
    assert page.run("document.getElementById('top-p-value').textContent") == "off"


def test_a_link_repeats_the_text_and_the_draws(page: Browser, file: Path) -> None:
    page.run("document.getElementById('temperature').value = 1.5; document.getElementById('seed').value = 7")
    click(page, "#write")
    written = text_of(page)
    page.until("location.hash.includes('seed=7')")
    link = page.run("location.hash")
    page.call("Page.navigate", url="about:blank")
    page.open(file)
    page.run(f"location.hash = {link!r}")
    idle(page)
    page.until("document.getElementById('seed').value === '7'")
    idle(page)
    assert text_of(page) == PROMPT
    click(page, "#write")
    assert text_of(page) == written != PROMPT


def test_layers_and_heads_are_shown_where_one_points(page: Browser) -> None:
    names = page.texts("#layers .name")
    assert len(names) == 3
    assert page.texts("#rivals .name")[0] == names[-1]
    click(page, "#heads div:nth-child(2) button:nth-child(2)")
    assert page.texts("#heads [aria-pressed=true]") == ["2.2"]
    x, y = page.run("""(() => { const box = document.querySelectorAll('#paper span')[2].getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2]; })()""")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    name = page.run("view.words.name(view.reader.ids[2])")
    page.until(f"document.getElementById('reads').textContent.startsWith({name + ' reads: '!r})")
    strengths = page.run("[...document.querySelectorAll('#paper span')].map((each) => Number(each.strength))")
    assert max(strengths) == 1
    assert not any(strengths[3:])


def test_a_conversation_is_that_of_python(page: Browser, loaded: Any) -> None:
    model, tok = loaded
    click(page, "#as-chat")
    messages: list[dict[str, str]] = []
    for question in ("be <i>or</i>?", "to"):
        page.run(f"document.getElementById('message').value = {question!r}")
        page.run("document.getElementById('ask').requestSubmit()")
        idle(page)
        messages.append({"role": "user", "content": question})
        ids = tokenizer.encode_chat(tok, messages[-1:], add_generation_prompt=True) if len(messages) == 1 else None
        if ids is not None:
            expected = "".join(t.text for t in generation.stream(model, ids, tokenizer=tok, temperature=0, tokens=30))
            expected = expected.replace("\r", "").rstrip("\ufffd")
            assert page.texts("#messages .assistant")[0].rstrip("\ufffd") == expected
    assert page.texts("#messages .user") == ["be <i>or</i>?", "to"]
    assert len(page.texts("#messages .assistant")) == 2
    click(page, "#as-text")
    assert text_of(page) == PROMPT


def test_a_conversation_outlasts_a_look_at_the_text(page: Browser) -> None:
    def ask(question: str) -> None:
        page.run(f"document.getElementById('message').value = {question!r}")
        page.run("document.getElementById('ask').requestSubmit()")
        idle(page)

    def shown() -> list[Any]:
        return [len(page.texts("#messages p")), page.run("document.getElementById('layers').rows.length > 0")]

    click(page, "#as-chat")
    assert shown() == [0, False]  # the text that is hidden is not looked into
    ask("to be?")
    assert shown() == [2, True]
    click(page, "#as-text")
    click(page, "#as-chat")
    assert shown() == [2, False]
    ask("or?")
    assert page.run("view.messages.map((each) => each.role)") == ["user", "assistant"] * 2
    click(page, "#again")
    assert shown() == [0, False]
    ask("to?")
    assert page.run("view.messages.map((each) => each.role)") == ["user", "assistant"]
    assert page.errors == []


@pytest.mark.parametrize("end", ["document.getElementById('as-text').click()", "form.requestSubmit()"])
def test_a_question_that_is_interrupted_before_its_answer_is_not_lost(page: Browser, end: str) -> None:
    click(page, "#as-chat")
    form = "const form = document.getElementById('ask')"
    page.run("view.work = () => {}")  # as if the question took long to read
    page.run(f"(() => {{ {form}; form.message.value = 'to be?'; form.requestSubmit(); {end}; }})()")
    page.run("document.getElementById('as-chat').click()")
    assert page.run("document.getElementById('message').value") == "to be?"
    assert page.run("view.messages.length") == len(page.texts("#messages p")) == 0
    assert page.errors == []


def test_a_text_and_its_settings_outlast_a_conversation(page: Browser) -> None:
    click(page, "#write")
    written = text_of(page)
    click(page, "#heads div:nth-child(2) button:nth-child(2)")
    click(page, "#as-chat")
    page.run("document.getElementById('message').value = 'to be?'")
    page.run("document.getElementById('ask').requestSubmit()")
    idle(page)
    page.run("document.getElementById('seed').value = 9")
    click(page, "#as-text")
    assert text_of(page) == written != PROMPT
    assert page.run("document.getElementById('seed').value") == "9"
    page.until("location.hash.includes('seed=9')")
    assert page.texts("#heads [aria-pressed=true]") == ["2.2"]
    click(page, "#undo")
    assert text_of(page) == PROMPT


def test_a_text_that_becomes_short_again_is_read_whole(page: Browser) -> None:
    page.run(f"view.edit({'0123456789' * 15!r})")
    idle(page)
    assert page.run("view.reader.start") > 0  # the text is longer than the context
    place = page.run("view.reader.start") + 2
    page.run(f"view.change(view.reader.ids.slice(0, {place}))")
    idle(page)
    assert page.run("[view.reader.start, view.reader.machine.length]") == [0, place]


def test_a_link_during_a_conversation_shows_its_text_afterwards(page: Browser) -> None:
    click(page, "#as-chat")
    page.run("document.getElementById('message').value = 'to be?'")
    page.run("document.getElementById('ask').requestSubmit()")
    idle(page)
    answered = page.texts("#messages .assistant")
    page.run("location.hash = '#text=or&seed=5'")
    page.until("document.getElementById('seed').value === '5'")
    assert page.texts("#messages .assistant") == answered
    ends = page.run("[...view.ends]")
    before = page.run("view.reader.ids.length")
    page.run(f"view.take({ends[0]})")
    idle(page)
    assert page.run("view.reader.ids.length") == before + 1  # nothing follows the end of an answer
    click(page, "#as-text")
    assert text_of(page) == "or"


def test_a_new_text_ends_the_old_one_and_its_link(page: Browser) -> None:
    page.run("document.getElementById('write').click(); document.getElementById('new').click()")
    idle(page)
    assert (text_of(page), page.texts("#status")) == ("", [""])
    page.until("location.hash.endsWith('text=')")
    click(page, "#undo")
    assert text_of(page).startswith(PROMPT)


@pytest.mark.parametrize("width", [360, 1280])
def test_nothing_is_wider_than_the_page(page: Browser, width: int) -> None:
    page.resize(width, phone=width < 600)
    click(page, "#write")
    assert page.run("document.documentElement.scrollWidth") <= width


def test_every_control_has_a_name(page: Browser) -> None:
    unnamed = """[...document.querySelectorAll('button, input, textarea')].filter((each) => !each.textContent.trim()
        && !each.getAttribute('aria-label') && !each.labels?.length).map((each) => each.outerHTML)"""
    assert page.run(unnamed) == []
