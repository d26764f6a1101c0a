"""The special tokens around every document in tokenizer.json: its field `post_processor`.

    {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>"}}, {"Sequence": {"id": "A"}}], ...}

means: the token `<s>`, then the document. ByteLevel is also allowed; it changes offsets into the text, which this
package does not compute.
"""

from __future__ import annotations

from typing import Any

from tokenizer.disk import Json, field
from tokenizer.errors import TokenizerError
from tokenizer.vocabulary import Vocabulary

Names = tuple[str, ...]


def post_processor_of(vocabulary: Vocabulary) -> Json | None:
    """Return the post-processor that puts a vocabulary's tokens around a document, or around each of two.

    It is None if there are no such tokens.
    """
    if not vocabulary.before and not vocabulary.after:
        return None
    before, after = (
        [{"SpecialToken": {"id": name, "type_id": 0}} for name in names]
        for names in (vocabulary.before, vocabulary.after)
    )
    first, second = ([*before, {"Sequence": {"id": name, "type_id": 0}}, *after] for name in "AB")
    return {
        "type": "TemplateProcessing",
        "single": first,
        "pair": [*first, *second],
        "special_tokens": {
            name: {"id": name, "ids": [vocabulary.specials[name]], "tokens": [name]}
            for name in (*vocabulary.before, *vocabulary.after)
        },
    }


def around_documents(processor: Any, specials: dict[str, int]) -> tuple[Names, Names]:
    """Return the special tokens that a post-processor puts before and after a document.

    Raises TokenizerError for any other kind of post-processor.
    """
    if processor is None:
        return (), ()
    kind = field({"post_processor": processor}, "post_processor.type", str)
    is_sequence = kind == "Sequence"
    steps = field(processor, "processors", list, within="post_processor") if is_sequence else [processor]
    kinds = [step.get("type") if isinstance(step, dict) else step for step in steps]
    templates = [step for step, kind in zip(steps, kinds, strict=True) if kind == "TemplateProcessing"]
    if len(templates) > 1 or any(kind not in ("ByteLevel", "TemplateProcessing") for kind in kinds):
        raise TokenizerError(
            f"field post_processor.type is {kind!r} with {kinds}: it would add tokens of its own, and only null, "
            "'ByteLevel' and one 'TemplateProcessing' can be loaded."
        )
    return _read_template(templates[0], specials) if templates else ((), ())


def _read_template(template: Json, specials: dict[str, int]) -> tuple[Names, Names]:
    """Return the special tokens before and after the one document of a template."""
    single = field(template, "single", list, within="post_processor")
    ids = field(template, "special_tokens", dict, within="post_processor")
    sides: list[list[str]] = [[]]
    for i, part in enumerate(single):
        name = f"post_processor.single[{i}]"
        if isinstance(part, dict) and "Sequence" in part:
            sides.append([])
            continue
        token = field(part if isinstance(part, dict) else {}, "SpecialToken.id", str, within=name)
        if token not in specials:
            raise TokenizerError(f"field {name} is {token!r}, which is not one of the special tokens in added_tokens.")
        given = ids.get(token)
        if not isinstance(given, dict) or given.get("ids") != [specials[token]]:
            raise TokenizerError(
                f"field post_processor.special_tokens.{token} is {given!r}, expected the id {specials[token]}."
            )
        sides[-1].append(token)
    if len(sides) != 2:
        raise TokenizerError(f"field post_processor.single has {len(sides) - 1} documents, expected one.")
    return tuple(sides[0]), tuple(sides[1])
