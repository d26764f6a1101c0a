import tokenizer
from tokenizer.cli.show import coloured, readable, separated

tok = tokenizer.train(["to be or not to be, that is the question; é 日本\n" * 4], vocab_size=300)


def test_colours_end_before_each_line_end():
    assert coloured(tok, tok.encode("to be\n\n")).replace("\x1b", "^") == (
        "^[30;48;5;151mto^[0m^[30;48;5;189m be^[0m^[30;48;5;223m⏎^[0m\n^[30;48;5;182m⏎^[0m\n"
    )


def test_what_is_shown_is_never_a_terminals_command():
    assert readable(bytes(range(256))).replace("\n", "").replace("\t", "").isprintable()
    assert readable("é\u200b\u202e".encode()) == "é<200b><202e>"


def test_bars_between_the_tokens():
    ids = [*tok.encode("to be\n"), 0]
    assert separated(tok, ids) == "|".join(readable(tok.decode_bytes([number])) for number in ids)
    assert separated(tok, ids).endswith("⏎\n|<|endoftext|>")
    assert separated(tok, []) == coloured(tok, []) == ""
