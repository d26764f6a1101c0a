from dataclasses import replace

import pytest

import tokenizer
from tokenizer import TokenizerError
from tokenizer.formats.post_processor import around_documents, post_processor_of

vocabulary = tokenizer.train([], vocab_size=261).vocabulary
specials = vocabulary.specials


@pytest.mark.parametrize(
    ("before", "after"),
    [((), ()), (("<|user|>",), ()), ((), ("<|end|>",)), (("<|user|>", "<|end|>"), ("<|end|>", "<|endoftext|>"))],
)
def test_the_tokens_around_a_document_come_back(before, after):
    processor = post_processor_of(replace(vocabulary, before=before, after=after))
    assert (processor is None) == (not before and not after)
    assert around_documents(processor, specials) == (before, after)


def test_a_sequence_may_hold_one_template():
    template = post_processor_of(replace(vocabulary, before=("<|user|>",)))
    byte_level = {"type": "ByteLevel", "trim_offsets": True}
    steps = {"type": "Sequence", "processors": [byte_level, template]}
    assert around_documents(steps, specials) == (("<|user|>",), ())
    assert around_documents(byte_level, specials) == ((), ())
    with pytest.raises(TokenizerError, match=r"field post_processor is .*: it would add tokens"):
        around_documents({"type": "Sequence", "processors": [template, template]}, specials)


def test_a_template_of_two_documents_is_refused():
    template = post_processor_of(replace(vocabulary, before=("<|user|>",)))
    with pytest.raises(TokenizerError, match=r"post_processor.single has 2 documents, expected one"):
        around_documents(template | {"single": template["pair"]}, specials)


def test_a_token_needs_the_id_of_added_tokens():
    template = post_processor_of(replace(vocabulary, before=("<|user|>",)))
    with pytest.raises(TokenizerError, match=r"special_tokens.<\|user\|> is .*, expected the id 77"):
        around_documents(template, {"<|user|>": 77})
