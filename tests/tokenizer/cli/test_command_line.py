import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tokenizer import jit
from tokenizer.cli import commands

BAD = [
    (["trian"], "invalid choice: 'trian'"),
    ([], "arguments are required: train|encode|decode|show|compare"),
    (["train", "CORPUS", "--out", "NEW", "--vocba", "9"], "unknown flag '--vocba', did you mean --vocab?"),
    (["train", "CORPUS", "--out", "NEW", "--zzz"], "unknown flag '--zzz'; see python -m tokenizer train --help"),
    (["train", "CORPUS", "--out", "NEW", "--vocab", "many"], "whole number of at least 256, not 'many'"),
    (["train", "CORPUS", "--out", "NEW", "--vocab-size", "258"], "256 bytes and 5 special tokens need 261"),
    (["train", "CORPUS", "--out", "NEW", "--vocab-size", "99999999999"], "at most 16,777,216 can be used"),
    (["train", "CORPUS", "--out", "NEW", "--min-frequency", "0"], "at least 1, not '0'"),
    (["train", "CORPUS", "--out", "NEW", "--min-frequency", "1" + "0" * 20], "with at most 12 digits, not '1000"),
    (
        ["train", "CORPUS", "--out", "NEW", "--max-memory", "1"],
        "--max-memory: expected a whole number of at least 64, not",
    ),
    (["train", "CORPUS", "--out", "NEW", "--split", r"\\w+"], "Oniguruma, understands differently"),
    (["train", "CORPUS", "--out", "NEW", "--split", "gpt-2"], "unknown split 'gpt-2'"),
    (["train", "CORPUS", "--out", "NEW", "--split", ""], "unknown split '': expected one of gpt2"),
    (["train", "CORPUS", "--out", "NEW", "--special", "<a>", "--special", "<a>"], "named twice"),
    (["train", "CORPUS", "--out", "NEW", "--kind", "vidya-v1", "--nfc"], "--kind vidya-v1 takes no --nfc: leave out"),
    (["train", "CORPUS", "--out", "NEW", "--kind", "vidya-v1", "--vocab", "258"], "3 special tokens need 259"),
    (["train", "CORPUS", "--out", "NEW", "--format", "gguf"], "invalid choice: 'gguf'"),
    (["train", "CORPUS", "--out", "NEW", "--format", "gpt2", "--split", "gpt4"], "cannot store split='gpt4'"),
    (["train", "CORPUS", "--out", "NEW", "--errors", "ignore"], "invalid choice: 'ignore'"),
    (["train", "CORPUS", "--out", "TRAINED"], "trained exists already, and nothing is ever overwritten"),
    (["train", "CORPUS", "--out", "NEW", "--glob", "*.py"], "there is no text to learn from in"),
    (["train", "CORPUS/a.txt", "--out", "NEW", "--glob", "*.py"], "--glob '*.py' chooses among the files of a folder"),
    (["train", "CORPUS/.hidden", "--out", "NEW"], ".hidden: byte 0xff at position 0, in b'\\xff', is not UTF-8"),
    (["train", "CORPUS/.hidden", "--out", "NEW"], "; leave the file out, or replace such bytes: --errors replace."),
    (["train", "nowhere", "--out", "NEW"], "cannot read nowhere: there is no such file or folder"),
    (["train", "/dev/zero", "--out", "NEW"], "cannot read /dev/zero: it is a device, which may never end"),
    (["train", "CORPUS", "--out=--"], "--out cannot be --, which ends the flags"),
    (["encode"], "arguments are required: TOKENIZER;"),
    (["encode", "nowhere"], "nowhere is not a file or folder, nor a model that comes with minigrad (vidya-v2-"),
    (["encode", "TRAINED", "nowhere"], "cannot read nowhere: No such file"),
    (["encode", "TRAINED", "--allow-special", "<|ende|>"], "did you mean '<|end|>'?"),
    (["decode", "TRAINED", "CORPUS/a.txt"], "word 1 is b'to': expected token ids"),
    (["show", "TRAINED", "--html", "CORPUS/a.txt"], "a.txt exists already"),
    (["compare", "TRAINED", "--text", "-"], "there is no text to compare"),
    (["compare", "--text", "-"], "arguments are required: TOKENIZER"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD)
def test_bad_input_is_one_sentence_and_exit_code_2(run, corpus, trained, tmp_path, arguments, message):
    places = {"CORPUS": str(corpus), "TRAINED": trained[0], "NEW": str(tmp_path / "new")}
    for name, place in places.items():
        arguments = [argument.replace(name, place) for argument in arguments]
    code, out, errors = run(*arguments)
    assert (code, out) == (2, b"")
    assert message in errors
    assert errors.startswith("python -m tokenizer")
    assert errors.count("\n") == 1
    assert not (tmp_path / "new").exists()


def test_a_corrupt_tokenizer_is_named(run, trained):
    file = Path(trained[0]) / "tokenizer.json"
    with file.open("r+b") as opened:
        opened.truncate(1000)
    code, _, errors = run("encode", trained[0])
    assert code == 2
    assert "tokenizer.json is not JSON text, or is cut short" in errors


def test_faults_of_the_machine_are_exit_code_1_and_ctrl_c_130(run, trained, monkeypatch):
    too_long = OSError(errno.ENAMETOOLONG, "File name too long", "xxx")  # a name that the user gave
    full = OSError(errno.ENOSPC, "No space left on device", "a.json")
    for error, expected in [
        (full, 1),
        (too_long, 2),
        (OSError("x"), 1),
        (MemoryError(), 1),
        (KeyboardInterrupt(), 130),
    ]:

        def fail(_, error=error):
            raise error

        monkeypatch.setattr(commands, "show", fail)
        code, _, errors = run("show", trained[0])
        assert code == expected
        assert "Traceback" not in errors
        assert "Errno" not in errors


def test_ctrl_c_is_reported(run, trained, monkeypatch):
    monkeypatch.setattr(commands, "show", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    assert run("show", trained[0]) == (130, b"", "interrupted\n")


def test_a_path_of_5000_characters_is_bad_input(run, trained, corpus):
    for arguments in (
        ("encode", "x" * 5_000),
        ("encode", trained[0], "x" * 5_000),
        ("train", "x" * 5_000, "--out", "y"),
    ):
        code, _, errors = run(*arguments)
        assert code == 2
        assert "File name too long" in errors
    assert run("train", str(corpus), "--out", "x" * 5_000)[0] == 2


def test_a_reader_that_has_seen_enough_is_no_fault(trained):
    command = [sys.executable, "-m", "tokenizer", "encode", trained[0]]
    with subprocess.Popen(command, stdin=-1, stdout=-1, stderr=-1) as process:
        process.stdout.close()
        process.stdin.write(b"to be " * 100_000)
        process.stdin.close()
        errors = process.stderr.read()
        assert (process.wait(), errors) == (0, b"")


def test_help_names_every_command(run):
    code, out, _ = run("--help")
    assert code == 0
    assert all(command in out.decode() for command in ("train", "encode", "decode", "show", "compare"))
    assert all(run(command, "--help")[0] == 0 for command in ("train", "encode", "decode", "show", "compare"))


def test_a_character_that_the_output_lacks_is_replaced(trained):
    """The sign of a line end is no character of cp1252, the encoding of files on many Windows computers."""
    command = [sys.executable, "-m", "tokenizer", "show", trained[0]]
    environment = os.environ | {"PYTHONIOENCODING": "cp1252"}
    done = subprocess.run(command, input="to be\né 日".encode(), capture_output=True, env=environment, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.splitlines()[0] == b"to| be|?"


def test_a_cache_that_cannot_be_used_is_told_with_the_way_out(run, trained, monkeypatch):
    monkeypatch.setattr(jit, "FOLDER", None)
    code, _, errors = run("encode", trained[0], stdin=b"to be")
    assert code == 0
    assert errors.count("\n") == 1
    assert errors.endswith("set MINIGRAD_CACHE to a folder that can be written to\n")


def test_files_may_follow_flags(run, corpus, trained):
    """argparse takes the files of a command from one place alone."""
    file = str(corpus / "a.txt")
    for command, *flags in (["encode", "--document"], ["show", "--allow-special", "all"]):
        code, out, _ = after = run(command, trained[0], *flags, file)
        assert after == run(command, trained[0], file, *flags)
        assert (code, bool(out)) == (0, True)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no named pipes in folders")
def test_a_pipe_or_a_dangling_link_is_not_replaced(run, corpus, trained, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    for name in ("pipe", "link"):
        code, _, errors = run("show", trained[0], str(corpus / "a.txt"), "--html", str(tmp_path / name))
        assert (code, "exists already" in errors) == (2, True)
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()


@pytest.mark.skipif(os.name == "nt", reason="its shell closes no files")
def test_a_closed_standard_input_is_one_sentence(trained):
    command = f"{sys.executable} -m tokenizer encode {trained[0]} <&-"
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "python -m tokenizer encode: standard input is closed: name a file.\n"
