import os
import re
import sys
from pathlib import Path

import pytest

import tokenizer
from tokenizer import vidya_v1
from tokenizer.cli import commands


def test_train_prints_the_hash_of_what_it_writes(run, corpus, tmp_path, text):
    code, out, errors = run("train", corpus, "--out", tmp_path / "new", "--vocab-size", 280)
    assert (code, errors) == (0, "")
    loaded = tokenizer.load(tmp_path / "new")
    assert loaded.fingerprint() == tokenizer.train([text, text], vocab_size=280).fingerprint()
    assert out.decode().splitlines() == [
        re.sub(r"in [\d.]+ s", lambda _: re.search(r"in [\d.]+ s", out.decode()).group(), line)
        for line in [
            f"19 merges learned from 2 files, {2 * len(text.encode())} bytes, in 0.0 s",
            f"280 of 280 ids used, written to {tmp_path / 'new'}",
            f"hash {loaded.fingerprint()}",
        ]
    ]


def test_trains_flags_reach_the_trainer(run, corpus, tmp_path, text):
    flags = ["--split", "gpt4", "--min-frequency", 3, "--special", "<a>", "--special", "<b>", "--nfc", "--threads", 1]
    assert run("train", corpus / "a.txt", "--out", tmp_path / "new", "--vocab-size", 290, *flags)[0] == 0
    expected = tokenizer.train(
        [text], vocab_size=290, split="gpt4", min_frequency=3, special_tokens=["<a>", "<b>"], nfc=True
    )
    assert tokenizer.load(tmp_path / "new").fingerprint() == expected.fingerprint()


def test_a_tokenizer_of_another_kind_is_trained_on_lines(run, corpus, tmp_path, text):
    assert run("train", corpus, "--out", tmp_path / "new", "--vocab", 270, "--kind", "vidya-v1")[0] == 0
    assert tokenizer.load(tmp_path / "new").vocabulary == vidya_v1.train(text.splitlines() * 2, 11).vocabulary


def test_a_folder_that_cannot_be_read_is_refused_unless_it_is_hidden(run, corpus, tmp_path, monkeypatch):
    for name in ("closed", ".closed"):
        (tmp_path / "texts" / name).mkdir(parents=True)
    (tmp_path / "texts" / "a.txt").write_bytes((corpus / "a.txt").read_bytes())
    closed, scan = {".closed"}, os.scandir

    def refuse(path):
        if Path(path).name in closed:
            raise PermissionError(13, "Permission denied", str(path))
        return scan(path)

    monkeypatch.setattr(os, "scandir", refuse)
    assert run("train", tmp_path / "texts", "--out", tmp_path / "new", "--vocab-size", 280)[0] == 0
    closed.add("closed")
    code, _, errors = run("train", tmp_path / "texts", "--out", tmp_path / "other", "--vocab-size", 280)
    assert code == 2
    assert f"cannot read {tmp_path / 'texts' / 'closed'}: Permission denied." in errors


@pytest.mark.parametrize("command", ["encode", "decode", "show"])
def test_a_terminal_is_asked_for_the_input(run, trained, command):
    code, out, errors = run(command, trained[0], stdin=b"65", is_terminal=True)
    assert code == 0
    assert errors.startswith("[type the input, then end it with Ctrl-")
    assert run(command, trained[0], stdin=b"65") == (0, out, "")


def test_large_files_are_read_in_parts_of_whole_lines(run, corpus, tmp_path, monkeypatch, text):
    monkeypatch.setattr(commands, "READ_SIZE", 60)
    assert run("train", corpus, "--out", tmp_path / "new", "--vocab-size", 280)[0] == 0
    lines = text.splitlines(keepends=True) * 2
    assert tokenizer.load(tmp_path / "new").fingerprint() == tokenizer.train(lines, vocab_size=280).fingerprint()


def test_a_broken_byte_is_named_with_its_position_in_the_file(run, tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "READ_SIZE", 60)
    path = tmp_path / "big.txt"
    path.write_bytes(b"nine here\n" * 20 + b"four\xff\n")
    code, _, errors = run("train", path, "--out", tmp_path / "new", "--vocab-size", 280)
    assert code == 2
    assert "big.txt: byte 0xff at position 204, in" in errors


@pytest.mark.parametrize(
    ("format", "name", "file"),
    [("gpt2", "new", "merges.txt"), ("tiktoken", "new.tiktoken", ""), ("huggingface", "new", "tokenizer.json")],
)
def test_train_writes_every_format(run, corpus, tmp_path, format, name, file):
    target = tmp_path / name
    assert run("train", corpus, "--out", target, "--vocab-size", 280, "--format", format)[0] == 0
    assert (target / file).is_file()


@pytest.mark.parametrize(
    ("name", "flags", "message"),
    [
        ("new", ["--format", "gpt2", "--split", "gpt4"], "cannot store split='gpt4'"),
        ("new", ["--format", "gpt2", "--kind", "vidya-v1"], "cannot store"),
        ("new.tiktoken", ["--nfc"], "cannot store NFC"),
        ("new.tiktoken", ["--kind", "vidya-v1"], "cannot store tokens around every document"),
        ("new", ["--format", "tiktoken"], "names of rank files, and no others, end in .tiktoken"),
        ("new.tiktoken", ["--format", "huggingface"], "names of rank files, and no others, end in .tiktoken"),
        ("new.json", ["--format", "gpt2"], "which is a folder of two files"),
        ("vocab.json", [], "files of this name belong to the format gpt2. Choose another name, or name a folder"),
        ("merges.txt", [], "files of this name belong to the format gpt2"),
        ("new.tiktoken", ["--special", "<a>"], "contains no special tokens: leave out --special, or choose another"),
        ("texts/a.txt/new", [], "texts/a.txt/new: Not a directory: "),
        ("link/new", [], "link/new: No such file or directory: "),
    ],
)
def test_what_cannot_be_written_is_refused_before_training(run, corpus, tmp_path, monkeypatch, name, flags, message):
    monkeypatch.setattr(commands, "_texts", None)  # nothing is read
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    code, _, errors = run("train", corpus, "--out", tmp_path / name, "--vocab-size", 280, *flags)
    assert (code, (tmp_path / name).exists()) == (2, False)
    assert message in errors


def test_an_empty_folder_may_become_a_tokenizer_and_no_file(run, corpus, tmp_path, trained, monkeypatch):
    for name in ("new", "new.json", "new.tiktoken", "page.html"):
        (tmp_path / name).mkdir()
    assert run("train", corpus, "--out", tmp_path / "new", "--vocab-size", 280)[::2] == (0, "")
    monkeypatch.setattr(commands, "_texts", None)  # nothing is read
    monkeypatch.setattr(commands, "_inputs", None)
    for command in (
        ("train", corpus, "--out", tmp_path / "new.json"),
        ("train", corpus, "--out", tmp_path / "new.tiktoken"),
        ("show", trained[0], corpus / "a.txt", "--html", tmp_path / "page.html"),
    ):
        code, _, errors = run(*command)
        assert (code, errors.count("exists already, and nothing is ever overwritten")) == (2, 1)


def test_train_counts_a_single_file_in_the_singular(run, corpus, tmp_path):
    out = run("train", corpus / "a.txt", "--out", tmp_path / "new", "--vocab-size", 280)[1]
    assert b"19 merges learned from 1 file, " in out


def test_a_rank_file_is_loaded_with_the_split_that_train_names(run, corpus, tmp_path):
    target = tmp_path / "new.tiktoken"
    flags = ["--vocab-size", 300, "--split", "gpt4"]
    *_, hashed, told = run("train", corpus, "--out", target, *flags)[1].decode().splitlines()
    assert hashed == f"hash {tokenizer.load(target, split='gpt4').fingerprint()}"
    split = told.partition("commands that load it need ")[2].split()
    assert split == ["--split", "gpt4"]
    assert run("encode", target, *split, stdin=b"to be")[0] == 0
    code, _, errors = run("encode", target, stdin=b"to be")
    assert code == 2
    assert "load it with the name of a split, as in --split gpt4 of python -m tokenizer" in errors
    assert "unknown split ''" in run("encode", target, "--split", "", stdin=b"to be")[2]


@pytest.mark.parametrize("command", ["encode", "decode", "show"])
def test_a_split_is_for_rank_files(run, trained, command):
    code, _, errors = run(command, trained[0], "--split", "gpt4", stdin=b"1")
    assert code == 2
    assert "contains its split" in errors


def test_encode_and_decode_are_each_others_inverse(run, trained, text):
    path, tok = trained
    data = text.encode() + b"\xff\x00<|end|>"
    code, ids, _ = run("encode", path, stdin=data)
    assert (code, ids) == (0, b" ".join(b"%d" % number for number in tok.encode_bytes(data)) + b"\n")
    assert run("decode", path, stdin=ids) == (0, data, "")


def test_files_are_encoded_one_a_line(run, trained, tmp_path):
    path, tok = trained
    (tmp_path / "a").write_text("to be", encoding="utf-8")
    (tmp_path / "b").write_text("<|end|>", encoding="utf-8")
    _, out, _ = run("encode", path, tmp_path / "a", "-", tmp_path / "b", stdin=b"or")
    rows = [[int(word) for word in line.split()] for line in out.splitlines()]
    assert rows == [tok.encode("to be"), tok.encode("or"), tok.encode("<|end|>")]


@pytest.mark.parametrize(("name", "plain"), [("all", "<|x|>"), ("<|end|>", "<|user|>"), ("<|user|>", "<|end|>")])
def test_special_tokens_are_allowed_by_name(run, trained, name, plain):
    path, tok = trained
    text = "<|end|> <|user|>" if name == "all" else f"{name} {plain}"
    _, out, _ = run("encode", path, "--allow-special", name, stdin=text.encode())
    assert [int(word) for word in out.split()] == tok.encode(text, allow_special=name == "all" or [name])


def test_a_document_gets_its_borders(run, tmp_path, text):
    vidya_v1.train([text], 5).save(tmp_path)
    _, out, _ = run("encode", tmp_path, "--document", stdin=b"to")
    assert run("decode", tmp_path, stdin=out)[1] == b"<BOS>to<BOS>"


def test_compare_prints_a_row_for_each(run, trained, tmp_path, text):
    path, tok = trained
    (tmp_path / "text").write_text(text, encoding="utf-8")
    tokenizer.train([], vocab_size=261).save(tmp_path / "bytes.json")
    code, out, _ = run("compare", path, tmp_path / "bytes.json", "--text", tmp_path / "text")
    lines = out.decode().splitlines()
    size, words, tokens = len(text.encode()), len(text.split()), len(tok.encode(text))
    assert code == 0
    assert lines[0] == f"{size:,} bytes, {words:,} words"
    assert lines[2].split()[:5] == [path, "300", f"{tokens}", f"{size / tokens:.2f}*", f"{tokens / words:.2f}*"]
    assert lines[3].split()[1:5] == ["261", f"{size}", "1.00", f"{size / words:.2f}"]


def test_a_pattern_that_names_no_files_is_refused(run, tmp_path):
    code, _, errors = run("train", tmp_path, "--out", tmp_path / "tok", "--glob", "/x*")
    assert code == 2
    assert "--glob '/x*' is not a pattern of file names" in errors


@pytest.mark.parametrize("ids", [b"300", b"-1", b"1e3", b"9" * 5000, b"\xff"])
def test_ids_that_are_none_are_named(run, trained, ids):
    code, out, errors = run("decode", trained[0], stdin=ids)
    assert (code, out) == (2, b"")
    assert "token id 300 is out of range" in errors or "word 1 is" in errors


def test_show_has_colours_on_a_terminal_only(run, trained, monkeypatch):
    path, _ = trained
    assert run("show", path, stdin=b"to be\x1b[31m")[1].decode() == "to| be|<1b>|[|3|1|m\n"
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True, raising=False)
    assert b"\x1b[" in run("show", path, stdin=b"to be")[1]
