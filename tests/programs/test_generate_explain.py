"""generate.py --explain: a page about the text that was written, and clear words where there can be none."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import generate as program
import models
import tokenizer
from minigrad.generation import console


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, tok = tmp_path_factory.mktemp("run") / "vidya", tokenizer.train([], vocab_size=261)
    models.build("vidya-v2", "nano", vocab_size=261, num_layers=2).save(place)
    tok.save(place)
    return place


def refusal(capsys, folder, *arguments: object) -> str:
    assert program.main([str(folder), "--tokens", "3", *map(str, arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert re.fullmatch(r"generate\.py: .+\n", said.err)
    return said.err


def test_the_page_explains_the_text_that_was_printed(folder, capsys, tmp_path):
    page = tmp_path / "page.html"
    words = [str(folder), "--prompt", "to be", "--tokens", "9"]
    program.main(words)
    plain = capsys.readouterr()
    assert program.main([*words, "--explain", str(page)]) == 0
    said = capsys.readouterr()
    assert said.out == plain.out
    assert f"[{page} shows how this text came about; open it in a browser]" in said.err
    text = page.read_text(encoding="utf-8")
    assert "<title>How vidya wrote this</title>" in text
    assert "; the model wrote 9. Drawn with temperature 0.8, top-p 0.95, seed 0." in text
    given, written = re.findall(r"<p class=ribbon>(.*?)</p>", text)
    assert given.count("<span") > 1
    assert written.count("<span") == 9


def test_a_page_is_never_written_over_a_file(folder, capsys, tmp_path):
    page = tmp_path / "page.html"
    page.write_text("mine", encoding="utf-8")
    message = refusal(capsys, folder, "--explain", page)
    assert f"{page} exists and is not overwritten; delete it, or name another file" in message
    assert page.read_text(encoding="utf-8") == "mine"


def test_a_page_that_cannot_be_written_is_refused_before_the_model_is_loaded(folder, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(program, "load", None)
    assert "there is no folder" in refusal(capsys, folder, "--explain", tmp_path / "nowhere" / "page.html")
    assert "cannot write" in refusal(capsys, folder, "--explain", "x" * 300)
    two = ("--prompt", "a", "--prompt", "b")
    assert "give one prompt" in refusal(capsys, folder, "--explain", tmp_path / "a.html", *two)
    assert "leave out --samples" in refusal(capsys, folder, "--explain", tmp_path / "a.html", "--samples", 2)
    assert "leave out --chat" in refusal(capsys, folder, "--explain", tmp_path / "a.html", "--chat", "--prompt", "a")
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert "may not be written to" in refusal(capsys, folder, "--explain", tmp_path / "a.html")


def stopped_after(tokens: int, error: type[BaseException]) -> Callable[..., Iterator[tuple[int, str, bool]]]:
    """Return a twin of `console.in_turn` that stops after some parts of the text."""
    whole = console.in_turn

    def in_turn(*arguments: Any) -> Iterator[tuple[int, str, bool]]:
        yield from itertools.islice(whole(*arguments), tokens)
        raise error

    return in_turn


def test_ctrl_c_ends_the_text_and_the_page_shows_what_was_drawn(folder, capsys, tmp_path, monkeypatch):
    page = tmp_path / "page.html"
    with monkeypatch.context() as patch:
        patch.setattr(program.console, "in_turn", stopped_after(4, KeyboardInterrupt))
        assert program.main([str(folder), "--tokens", "9", "--explain", str(page)]) == 130
    assert capsys.readouterr().err.endswith("interrupted\n")
    assert "; the model wrote 4." in page.read_text(encoding="utf-8")


@pytest.mark.parametrize("parts", [0, 4])
def test_a_closed_pipe_ends_the_text_and_the_page_shows_what_was_drawn(folder, tmp_path, monkeypatch, parts):
    page, printed = tmp_path / "page.html", list[str]()

    def say(text: str = "", *_: object, **__: object) -> None:
        printed.append(text)
        if len(printed) > parts:
            raise BrokenPipeError

    with monkeypatch.context() as patch:
        patch.setattr(program, "say", say)
        patch.setattr(program, "notice", lambda text: None)
        patch.setattr(program, "close_output", lambda: None)
        assert program.main([str(folder), "--prompt", "to be", "--tokens", "9", "--explain", str(page)]) == 0
    assert f"; the model wrote {parts}." in page.read_text(encoding="utf-8")


def test_a_disk_that_fills_up_is_a_fault_and_the_text_was_printed(folder, capsys, tmp_path, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", fail)
    page = tmp_path / "page.html"
    assert program.main([str(folder), "--prompt", "to be", "--tokens", "3", "--explain", str(page)]) == 1
    said = capsys.readouterr()
    assert said.out.startswith("to be")
    assert f"generate.py: cannot write {page}: No space left on device" in said.err
    assert not page.exists()
