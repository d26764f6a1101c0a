"""The words of a text, as the kernels that count and encode find them."""

from itertools import pairwise

import numpy as np

from tokenizer.jit import KERNELS, kernel
from tokenizer.text.split import Scanner
from tokenizer.text.word_rules import word_end


@kernel
def word_ends(text, stops, rule, classes, ends):
    """Write the end of each word, the index of the byte after it; return the number of words."""
    num_words, i = 0, 0
    for stop in stops:
        while i < stop:
            i = word_end(text, i, stop, rule, classes)
            ends[num_words] = i
            num_words += 1
    return num_words


del KERNELS["words.word_ends"]  # which are the package's own


def words(scanner: Scanner, text: str) -> list[str]:
    layout = scanner.lay_out([text])
    ends = np.empty(len(layout.text), np.int64)
    num_words = word_ends(layout.text, layout.stops, scanner.rule, scanner.classes, ends)
    borders, data = [0, *ends[:num_words].tolist()], layout.text.tobytes()
    return [data[start:end].decode() for start, end in pairwise(borders)]
