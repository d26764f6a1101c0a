"""generate.py --chat as a user runs it: a model that was taught two answers gives them, and ends its turns."""

from __future__ import annotations

import io
import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

import generate as program
import models
import tokenizer
from minigrad import optim
from minigrad.generation.continuation import Token
from minigrad.generation.settings import Sampling

TEACHING = (("hi", "hello"), ("bye", "see you"))
Say = Callable[..., str]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run folder whose model knows one conversation by heart."""
    place = tmp_path_factory.mktemp("chat") / "run"
    tok = tokenizer.train([], vocab_size=261)
    shape = {"num_layers": 2, "width": 32, "head_dim": 16, "feed_forward": 64}
    model = models.build("vidya-v2", "nano", vocab_size=261, context_length=64, num_heads=2, num_kv_heads=1, **shape)
    messages = [
        {"role": role, "content": content}
        for pair in TEACHING
        for role, content in zip(("user", "assistant"), pair, strict=True)
    ]
    ids = np.array([tokenizer.encode_chat(tok, messages)])
    optimizer = optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        model.loss(ids[:, :-1], ids[:, 1:]).backward()
        optimizer.step()
    model.save(place)
    tok.save(place)
    return place


@pytest.fixture
def say(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Say:
    def say(data: str | bytes, *words: object, code: int = 0) -> str:
        data = data.encode() if isinstance(data, str) else data
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        capsys.readouterr()
        assert program.main([str(folder), "--chat", "--temperature", "0", *map(str, words)]) == code
        return capsys.readouterr().out

    return say


def test_each_line_is_answered_and_the_special_token_ends_the_turn(say: Say) -> None:
    assert say("hi\nbye\n") == "hello\nsee you\n"
    assert say("bye", "--prompt", "hi") == "hello\nsee you\n"
    assert say("", "--prompt", "hi", "--prompt", "bye") == "hello\nsee you\n"
    assert say("hi", "--prompt", "-") == "hello\n"
    assert say("") == ""


def test_reset_and_save(say: Say, tmp_path: Path) -> None:
    file = tmp_path / "talk.jsonl"
    assert say(f"bye\n/reset\nhi\n/save {file}\n/exit\nhi\n").endswith("hello\n")
    saved = json.loads(file.read_text(encoding="utf-8"))
    assert saved == {"messages": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]}


def test_ctrl_c_ends_an_answer_and_the_next_line_is_answered(
    say: Say, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    presses = iter([signal.SIGINT])  # one, while the first answer is written

    def watched(tokens: Iterator[Token], *_: object) -> Iterator[Token]:
        for token in tokens:
            yield token
            if token.text == "l":
                for press in presses:
                    signal.raise_signal(press)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in the background jobs of a shell
    monkeypatch.setattr(program, "watched", watched)
    try:
        assert say(f"hi\n/save {tmp_path / 'talk'}\n/reset\nhi\n") == "hell\nhello\n"
    finally:
        signal.signal(signal.SIGINT, before)
    saved = json.loads((tmp_path / "talk").read_text(encoding="utf-8"))
    assert saved["messages"][1] == {"role": "assistant", "content": "hell"}


def test_a_long_conversation_goes_on_within_the_context(say: Say, capsys: pytest.CaptureFixture[str]) -> None:
    said = say("hi\n" * 12, "--tokens", 8)
    assert len(said.splitlines()) >= 12


def test_remarks_and_speed_are_on_standard_error_only(folder, capsys, monkeypatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hi\n/help\n")))
    program.main([str(folder), "--chat", "--temperature", "0", "--tokens", "3"])
    said = capsys.readouterr()
    assert said.out == "hel\n"
    assert "[the answer was cut: it reached --tokens]" in said.err
    assert re.search(r"\[3 tokens, [\d,]+ tokens/s, after", said.err)
    assert "/reset begins anew" in said.err


@pytest.mark.parametrize(("objective", "warns"), [(None, True), ("distill", True), ("sft", False), ("grpo", False)])
def test_a_model_that_was_never_taught_a_conversation_is_mentioned(
    folder: Path, capsys, monkeypatch, objective: str | None, warns: bool
) -> None:
    assert "never taught" not in chat_remarks(folder, capsys, monkeypatch)  # a folder that no run wrote
    write_record(folder, objective=objective)
    said = chat_remarks(folder, capsys, monkeypatch)
    (folder / "minigrad.json").unlink()
    assert (f"[{folder} learned from text alone and was never taught a conversation" in said) == warns


def test_a_model_that_began_from_a_taught_one_is_not_called_untaught(
    folder: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    write_record(tmp_path, objective="sft")
    write_record(folder, init=str(tmp_path))
    said = chat_remarks(folder, capsys, monkeypatch)
    (folder / "minigrad.json").unlink()
    assert "never taught" not in said


def test_a_student_that_learned_text_from_a_taught_model_is_called_untaught(
    folder: Path, tmp_path: Path, capsys, monkeypatch
) -> None:
    for name, settings in {
        "taught": {"objective": "sft"},
        "student": {"objective": "distill", "teacher": str(tmp_path / "taught")},
    }.items():
        (tmp_path / name).mkdir()
        write_record(tmp_path / name, **settings)
    write_record(folder, init=str(tmp_path / "student"))
    said = chat_remarks(folder, capsys, monkeypatch)
    (folder / "minigrad.json").unlink()
    assert "never taught" in said


def test_a_taught_model_takes_the_most_likely_tokens_unless_a_flag_says_how_to_draw(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    temperatures: list[float] = []
    monkeypatch.setattr(
        program, "chat", lambda config: temperatures.append(config.temperature) or (text for text in ())
    )

    def talk(*words: str) -> float:
        assert program.main([str(folder), "--chat", *words]) == 0
        return temperatures.pop()

    usual = Sampling().temperature
    assert talk() == usual  # of a model that no run taught
    write_record(folder, objective="sft")
    found = talk(), talk("--tokens", "9"), talk("--seed", "1"), talk("--temperature", "0.5")
    for given in ({}, {"seed": 1}, {"temperature": 0.5}):  # and in Python
        list(program.write(program.GenerateConfig(run=str(folder), chat=True, **given)))
    (folder / "minigrad.json").unlink()
    assert found == (0, 0, usual, 0.5)
    assert temperatures == [0, usual, 0.5]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"\x1f\x8b\x08 as if it were compressed", "minigrad.json is damaged"),
        (b'{"settings": {"objective": "sft"', "minigrad.json is damaged"),
        (b"[1]", "minigrad.json is damaged"),
        (b'{"settings": [1]}', "minigrad.json has no settings: it was not written by train.py"),
    ],
)
def test_a_damaged_record_is_refused_in_one_sentence(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], content: bytes, why: str
) -> None:
    (folder / "minigrad.json").write_bytes(content)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"hi")))
    found = program.main([str(folder), "--chat"])
    (folder / "minigrad.json").unlink()
    said = capsys.readouterr()
    assert (found, said.out) == (2, "")
    assert why in said.err


def write_record(folder: Path, **settings: str | None) -> None:
    (folder / "minigrad.json").write_text(json.dumps({"settings": settings, "chosen": {}}), encoding="utf-8")


def chat_remarks(folder: Path, capsys, monkeypatch) -> str:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
    assert program.main([str(folder), "--chat"]) == 0
    return capsys.readouterr().err


def test_what_cannot_be_is_refused(say: Say, capsys, folder: Path, tmp_path: Path) -> None:
    for words in (["--samples", "2"], ["--chat=yes"]):
        assert program.main([str(folder), "--chat", *words]) == 2
    assert "--chat writes one answer to each message; leave out --samples" in capsys.readouterr().err
    say(b"caf\xff\n", code=2)
    other = tmp_path / "other"
    models.load(folder).save(other)
    tokenizer.train([], vocab_size=257, special_tokens=["<|endoftext|>"]).save(other)
    assert program.main([str(other), "--chat"]) == 2
    assert "holds no chat model: it has no chat template" in capsys.readouterr().err
