import gc

import pytest

from tests.tokenizer.templates.hostile import ENDLESS, HOSTILE
from tokenizer import TokenizerError
from tokenizer.templates import renderer
from tokenizer.templates.program import Bounds
from tokenizer.templates.renderer import Renderer

pytest.importorskip("jinja2")

HELLO = [{"role": "user", "content": "Hello"}]


def test_there_are_many_hostile_templates() -> None:
    assert len(HOSTILE) >= 60


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_template_is_refused_in_one_sentence(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "BOUNDS", Bounds(0.2, 64, 100_000))
    with pytest.raises(TokenizerError) as found:
        Renderer(HOSTILE[name], "the template in x").render(messages=HELLO)
    message = str(found.value)
    assert message.startswith(("the template in x is damaged: ", "the template in x refuses the messages: "))
    assert len(message) < 400
    assert message.isprintable()
    assert "broke down" not in message


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("{{ 1 / 0 }}", "x refuses the messages: ZeroDivisionError: division by zero"),
        ("{{ 'a' * 10 ** 10 }}", "x refuses the messages: it needs more than 512 MB of memory"),
        ("{{ 'a' * 10 ** 7 ~ 1 }}", "x refuses the messages: it writes 10,000,001 characters, more than 10,000,000"),
        (HOSTILE["a macro that calls itself"], "x refuses the messages: it is nested too deeply, or calls itself"),
        (HOSTILE["a refusal with escape sequences"], "x refuses the messages: \ufffd]0;owned\ufffd\ufffd[2J"),
    ],
)
def test_the_reason_is_named(source: str, reason: str) -> None:
    with pytest.raises(TokenizerError) as found:
        Renderer(source, "x").render(messages=HELLO)
    assert str(found.value).startswith(reason)


def test_time_is_bounded_and_the_next_question_is_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(renderer, "BOUNDS", Bounds(seconds=1))
    form = Renderer("{% if slow %}" + ENDLESS["loops in loops"] + "{% endif %}{{ name }}", "x")
    assert form.render(name="a\u2028\ud800") == "a\u2028\ud800"
    with pytest.raises(TokenizerError, match=r"x refuses the messages: it takes more than 1 seconds"):
        form.render(slow=True)
    monkeypatch.undo()
    assert form.render(name="b") == "b"


def test_the_process_ends_with_its_template() -> None:
    form = Renderer("{{ name }}", "x")
    process = form._process
    assert process is not None
    assert process.poll() is None
    del form
    gc.collect()
    assert process.returncode is not None
