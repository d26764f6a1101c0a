"""Streams of tokens: what decides them, where they end, and that neither cache nor company changes them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import models
import tokenizer
from minigrad import ops
from minigrad.adaptive.signals import Signals
from minigrad.errors import InputError
from minigrad.generation import decoding
from minigrad.generation.continuation import Continuation
from minigrad.generation.decoding import document, stream
from minigrad.generation.sampling import distribution
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from minigrad.programs.trace import Unknown
from tests.models import tiny
from tests.tokenizer import byte_fallback
from tokenizer.vocabulary import Vocabulary

FREE: dict[str, Any] = {"temperature": 1.0, "top_p": None, "end_ids": ()}


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    shape: dict[str, Any] = {"vocab_size": 40, "num_layers": 2, "width": 16, "head_dim": 8, "feed_forward": 32}
    return models.build("vidya-v2", context_length=12, init_std=0.7, **shape)


def text(model: LanguageModel, prompt: Any, count: int, **changes: Any) -> list[int]:
    return [int(token) for token in stream(model, prompt, tokens=count, **FREE | changes)]


def by_place(tokens: Any) -> dict[tuple[int, int], list[int]]:
    found: dict[tuple[int, int], list[int]] = {}
    for token in tokens:
        found.setdefault((token.prompt, token.sample), []).append(int(token))
    return found


def test_a_text_is_a_function_of_seed_and_sample(model):
    assert text(model, [1], 10, seed=3) == text(model, [1], 10, seed=3)
    assert text(model, [1], 10, seed=3) != text(model, [1], 10, seed=4)
    assert text(model, [1], 10, seed=3, first_sample=1) != text(model, [1], 10, seed=3)
    several = by_place(stream(model, [[1], [1]], tokens=10, seed=3, samples=2, first_sample=[1, 5], **FREE))
    assert list(several) == [(0, 1), (0, 2), (1, 5), (1, 6)]
    assert several[1, 5] == text(model, [1], 10, seed=3, first_sample=5) != several[0, 1]
    assert text(model, [1], 10, seed=3, first_sample=np.int64(5)) == several[1, 5]
    with pytest.raises(InputError, match="first_sample has 1 numbers for 2 prompts"):
        stream(model, [[1], [1]], first_sample=[1])
    with pytest.raises(InputError, match="first_sample takes numbers of at least 0, not -1"):
        stream(model, [[1], [1]], first_sample=[1, -1])
    assert text(model, [1], 10, seed=3)[:4] == text(model, [1], 4, seed=3)


@pytest.mark.parametrize("family", tiny.TINY)
@given(seed=st.integers(0, 99), lengths=st.lists(st.integers(0, 30), min_size=1, max_size=4), samples=st.integers(1, 4))
@settings(max_examples=6)
def test_a_text_is_the_same_alone_and_among_others(family, seed, lengths, samples):
    """Prompts of several lengths, samples that end at different times, and texts beyond the context."""
    model = tiny.build(family)
    prompts = [tiny.tokens(seed + number, 1, length)[0].tolist() for number, length in enumerate(lengths)]
    options: dict[str, Any] = FREE | {"seed": seed, "tokens": 8, "repetition_penalty": 1.3, "end_ids": [3, 4]}
    together = by_place(stream(model, prompts, samples=samples, **options))
    for number, prompt in enumerate(prompts):
        for sample in range(samples):
            alone = [int(token) for token in stream(model, prompt, first_sample=sample, **options)]
            assert together[number, sample] == alone


def test_penalties_ignore_what_ends_a_text(model):
    rules = decoding.drawing_rules(model, Sampling(frequency_penalty=1), None, [3])
    assert np.flatnonzero(rules.ends).tolist() == [3]
    assert np.flatnonzero(rules.uncounted).tolist() == sorted({3, model.config.end_of_text_id})


def test_the_memory_for_caches_decides_only_how_many_texts_are_written_at_once(model, monkeypatch):
    prompts, options = [[5, 6], [7], [8, 9, 1]], FREE | {"samples": 2, "tokens": 6}
    together = by_place(stream(model, prompts, **options))
    monkeypatch.setattr(decoding, "_MOST_TOGETHER", 2)
    assert by_place(stream(model, prompts, **options)) == together
    monkeypatch.setattr(decoding, "_MOST_CACHE_BYTES", 1)
    found = list(stream(model, prompts, **options))
    assert by_place(found) == together
    assert [token.sample for token in found] == [sample for _ in prompts for sample in range(2) for _ in range(6)]


@given(prompt=st.lists(st.integers(0, 39), min_size=1, max_size=6))
def test_the_cache_changes_nothing(model, prompt):
    row = list(prompt)
    for _ in range(6):
        row.append(int(model(np.array([row])).data[0, -1].argmax()))
    assert text(model, prompt, 6, temperature=0) == row[len(prompt) :]


def test_a_prompt_costs_the_logits_of_one_row(model, monkeypatch):
    shapes, linear = [], ops.linear
    head = model.head()

    def watched(x: Any, weight: Any, *rest: Any, **options: Any) -> Any:
        shapes.extend([x.shape] if weight is head and not isinstance(x, Unknown) else [])
        return linear(x, weight, *rest, **options)

    monkeypatch.setattr(ops, "linear", watched)
    assert len(text(model, [1, 2, 3, 4, 5], 2)) == 2
    assert shapes == [(1, 16)]  # the second token is the decoder's, whose steps are no operations


def test_generation_continues_beyond_the_context_from_its_last_half(model):
    prompt = [5, 6, 7]
    found = text(model, prompt, 40, temperature=0)
    assert len(found) == 40
    row = [*prompt, *found]
    # The context is 12: at the 13th token a new cache begins with the last six tokens.
    assert row[13] == text(model, row[7:13], 1, temperature=0)[0]


@pytest.mark.parametrize("length", [11, 12, 13, 50])
def test_only_the_last_part_of_a_prompt_longer_than_the_context_is_used(model, length):
    prompt = [number % 40 for number in range(length)]
    assert text(model, prompt, 1, seed=1) == text(model, prompt[-12:], 1, seed=1)
    assert len(text(model, prompt, 30)) == 30


def test_a_context_of_one_token_is_enough():
    small = models.build("vidya-v2", context_length=1, vocab_size=20, num_layers=1, width=8, head_dim=4, feed_forward=8)
    assert len(text(small, [1, 2, 3], 5)) == 5


def test_a_text_ends_with_an_end_token_or_by_its_length(model):
    free = text(model, [1], 10, seed=3)
    end = next(token for token in free if token != free[0])
    tokens = list(stream(model, [1], tokens=10, seed=3, **FREE | {"end_ids": [end]}))
    assert [int(token) for token in tokens] == free[: free.index(end) + 1]
    assert [token.ended for token in tokens][-2:] == ["", "end"]
    assert list(stream(model, [1], tokens=10, seed=3, **FREE))[-1].ended == "length"
    by_default = models.build("vidya-v2", "nano", vocab_size=40, num_layers=1, end_of_text_id=7)
    assert list(stream(by_default, [1], ban=[i for i in range(40) if i != 7]))[-1] == 7


def test_the_tokens_that_a_model_lists_end_a_text_too():
    tok = tokenizer.train([], vocab_size=300)
    model = models.build("vidya-v2", "nano", vocab_size=300, num_layers=1)
    model.end_ids = (7, 9)
    for known, ends in ((None, {model.config.end_of_text_id}), (tok, {*tok.specials.values()})):
        rules = decoding.drawing_rules(model, Sampling(), known, None)
        assert set(np.flatnonzero(rules.ends)) == set(np.flatnonzero(rules.uncounted)) == ends | {7, 9}
        assert np.flatnonzero(decoding.drawing_rules(model, Sampling(), known, [3]).ends).tolist() == [3]
    (token,) = stream(model, [5], tokenizer=tok, ban=[number for number in range(300) if number != 9])
    assert (int(token), token.ended, token.text) == (9, "end", "")


def test_banned_tokens_are_never_drawn(model):
    banned = [number for number in range(40) if number % 4]
    assert all(number % 4 == 0 for number in text(model, [1], 30, ban=banned))


def test_penalties_do_not_concern_tokens_that_end_a_text(model):
    """A prompt begins with the token between documents; a penalty on it would keep every text from ending."""
    prompt = [0, 5, 9]
    rules = decoding.drawing_rules(model, Sampling(repetition_penalty=2.0), None, None)
    written = Continuation(rules, prompt, 0, 0)
    assert np.asarray(written.counts)[[0, 5, 9]].tolist() == [0, 1, 1]
    logits = model(np.array([prompt])).data[0, -1]
    free = distribution(logits, rules.sampling, counts=None)
    penalised = written.distribution(logits)
    assert (penalised != free).any()
    for token in (5, 5, 0):
        written.add(token, logits)
    assert np.asarray(written.counts)[[0, 5, 9]].tolist() == [0, 3, 1]


@pytest.mark.parametrize("end_ids", [None, (), [40]])
def test_penalties_leave_out_the_special_tokens_of_a_prompt_whichever_end_a_text(end_ids):
    tok = tokenizer.Tokenizer(byte_fallback.vocabulary())
    large = models.build("vidya-v2", "nano", vocab_size=tok.vocab_size, num_layers=1, end_of_text_id=2)
    prompt = document(tok, "to")
    rules = decoding.drawing_rules(large, Sampling(frequency_penalty=1.0), tok, end_ids)
    counts = np.asarray(Continuation(rules, prompt, 0, 0).counts)
    assert np.flatnonzero(counts).tolist() == sorted(set(prompt) - {tok.specials["<s>"]})


def test_special_tokens_end_a_text_and_unused_ids_are_never_drawn():
    tok = tokenizer.train(["to be or not to be"] * 3, vocab_size=300)
    large = models.build("vidya-v2", "nano", vocab_size=310, num_layers=1)
    rules = decoding.drawing_rules(large, Sampling(), tok, None)
    assert np.flatnonzero(rules.ends).tolist() == sorted(tok.specials.values())
    assert np.flatnonzero(rules.forbidden).tolist() == list(range(tok.used, 310))
    only = [number for number in range(tok.used) if number != tok.specials["<|end|>"]]
    token = next(stream(large, [5], tokenizer=tok, ban=only))
    assert (int(token), token.ended, token.text) == (tok.specials["<|end|>"], "end", "")


def test_gaps_between_the_ids_of_a_tokenizer_are_never_drawn(model):
    ids = {bytes([byte]): 40 + byte for byte in range(256)}
    tok = tokenizer.Tokenizer(Vocabulary("gpt2", ids, (), {"<|endoftext|>": 500, "<|user|>": 10}, 501))
    large = models.build("vidya-v2", "nano", vocab_size=502, num_layers=1)
    forbidden = np.flatnonzero(decoding.drawing_rules(large, Sampling(), tok, None).forbidden).tolist()
    assert forbidden == [*range(10), *range(11, 40), *range(296, 500), 501]


def test_log_probabilities_are_those_of_the_model(model):
    tokens = list(stream(model, [1, 2], tokens=5, alternatives=3, **FREE | {"temperature": 0.5, "top_k": 5}))
    row = [1, 2]
    for token in tokens:
        logits = model(np.array([row])).data[0, -1].astype(np.float64)
        exact = logits - np.log(np.exp(logits).sum())
        assert token.log_probability == pytest.approx(exact[token], abs=1e-4)
        assert [chosen for chosen, _ in token.alternatives] == np.argsort(-logits, kind="stable")[:3].tolist()
        np.testing.assert_allclose([chance for _, chance in token.alternatives], np.sort(exact)[::-1][:3], atol=1e-4)
        row.append(int(token))
    assert next(stream(model, [1, 2], **FREE)).log_probability is None


def test_texts_are_prepared_when_their_turn_comes(model):
    """So a great number of samples can be asked for, and as many taken as are needed."""
    tokens = stream(model, [1], samples=10**9, tokens=2, **FREE)
    assert [next(tokens).sample for _ in range(3)] == [0, 1, 2]


def test_dropout_is_off_during_generation_and_restored_after_it(model):
    model.train()
    text(model, [1], 2)
    assert model.training
    model.eval()
    text(model, [1], 2)
    assert not model.training


def test_between_two_tokens_the_mode_of_a_model_is_that_of_its_caller():
    """Otherwise a second text would be written with dropout on, and a loop that trains meanwhile would have none."""
    model = tiny.build("vidya-v2", vocab_size=40, dropout=0.5).train()
    options = FREE | {"tokens": 3 * tiny.CONTEXT}  # more than the context holds: the text is cut to its last half
    alone = list(stream(model, [5], **options))
    other, tokens = stream(model, [6], **FREE, tokens=2), stream(model, [5], **options)
    _, first = next(other), next(tokens)
    assert model.training
    assert len(list(other)) == 1
    assert [first, *tokens] == alone


def test_an_empty_prompt_begins_like_a_document(model):
    assert text(model, [], 5) == text(model, [0], 5)
    assert text(model, [[], [3]], 1) == [*text(model, [0], 1), *text(model, [3], 1)]
    tok = tokenizer.Tokenizer(byte_fallback.vocabulary())
    large = models.build("vidya-v2", "nano", vocab_size=tok.vocab_size, num_layers=1, end_of_text_id=2)
    beginnings = [[], [tok.specials["<s>"]], [large.config.end_of_text_id]]
    empty, start, end = ([int(token) for token in stream(large, ids, tokens=5, tokenizer=tok)] for ids in beginnings)
    assert empty == start != end


def test_an_adaptive_context_is_that_of_one_text_and_comes_with_its_tokens(monkeypatch, model):
    monkeypatch.setattr("minigrad.adaptive.context.TOKENS_BETWEEN", 2)
    signals = Signals(need=-1.0, perplexity=9.0, entropy=2.0, diversity=0.5, diversity_gain=0.0, tokens=1_024)
    monkeypatch.setattr("minigrad.adaptive.context.measure", lambda *_: signals)
    adaptive = FREE | {"adaptive_context": True, "tokens": 30}
    together = list(stream(model, [[1, 2], [3, 4]], samples=2, **adaptive))
    assert {(token.prompt, token.sample) for token in together} == {(0, 0), (0, 1), (1, 0), (1, 1)}
    alone = list(stream(model, [3, 4], first_sample=1, **adaptive))
    assert [token for token in together if (token.prompt, token.sample) == (1, 1)] == alone
    contexts = [token.context for token in alone]
    assert contexts[0] == 12
    assert 2 <= min(contexts) < 5
    assert next(stream(model, [1], **FREE)).context is None


@pytest.mark.parametrize(
    ("prompt", "changes", "message"),
    [
        ([1], {"temprature": 1.0}, "unknown setting of generation 'temprature'; did you mean 'temperature'"),
        ([1], {"run": "somewhere"}, "unknown setting of generation 'run'"),
        ([1], {"temperature": -1.0}, "temperature takes a finite number of at least 0, not -1"),
        ([1], {"tokens": 0}, "tokens takes a whole number of at least 1"),
        ([1], {"stop": "x"}, "a stop string needs a tokenizer"),
        ([1], {"ban": [40]}, "ban takes ids of tokens, from 0 to 39, not 40"),
        ([1], {"ban": range(40)}, r"ban takes a list or a tuple, not range\(0, 40\); each element is a whole number"),
        ([1], {"ban": list(range(40))}, "every token is banned"),
        ([1, 40], {}, "token ids from 1 to 40, but the model knows 0 to 39"),
        ([-1], {}, "token ids from -1 to -1"),
        ([0.5], {}, "a prompt is a sequence of token ids"),
        ([1, [2]], {}, "a prompt is a sequence of token ids"),
        ([1], {"draft": tiny.build("vidya-v2")}, "13 tokens and the model 40: both must have .* rows"),
        (
            [1],
            {"draft": tiny.build("vidya-v2", vocab_size=40), "adaptive_context": True},
            "leave out the draft or adap",
        ),
        ("text", {}, "a prompt is a sequence of token ids"),
        (5, {}, "a prompt is a sequence of token ids"),
        (None, {}, "a prompt is a sequence of token ids"),
        ([1], {"end_ids": 5}, r"end_ids takes ids of tokens, such as \[0, 5\], not 5"),
    ],
)
def test_mistakes_are_named_before_anything_is_written(model, prompt, changes, message):
    with pytest.raises(InputError, match=message):
        stream(model, prompt, **changes)


def test_a_prompt_that_can_be_read_only_once_is_a_prompt(model):
    texts = [list(stream(model, prompt, tokens=5, seed=1)) for prompt in ([5, 6], iter([5, 6]))]
    assert texts[0] == texts[1]


def test_the_tokenizer_of_another_model_is_refused(model):
    with pytest.raises(InputError, match="the tokenizer has 261 tokens, but the model knows 40: they do not belong"):
        stream(model, [1], tokenizer=tokenizer.train([], vocab_size=261))


def test_a_document_begins_as_its_tokenizer_says() -> None:
    tok = tokenizer.train([], vocab_size=261)
    assert document(tok, "a") == [tok.end_of_text_id, *tok.encode("a")]
    vocabulary = dataclasses.replace(tok.vocabulary, before=("<|user|>", "<|system|>"))
    other = tokenizer.Tokenizer(vocabulary)
    assert document(other, "a") == [tok.specials["<|user|>"], tok.specials["<|system|>"], *tok.encode("a")]
    assert document(other, "") == other.borders[0]


def test_a_single_text_is_not_several(model):
    with pytest.raises(InputError, match=r"write_batch takes several texts, not one: give \['to be'\]"):
        decoding.write_batch(model, tokenizer.train([], vocab_size=261), "to be")
