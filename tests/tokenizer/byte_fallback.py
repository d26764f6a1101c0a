"""A small tokenizer with byte fallback, as Llama 2's, and the content of its tokenizer.json."""

from tokenizer import Vocabulary
from tokenizer.text.spelling import MARK

WORDS = ["to", "be", "the", "or", "é"]
SPECIALS = {"<unk>": 0, "<s>": 1, "</s>": 2}


def vocabulary(**changes):
    """Return a vocabulary whose merges make each of WORDS, with and without a space before it, and two spaces."""
    merges = [(MARK, MARK)]
    for word in WORDS:
        parts = list(word)
        while len(parts) > 1:
            merges.append((parts[0], parts[1]))
            parts[:2] = ["".join(parts[:2])]
        merges.append((MARK, word))
    characters = [MARK, *sorted({letter for word in WORDS for letter in word})]
    pairs = tuple((left.encode(), right.encode()) for left, right in dict.fromkeys(merges))
    tokens = [*(each.encode() for each in characters), *(left + right for left, right in pairs)]
    fields = {
        "split": "none",
        "ids": {token: 259 + number for number, token in enumerate(tokens)},
        "merges": pairs,
        "specials": SPECIALS,
        "size": 259 + len(tokens),
        "end_of_text": "</s>",
        "begin_of_text": "<s>",
        "before": ("<s>",),
        "byte_ids": tuple(range(3, 259)),
    }
    return Vocabulary(**(fields | changes))
