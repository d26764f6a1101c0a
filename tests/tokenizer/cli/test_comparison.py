import tokenizer
from tokenizer.cli.comparison import Measured, measure, table

TEXT = "to be or not to be, that is the question; é 日本\n" * 4


def test_the_best_of_each_column_has_a_star():
    figures = {"a": Measured(300, 10, 2.0, 0.5), "b": Measured(400, 20, 1.0, 1.0)}
    rows = [line.split()[3:] for line in table(figures, "four words of text, " * 5).splitlines()[2:]]
    assert [[cell.endswith("*") for cell in row] for row in rows] == [
        [True, True, False, True],
        [False, False, True, False],
    ]
    assert "*" not in table({"a": figures["a"]}, "one")


def test_measuring_counts_tokens():
    tok = tokenizer.train([TEXT], vocab_size=300)
    measured = measure(tok, TEXT)
    assert (measured.vocab_size, measured.num_tokens) == (300, len(tok.encode(TEXT)))
    assert measured.first_seconds > 0 < measured.later_seconds
