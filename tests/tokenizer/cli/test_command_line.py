import io
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import pytest

import tokenizer
from tokenizer import vidya_v1
from tokenizer.cli import commands
from tokenizer.cli.command_line import main
from tokenizer.cli.comparison import Measured, measure, table
from tokenizer.cli.show import coloured, page, readable, separated

TEXT = "to be or not to be, that is the question; é 日本\n" * 4


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

    def call(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(stdin)))
        capfdbinary.readouterr()
        try:
            code = main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code
        sys.stdout.flush()
        out, errors = capfdbinary.readouterr()
        return code, out, errors.decode()

    return call


def test_train_prints_the_hash_of_what_it_writes(run, corpus, tmp_path):
    code, out, errors = run("train", corpus, "--out", tmp_path / "new", "--vocab-size", 280)
    assert (code, errors) == (0, "")
    loaded = tokenizer.load(tmp_path / "new")
    assert loaded.fingerprint() == tokenizer.train([TEXT, TEXT], vocab_size=280).fingerprint()
    assert out.decode().splitlines() == [
        re.sub(r"in [\d.]+ s", lambda _: re.search(r"in [\d.]+ s", out.decode()).group(), line)
        for line in [
            f"19 merges learned from 2 files, {2 * len(TEXT.encode())} bytes, in 0.0 s",
            f"280 of 280 ids used, written to {tmp_path / 'new'}",
            f"hash {loaded.fingerprint()}",
        ]
    ]


def test_trains_flags_reach_the_trainer(run, corpus, tmp_path):
    flags = ["--split", "gpt4", "--min-frequency", 3, "--special", "<a>", "--special", "<b>", "--nfc", "--threads", 1]
    assert run("train", corpus / "a.txt", "--out", tmp_path / "new", "--vocab-size", 290, *flags)[0] == 0
    expected = tokenizer.train(
        [TEXT], vocab_size=290, split="gpt4", min_frequency=3, special_tokens=["<a>", "<b>"], nfc=True
    )
    assert tokenizer.load(tmp_path / "new").fingerprint() == expected.fingerprint()


def test_large_files_are_read_in_lots_of_whole_lines(run, corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(commands, "LOT", 60)
    assert run("train", corpus, "--out", tmp_path / "new", "--vocab-size", 280)[0] == 0
    lines = TEXT.splitlines(keepends=True) * 2
    assert tokenizer.load(tmp_path / "new").fingerprint() == tokenizer.train(lines, vocab_size=280).fingerprint()


@pytest.mark.parametrize(("format", "files"), [("gpt2", "merges.txt"), ("tiktoken", ""), ("huggingface", None)])
def test_train_writes_every_format(run, corpus, tmp_path, format, files):
    target = tmp_path / "new"
    assert run("train", corpus, "--out", target, "--vocab-size", 280, "--format", format)[0] == 0
    assert (target / (files if files is not None else "tokenizer.json")).exists()


def test_encode_and_decode_are_each_others_inverse(run, trained):
    path, tok = trained
    data = TEXT.encode() + b"\xff\x00<|end|>"
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


def test_a_document_gets_its_borders(run, tmp_path):
    vidya_v1.train([TEXT], 5).save(tmp_path)
    _, out, _ = run("encode", tmp_path, "--document", stdin=b"to")
    assert run("decode", tmp_path, stdin=out)[1] == b"<BOS>to<BOS>"


def test_show_has_colours_on_a_terminal_only(run, trained, monkeypatch):
    path, tok = trained
    assert run("show", path, stdin=b"to be\x1b[31m")[1].decode() == "to| be|<1b>|[|3|1|m\n"
    assert coloured(tok, tok.encode("to be\n\n")).replace("\x1b", "^") == (
        "^[30;48;5;151mto^[0m^[30;48;5;189m be^[0m^[30;48;5;223m⏎^[0m\n^[30;48;5;182m⏎^[0m\n"
    )
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _: True, raising=False)
    assert b"\x1b[" in run("show", path, stdin=b"to be")[1]


def test_what_is_shown_is_never_a_terminals_command():
    assert readable(bytes(range(256))).replace("\n", "").replace("\t", "").isprintable()
    assert readable("é\u200b\u202e".encode()) == "é<200b><202e>"


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


def test_compare_prints_a_row_for_each(run, trained, tmp_path):
    path, tok = trained
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    tokenizer.train([], vocab_size=261).save(tmp_path / "bytes.json")
    code, out, _ = run("compare", path, tmp_path / "bytes.json", "--text", tmp_path / "text")
    lines = out.decode().splitlines()
    size, words, tokens = len(TEXT.encode()), len(TEXT.split()), len(tok.encode(TEXT))
    assert code == 0
    assert lines[0] == f"{size:,} bytes, {words:,} words"
    assert lines[2].split()[:5] == [path, "300", f"{tokens}", f"{size / tokens:.2f}*", f"{tokens / words:.2f}*"]
    assert lines[3].split()[1:5] == ["261", f"{size}", "1.00", f"{size / words:.2f}"]


def test_the_best_of_each_column_has_a_star():
    figures = {"a": Measured(300, 10, 2.0, 0.5), "b": Measured(400, 20, 1.0, 1.0)}
    rows = [line.split()[3:] for line in table(figures, "four words of text, " * 5).splitlines()[2:]]
    assert [[cell.endswith("*") for cell in row] for row in rows] == [
        [True, True, False, True],
        [False, False, True, False],
    ]
    assert "*" not in table({"a": figures["a"]}, "one")


def test_measuring_counts_tokens(trained):
    _, tok = trained
    measured = measure(tok, TEXT)
    assert (measured.vocab_size, measured.num_tokens) == (300, len(tok.encode(TEXT)))
    assert measured.first_seconds > 0 < measured.later_seconds


BAD = [
    (["trian"], "invalid choice: 'trian'"),
    ([], "arguments are required: train|encode|decode|show|compare"),
    (["train", "CORPUS", "--out", "NEW", "--vocab", "9"], "unknown flag '--vocab', did you mean --vocab-size?"),
    (["train", "CORPUS", "--out", "NEW", "--zzz"], "unknown flag '--zzz'; see python -m tokenizer train --help"),
    (["train", "CORPUS", "--out", "NEW", "--vocab-size", "many"], "whole number of at least 256, not 'many'"),
    (["train", "CORPUS", "--out", "NEW", "--vocab-size", "258"], "256 bytes and 5 special tokens need 261"),
    (["train", "CORPUS", "--out", "NEW", "--vocab-size", "99999999999"], "at most 16,777,216 can be used"),
    (["train", "CORPUS", "--out", "NEW", "--min-frequency", "0"], "at least 1, not '0'"),
    (["train", "CORPUS", "--out", "NEW", "--max-memory", "1"], "max_memory=1,048,576 bytes is too little"),
    (["train", "CORPUS", "--out", "NEW", "--split", r"\\w+"], "Oniguruma, understands differently"),
    (["train", "CORPUS", "--out", "NEW", "--split", "gpt-2"], "unknown split 'gpt-2'"),
    (["train", "CORPUS", "--out", "NEW", "--special", "<a>", "--special", "<a>"], "named twice"),
    (["train", "CORPUS", "--out", "NEW", "--format", "gguf"], "invalid choice: 'gguf'"),
    (["train", "CORPUS", "--out", "NEW", "--format", "gpt2", "--split", "gpt4"], "no words for split='gpt4'"),
    (["train", "CORPUS", "--out", "TRAINED"], "trained exists already, and nothing is ever overwritten"),
    (["train", "CORPUS", "--out", "NEW", "--glob", "*.py"], "there is no text to learn from in"),
    (["train", "CORPUS/.hidden", "--out", "NEW"], ".hidden: byte 0xff at position 0, in b'\\xff', is not UTF-8"),
    (["train", "nowhere", "--out", "NEW"], "cannot read nowhere: there is no such file or folder"),
    (["encode", "nowhere"], "cannot read nowhere: No such file"),
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


@pytest.mark.parametrize("ids", [b"300", b"-1", b"1e3", b"9" * 5000, b"\xff"])
def test_ids_that_are_none_are_named(run, trained, ids):
    code, out, errors = run("decode", trained[0], stdin=ids)
    assert (code, out) == (2, b"")
    assert "token id 300 is out of range" in errors or "word 1 is" in errors


def test_a_corrupt_tokenizer_is_named(run, trained):
    file = Path(trained[0]) / "tokenizer.json"
    with file.open("r+b") as opened:
        opened.truncate(1000)
    code, _, errors = run("encode", trained[0])
    assert code == 2
    assert "tokenizer.json is not JSON text, or is cut short" in errors


def test_faults_of_the_machine_are_exit_code_1_and_ctrl_c_130(run, trained, monkeypatch):
    for error, expected in [(OSError("disk full"), 1), (MemoryError(), 1), (KeyboardInterrupt(), 130)]:

        def fail(_, error=error):
            raise error

        monkeypatch.setattr(commands, "show", fail)
        code, _, errors = run("show", trained[0])
        assert code == expected
        assert "Traceback" not in errors


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
