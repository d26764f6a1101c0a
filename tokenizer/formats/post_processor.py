"""The special tokens around every document in tokenizer.json: its field `post_processor`.

    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], ...}

means: the token `<s>`, then the document. ByteLevel changes only offsets into the text, which are not computed here.
"""

from __future__ import annotations

from itertools import chain
from typing import Any

from tokenizer.disk import Json
from tokenizer.errors import TokenizerError
from tokenizer.vocabulary import Vocabulary

Names = tuple[str, ...]


def post_processor_of(vocabulary: Vocabulary) -> Json | None:
    """Return the post-processor that puts a vocabulary's tokens around one document, and two; None without them."""
    around = (vocabulary.before, vocabulary.after)
    if not any(around):
        return None
    before, after = ([{"SpecialToken": {"id": name, "type_id": 0}} for name in names] for names in around)
    first, second = ([*before, {"Sequence": {"id": name, "type_id": 0}}, *after] for name in "AB")
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": [*first, *second],
        "special_tokens": {
            name: {"id": name, "ids": [vocabulary.specials[name]], "tokens": [name]} for name in chain(*around)
        },
    }


def around_documents(processor: Any, specials: dict[str, int]) -> tuple[Names, Names]:
    """Return the special tokens that a post-processor puts before and after a document.

    Raises TokenizerError for any other kind of post-processor.
    """
    match processor:
        case {"type": "Sequence", "processors": list(found)}:
            steps = found
        case _:
            steps = [] if processor is None else [processor]
    templates = [step for step in steps if not isinstance(step, dict) or step.get("type") != "ByteLevel"]
    match templates:
        case []:
            return (), ()
        case [{"type": "TemplateProcessing", "single": list(single), "special_tokens": dict(ids)}]:
            return _read_template(single, ids, specials)
    raise TokenizerError(
        f"field post_processor is {processor!r:.200}: it would add tokens of its own, and only null, 'ByteLevel' and "
        "one 'TemplateProcessing' can be loaded."
    )


def _read_template(single: list[Any], ids: Json, specials: dict[str, int]) -> tuple[Names, Names]:
    """Return the special tokens before and after the one document of a template."""
    sides: list[list[str]] = [[]]
    for i, part in enumerate(single):
        match part:
            case {"Sequence": _}:
                sides.append([])
            case {"SpecialToken": {"id": str(token)}} if token in specials:
                given = ids.get(token)
                if not isinstance(given, dict) or given.get("ids") != [specials[token]]:
                    raise TokenizerError(
                        f"field post_processor.special_tokens.{token} is {given!r}, expected the id {specials[token]}."
                    )
                sides[-1].append(token)
            case _:
                raise TokenizerError(
                    f"field post_processor.single[{i}] is {part!r}, which is neither a document nor one of the special "
                    "tokens in added_tokens."
                )
    if len(sides) != 2:
        raise TokenizerError(f"field post_processor.single has {len(sides) - 1} documents, expected one.")
    return tuple(sides[0]), tuple(sides[1])
