import io
import sys
from types import SimpleNamespace

import pytest

import tokenizer
from tokenizer.cli.command_line import main

TEXT = "to be or not to be, that is the question; é 日本\n" * 4


@pytest.fixture
def text():
    return TEXT


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "texts" / "deep").mkdir(parents=True)
    (tmp_path / "texts" / "a.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "texts" / "deep" / "b.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "texts" / ".hidden").write_bytes(b"\xff")
    return tmp_path / "texts"


@pytest.fixture
def trained(tmp_path):
    tok = tokenizer.train([TEXT], vocab_size=300)
    tok.save(tmp_path / "trained")
    return str(tmp_path / "trained"), tok


@pytest.fixture
def run(capfdbinary, monkeypatch):
    """Run a command line with some standard input; the exit code, the output and the errors."""

    def call(*arguments, stdin=b"", is_terminal=False):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin), isatty=lambda: is_terminal))
        capfdbinary.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        out, errors = capfdbinary.readouterr()
        return code, out, errors.decode()

    return call
