"""The rows of a plan that describe its text: how much there is, of how many documents, and how often it is read."""

from __future__ import annotations

from minigrad.data.mixture import Mixture
from minigrad.data.split import num_bytes
from minigrad.data.tokens.token_files import TokenMixture
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.system.units import format_bytes, format_count, plural
from minigrad.training.planning import scaling

_LEAST_WORTH = 0.005  # of the last pass over a text, before the plan warns: the 13th, of 0.01, was still worth reading


def text_rows(text: TokenizedCorpus, vocab_size: int, num_tokens: float | None) -> dict[str, str]:
    """Return the rows of a text, under their names: the text, each source of several, and the vocabulary.

    `vocab_size` is that of the model, `num_tokens` what will be read of the text, where that is known.
    """
    corpus, train, parts = text.corpus, text.train, text.corpus.split()
    left_out = plural(parts.left_out, "paragraph")
    without = f", without {left_out} that validation or test text has too" if parts.left_out else ""
    test = f", {format_bytes(num_bytes(parts.test))} for the test" if parts.test else ""
    names = {number: name for name, number in text.tokenizer.specials.items()}
    end = names[text.tokenizer.end_of_text_id]
    vocabulary = f"{vocab_size:,} tokens, {train.num_bytes / max(len(train), 1):.2f} bytes each; {end} ends a document"
    if text.tokenizer.used < vocab_size:
        vocabulary += (
            f"; the text has pairs for {text.tokenizer.used:,} only, the other ids stay unused "
            "(--data python-source would fill more)"
        )
    whole = (
        f"{corpus.description}: {plural(corpus.num_documents, 'document')}, {format_bytes(train.num_bytes)} to train "
        f"on{without}, {format_bytes(text.validation.num_bytes)} for validation{test}"
    )
    return {"text": whole, **_source_rows(text, num_tokens), "vocabulary": vocabulary}


def _source_rows(text: TokenizedCorpus, num_tokens: float | None) -> dict[str, str]:
    """Return a row for each of several texts; none for a single text."""
    if not (isinstance(text.corpus, Mixture) and isinstance(text.train, TokenMixture)):
        return {}
    rows = {}
    each = zip(text.corpus.corpora, text.train.files, text.train.shares, strict=True)
    for number, (source, file, share) in enumerate(each, start=1):
        times = "" if num_tokens is None else f", read {share * num_tokens / max(len(file), 1):.2g} times"
        rows[f"text {number}"] = (
            f"{100 * share:.3g}%: {source.description}: {plural(source.num_documents, 'document')}, "
            f"{format_count(len(file))} tokens to train on{times}"
        )
    return rows


def warning_of(passes: float) -> str:
    """Return a remark on a text that is read this often, or ""."""
    worth = scaling.LAW.worth_of_pass(passes)
    if worth >= _LEAST_WORTH:
        return ""
    return (
        f"; the text is read so often that the last pass is worth {worth:.0%} of new text, and the model learns it by "
        "heart: take more --data, or less time"
    )
