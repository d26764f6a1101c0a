"""The law of serving: a text is a function of model, prompt, settings and seed, bit for bit, whoever else is served."""

from __future__ import annotations

import contextlib
import functools
from unittest.mock import Mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from minigrad import InputError, generation
from minigrad.generation.continuation import Token
from minigrad.generation.settings import Sampling
from minigrad.nn.language_model import LanguageModel
from minigrad.quantised import quantise
from minigrad.serving import scheduler as scheduling
from minigrad.serving.places import PIECE
from minigrad.serving.scheduler import Scheduler, Waiting
from tests.models.defaults import build_default
from tests.models.tiny import CONTEXT, TINY, VOCAB, build
from tests.serving.served import Wanted, alone, serve, text_of

TINY_PIECE = 4
FORMATS = (None, "float16", "bfloat16", "int8", "int4")


@functools.cache
def model_of(family: str, format: str | None, cache_format: str = "float32") -> LanguageModel:
    model = build(family).eval()
    model.cache_format = cache_format
    if format is not None:
        quantise(model, format)
    return model


@st.composite
def wanted_texts(draw: st.DrawFn) -> list[Wanted]:
    """Draw requests whose prompts share their beginnings, with any settings, at any times, some of them given up."""
    beginning = draw(st.lists(st.integers(1, VOCAB - 1), min_size=14, max_size=14))
    found = []
    for _ in range(draw(st.integers(1, 8))):
        shared = draw(st.integers(0, len(beginning)))
        prompt = (*beginning[:shared], *draw(st.lists(st.integers(1, VOCAB - 1), max_size=4)))
        sampling = Sampling(
            tokens=draw(st.integers(1, 6)),
            temperature=draw(st.sampled_from([0.0, 0.7, 1.5])),
            top_p=draw(st.sampled_from([None, 0.9])),
            frequency_penalty=draw(st.sampled_from([0.0, 0.5])),
            seed=draw(st.integers(0, 3)),
            alternatives=3,
        )
        found.append(
            Wanted(
                prompt or (5,),
                sampling,
                sample=draw(st.integers(0, 2)),
                client=draw(st.sampled_from("abc")),
                arrives=draw(st.integers(0, 9)),
                leaves=draw(st.sampled_from([None, None, 0, 2])),
                scored=draw(st.sampled_from([False, False, True])),
            )
        )
    return found


CASES = [
    *[(family, None, "float32") for family in TINY],
    *[("vidya-v2", each, "float32") for each in FORMATS[1:]],
    ("wiola", "int4", "float32"),
    ("vidya-v2", None, "bfloat16"),
    ("vidya-v2", "int8", "int8"),
    ("vsla", None, "int8"),
    ("wiola", None, "int8"),
]


@pytest.mark.parametrize(("family", "format", "cache_format"), CASES)
@settings(max_examples=10)
@given(wanted=wanted_texts(), count=st.integers(1, 6))
def test_a_text_is_the_same_alone_and_among_others(
    family: str, format: str | None, cache_format: str, wanted: list[Wanted], count: int
) -> None:
    model = model_of(family, format, cache_format)
    texts = serve(Scheduler(model, count, CONTEXT, TINY_PIECE), wanted)
    for each, tokens in zip(wanted, texts, strict=True):
        expected = alone(model, each._replace(leaves=None), TINY_PIECE)
        assert tokens == expected if each.leaves is None else tokens == expected[: len(tokens)]


@pytest.mark.parametrize(
    ("format", "cache_format"), [*[(each, "float32") for each in FORMATS], (None, "bfloat16"), ("int8", "int8")]
)
def test_a_text_of_a_default_model_is_the_same_among_63_others(format: str | None, cache_format: str) -> None:
    """At the sizes at which products are computed in blocks, by BLAS or by loops for few rows."""
    model = build_default("vidya-v2", seed=1, vocab_size=512).eval()
    model.cache_format = cache_format
    if format is not None:
        quantise(model, format)
    draw = np.random.default_rng(0)
    beginning = tuple(draw.integers(1, 512, 140).tolist())
    wanted = [
        Wanted(
            (*beginning[: number % 4 * 46], *draw.integers(1, 512, draw.integers(1, 40)).tolist()),
            Sampling(tokens=4, temperature=float(number % 2), seed=number, alternatives=2),
            client=str(number % 5),
            arrives=number % 7,
        )
        for number in range(64)
    ]
    several = serve(Scheduler(model, 64, 200), wanted)
    assert [alone(model, each, PIECE) for each in wanted[:16]] == several[:16]
    assert serve(Scheduler(model, 9, 200), wanted[::-1])[::-1] == several


def test_products_that_mix_rows_give_other_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    """So the comparisons above can fail: rounding depends on the rows of a product, at least on whether it is one."""
    monkeypatch.setattr(scheduling, "rows_apart", contextlib.nullcontext)
    monkeypatch.setattr(scheduling, "can_keep_rows_apart", lambda dtype: True)
    model = build_default("vidya-v2", seed=1, vocab_size=512).eval()
    wanted = [
        Wanted(tuple(range(number, number + length)), Sampling(tokens=4, alternatives=2, seed=1))
        for number in range(5)
        for length in (2, 60)
    ]
    assert serve(Scheduler(model, 10, 200), wanted) != [alone(model, each, PIECE) for each in wanted]


def test_texts_are_those_of_generate() -> None:
    """In float64, where another order of sums does not change a draw."""
    model = build("vidya-v2", "float64").eval()
    sampling = Sampling(tokens=8, seed=3)
    wanted = [Wanted((3, 4, 5, 6, 7, 8), sampling, sample) for sample in range(3)]
    served = serve(Scheduler(model, 2, CONTEXT, TINY_PIECE), wanted)
    written = [list[int](), list[int](), list[int]()]
    for token in generation.stream(model, [3, 4, 5, 6, 7, 8], sampling.changed({"samples": 3})):
        written[token.sample].append(int(token))
    assert [[token for token, _, _ in tokens] for tokens in served] == written


def test_a_prompt_is_scored_as_the_model_expects_it() -> None:
    model = model_of("gpt2", None)
    prompt = (1, 2, 3, 4, 5, 6, 7)
    (found,) = serve(Scheduler(model, 1, CONTEXT, TINY_PIECE), [Wanted(prompt, Sampling(tokens=1), scored=True)])
    logits = model([prompt]).data[0].astype(np.float64)
    expected = logits - np.log(np.exp(logits).sum(axis=-1, keepdims=True))
    assert [token for token, _, _ in found[:-1]] == list(prompt[1:])
    for place, (token, log_probability, _) in enumerate(found[:-1]):
        assert log_probability == pytest.approx(expected[place, token], abs=1e-5)


def test_a_prompt_can_be_scored_without_a_text() -> None:
    scheduler = Scheduler(model_of("gpt2", None), 1, CONTEXT, TINY_PIECE)
    for prompt in ((1, 2, 3, 4, 5, 6), (1,)):
        text = text_of(scheduler.model, Wanted(prompt, Sampling(), scored=True))
        text.writes = False
        scheduler.submit(text)
        events = [event for _ in range(3) for _, event in scheduler.turn()]
        assert len(events) == len(prompt)
        assert events[-1] is None
        assert scheduler.num_served == 0


def test_a_long_prompt_holds_up_others_by_a_piece_a_turn() -> None:
    scheduler = Scheduler(model_of("gpt2", None), 2, CONTEXT, TINY_PIECE)
    short, long = (text_of(scheduler.model, Wanted(prompt, Sampling(tokens=8))) for prompt in ((1,), (2,) * 16))
    scheduler.submit(short)
    scheduler.submit(long)
    turns = [[text for text, _ in scheduler.turn()] for _ in range(5)]
    assert turns == [[short], [short], [short], [short, long], [short, long]]


def test_a_shared_beginning_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    model = model_of("gpt2", None)
    scheduler, read = Scheduler(model, 3, CONTEXT, TINY_PIECE), list[int]()
    monkeypatch.setattr(scheduler, "model", lambda tokens, **named: read.append(len(tokens)) or model(tokens, **named))
    beginning, sampling = tuple(range(1, 11)), Sampling(tokens=1)
    for prompt in (beginning, beginning, (*beginning[:8], 12, 11, 10)):
        scheduler.submit(text_of(model, Wanted(prompt, sampling)))
    while scheduler.num_waiting or scheduler.num_served:
        scheduler.turn()
    assert sum(read) == 4 + 4 + 1 + 2
    assert len(read) == (3 if scheduler.reads_together else 4)


@pytest.mark.parametrize("family", ["gpt2", "wiola"])
@pytest.mark.parametrize("others", ["alike", "different"])
def test_texts_whose_prompts_are_short_begin_in_one_turn(family: str, others: str) -> None:
    """Also if their prompts are alike, and the cache holds more than keys and values, so that no piece is copied."""
    scheduler = Scheduler(model_of(family, None), 4, CONTEXT, piece=8)
    texts = [
        text_of(scheduler.model, Wanted((1 if others == "alike" else 1 + sample, 2, 3), Sampling(tokens=3), sample))
        for sample in range(4)
    ]
    for text in texts:
        scheduler.submit(text)
    assert {text for text, _ in scheduler.turn()} == set(texts)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_a_prompt_that_is_sent_again_and_again_is_read_once(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    model, read = model_of("gpt2", None), list[int]()
    scheduler = Scheduler(model, count, CONTEXT, TINY_PIECE)
    monkeypatch.setattr(scheduler, "model", lambda tokens, **named: read.append(len(tokens)) or model(tokens, **named))
    for _ in range(2 * count + 1):
        scheduler.submit(text_of(model, Wanted(tuple(range(1, 12)), Sampling(tokens=2))))
        while scheduler.num_waiting or scheduler.num_served:
            scheduler.turn()
    assert sum(read) == 10


def test_the_next_pieces_of_a_few_prompts_are_read_in_one_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    model, read = model_of("vidya-v2", None), list[int]()
    scheduler = Scheduler(model, 6, CONTEXT, TINY_PIECE)
    monkeypatch.setattr(scheduler, "model", lambda tokens, **named: read.append(len(tokens)) or model(tokens, **named))
    for number in range(1, 7):
        scheduler.submit(text_of(model, Wanted((number,) * 4, Sampling(tokens=9))))
    scheduler.submit(text_of(model, Wanted((9,) * 12, Sampling(tokens=9))))
    written = [len(scheduler.turn()) for _ in range(2)]
    if scheduler.reads_together:
        assert (read, written) == ([18], [6, 6])  # the last text has no place
    else:
        assert (read, written) == ([3, 3, 3, 3], [2, 4])


@pytest.mark.parametrize("length", [2, 16])
def test_a_client_that_goes_away_frees_its_place_within_a_turn(length: int) -> None:
    """Also if its prompt has not been read to the end."""
    scheduler = Scheduler(model_of("gpt2", None), 1, CONTEXT, TINY_PIECE)
    prompts = (1,) * length, (1, 2)
    first, second = (text_of(scheduler.model, Wanted(prompt, Sampling(tokens=8))) for prompt in prompts)
    scheduler.submit(first)
    scheduler.submit(second)
    scheduler.turn()
    first.gone = True
    assert [text for text, _ in scheduler.turn()] == [second]


def test_clients_take_turns() -> None:
    waiting, model = Waiting(), model_of("gpt2", None)
    texts = [text_of(model, Wanted((1,), Sampling(), client=client)) for client in "aaabc"]
    for text in texts:
        waiting.add(text)
    assert waiting.count == 5
    texts[1].gone = texts[4].gone = True
    waiting.leave_gone()
    assert waiting.count == 3
    assert [waiting.next() for _ in range(4)] == [texts[0], texts[3], texts[2], None]
    assert waiting.count == 0


def test_a_client_that_goes_away_leaves_the_queue_while_no_place_is_free() -> None:
    scheduler = Scheduler(model_of("gpt2", None), 1, CONTEXT, TINY_PIECE)
    texts = [text_of(scheduler.model, Wanted((1,), Sampling(tokens=9))) for _ in range(3)]
    for text in texts:
        scheduler.submit(text)
    scheduler.turn()
    texts[1].gone = True
    scheduler.turn()
    assert (scheduler.num_served, scheduler.num_waiting) == (1, 1)


def test_what_a_turn_found_before_it_failed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    scheduler = Scheduler(model_of("gpt2", None), 2, CONTEXT, TINY_PIECE)
    ended, failed = (text_of(scheduler.model, Wanted((1,), Sampling(tokens=1))) for _ in range(2))
    for text in (ended, failed):
        scheduler.submit(text)
    error = MemoryError("full")
    monkeypatch.setattr(failed.continuation, "next", Mock(side_effect=error))
    with pytest.raises(MemoryError):
        scheduler.turn()
    (first, token), *others = scheduler.fail(error)
    assert first is ended
    assert isinstance(token, Token)
    assert others == [(failed, error)]
    assert scheduler.places.num_free == 2


def test_a_text_that_could_outgrow_its_place_is_refused() -> None:
    scheduler = Scheduler(model_of("gpt2", None), 1, 10)
    scheduler.check(text_of(scheduler.model, Wanted((1, 2), Sampling(tokens=8))))
    with pytest.raises(InputError, match="at most 10 tokens here with its prompt, not 11"):
        scheduler.check(text_of(scheduler.model, Wanted((1, 2), Sampling(tokens=9))))
    only_scored = text_of(scheduler.model, Wanted((1,) * 10, Sampling(tokens=1), scored=True))
    only_scored.writes = False
    scheduler.check(only_scored)


def test_an_error_ends_texts_and_frees_their_places() -> None:
    scheduler = Scheduler(model_of("gpt2", None), 2, CONTEXT, TINY_PIECE)
    texts = [text_of(scheduler.model, Wanted(prompt, Sampling(tokens=4))) for prompt in ((1,), (2,) * 9)]
    for text in texts:
        scheduler.submit(text)
    scheduler.turn()
    error = RuntimeError("a fault")
    assert sorted(scheduler.fail(error), key=lambda each: texts.index(each[0])) == [(text, error) for text in texts]
    assert scheduler.places.num_free == 2


def test_logits_that_are_not_finite_end_a_text_with_an_error() -> None:
    model = build("gpt2").eval()
    model.head().data[:] = np.nan
    scheduler = Scheduler(model, 1, CONTEXT)
    scheduler.submit(text_of(model, Wanted((1,), Sampling())))
    ((_, event),) = scheduler.turn()
    assert isinstance(event, InputError)
    assert scheduler.num_served == 0
