"""A request becomes texts: as many as wanted, as long as wanted, or one clear refusal."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import models
from minigrad import InputError
from minigrad.serving.bodies import RefusedError, read_chat, read_completion
from minigrad.serving.scheduler import Scheduler
from minigrad.serving.served import Served, warm_up
from minigrad.serving.settings import ServeConfig

Make = Callable[..., Served]


def completion(**fields: Any) -> Any:
    return read_completion(json.dumps({"prompt": "a"} | fields).encode())[0]


def chat(**fields: Any) -> Any:
    return read_chat(json.dumps({"messages": [{"role": "user", "content": "a"}]} | fields).encode())[0]


def test_each_prompt_gets_n_texts_with_the_draws_of_a_seed(make_served: Make) -> None:
    texts = make_served().texts(completion(n=2, seed=7, temperature=0.5, stop="be"), [[1], [2, 3]], "me", None)
    assert [(text.prompt, text.continuation.sample) for text in texts] == [([1], 0), ([1], 1), ([2, 3], 0), ([2, 3], 1)]
    assert {(text.client, text.scored, text.writes) for text in texts} == {("me", False, True)}
    sampling = texts[0].continuation.rules.sampling
    assert (sampling.seed, sampling.temperature, sampling.stop, sampling.tokens) == (7, 0.5, ("be",), 16)


DRAW = {
    "temperature": 0.7,
    "top_p": 0.8,
    "top_k": 3,
    "min_p": 0.1,
    "presence_penalty": 0.2,
    "frequency_penalty": 0.3,
    "repetition_penalty": 1.4,
}


@pytest.mark.parametrize("body", [completion(**DRAW), chat(**DRAW)])
def test_tokens_are_drawn_as_the_request_says(make_served: Make, body: Any) -> None:
    (text,) = make_served().texts(body, [[1]], "me", None)
    assert {name: getattr(text.continuation.rules.sampling, name) for name in DRAW} == DRAW


def test_a_top_p_of_0_leaves_the_most_likely_token(make_served: Make) -> None:
    sampling = make_served().texts(completion(top_p=0), [[1]], "me", None)[0].continuation.rules.sampling
    assert (sampling.temperature, sampling.top_p) == (0, 1)


@pytest.mark.parametrize(
    ("body", "alternatives"),
    [
        (completion(), None),
        (completion(logprobs=3), 3),
        (chat(), None),
        (chat(logprobs=True), 0),
        (chat(logprobs=True, top_logprobs=2), 2),
    ],
)
def test_alternatives_are_listed_where_they_are_wanted(make_served: Make, body: Any, alternatives: int | None) -> None:
    (text,) = make_served().texts(body, [[1]], "me", None)
    assert text.continuation.rules.sampling.alternatives == alternatives


@pytest.mark.parametrize("off", [{}, {"top_k": 0, "min_p": 0.0}, {"top_k": -1, "min_p": 0}])
def test_limits_of_the_draw_are_off_as_on_other_servers(make_served: Make, off: dict[str, float]) -> None:
    sampling = make_served().texts(completion(**off), [[1]], "me", None)[0].continuation.rules.sampling
    assert (sampling.top_k, sampling.min_p) == (None, None)


def test_a_negative_seed_is_a_seed_of_its_own(make_served: Make) -> None:
    served = make_served()
    seeds = [
        served.texts(completion(seed=seed), [[1]], "me", None)[0].continuation.rules.sampling.seed for seed in (-1, 1)
    ]
    assert seeds == [2**63 - 1, 1]


def test_without_a_seed_the_draws_are_other_ones_each_time(make_served: Make) -> None:
    served = make_served()
    seeds = {served.texts(completion(), [[1]], "me", None)[0].continuation.rules.sampling.seed for _ in range(4)}
    assert len(seeds) == 4
    same = served.texts(completion(n=2), [[1], [1]], "me", None)
    first, again, other, _ = (text.continuation.rules.sampling.seed for text in same)
    assert first == again != other


def test_a_conversation_for_which_the_template_writes_nothing_is_refused(
    make_served: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = make_served()

    class Silent:
        def encode(self, messages: Any, add_generation_prompt: bool) -> list[int]:
            return []

    monkeypatch.setattr(served, "form", Silent())
    with pytest.raises(RefusedError, match="the chat template writes nothing for these messages"):
        served.encode_messages([{"role": "system", "content": "be brief"}])
    (text,) = served.texts(completion(), [[]], "me", 4)
    with pytest.raises(InputError, match="a text has a prompt of at least one token"):
        served.scheduler.check(text)


@pytest.mark.parametrize(
    ("body", "most", "tokens"),
    [
        (completion(), None, 16),
        (completion(max_tokens=50), None, 50),
        (completion(), 5, 5),
        (completion(max_tokens=5), 5, 5),
        (chat(), None, 90),
        (chat(max_tokens=4), None, 4),
        (chat(max_tokens=4, max_completion_tokens=6), None, 6),
    ],
)
def test_a_text_has_the_tokens_wanted_or_the_usual_number(
    make_served: Make, body: Any, most: int | None, tokens: int
) -> None:
    (text,) = make_served(capacity=100).texts(body, [[1] * 10], "me", most)
    assert text.continuation.left == tokens


@pytest.mark.parametrize(
    ("body", "prompt", "most", "message"),
    [
        (completion(max_tokens=91), 10, None, "at most 100 tokens here; the prompt has 10, and max_tokens is 91"),
        (completion(), 100, None, "a prompt and its text have at most 100 tokens here; the prompt alone has 100"),
        (completion(max_tokens=0, echo=True), 101, None, "the prompt alone has 101"),
        (chat(max_completion_tokens=91), 10, None, "and max_completion_tokens is 91"),
        (completion(max_tokens=6), 10, 5, "max_tokens takes at most 5 here, not 6"),
        (completion(max_tokens=0), 10, None, "or 0 with echo"),
        (chat(max_tokens=0), 10, None, "at least 1 here, not 0"),
    ],
)
def test_too_many_tokens_are_refused(make_served: Make, body: Any, prompt: int, most: int | None, message: str) -> None:
    with pytest.raises(RefusedError, match=message):
        make_served(capacity=100).texts(body, [[1] * prompt], "me", most)


def test_an_echo_without_tokens_only_scores_the_prompt(make_served: Make) -> None:
    (text,) = make_served().texts(completion(max_tokens=0, echo=True, logprobs=0), [[1, 2]], "me", None)
    assert text.scored
    assert not text.writes
    served = make_served(capacity=100)
    assert served.texts(completion(max_tokens=0, echo=True), [[1] * 100], "me", None)  # as long as a place
    (text,) = served.texts(completion(logprobs=0), [[1, 2]], "me", None)
    assert not text.scored  # without an echo nobody sees the scores


def test_prompts_begin_like_documents_and_ids_stay(make_served: Make) -> None:
    served = make_served()
    ids, beginning = served.encode("to be")
    assert (ids[0], beginning) == (served.tokenizer.end_of_text_id, 1)
    assert served.encode([5, 6]) == ([5, 6], 0)
    with pytest.raises(RefusedError, match="from 0 to 319, not 5 to 320"):
        served.encode([5, 320])


def test_ids_without_a_token_are_refused(make_served: Make) -> None:
    tok = make_served().tokenizer
    model = models.build("vidya-v2", size="nano", vocab_size=tok.vocab_size + 8, num_layers=1, context_length=64)
    served = Served("wide", model, tok, Scheduler(model, 1, 64))
    with pytest.raises(RefusedError, match="from 0 to 319, not 5 to 320"):
        served.encode([5, 320])


def test_a_model_converses_if_its_tokenizer_has_a_form_and_it_may_have_been_taught(make_served: Make) -> None:
    hello = [{"role": "user", "content": "Hi"}]
    served = make_served()
    assert served.encode_messages(hello)[-1] == served.tokenizer.specials["<|assistant|>"]
    without_form = make_served(teaches=False)
    with pytest.raises(RefusedError, match="has no form of conversations"):
        without_form.encode_messages(hello)
    assert served.converses
    assert not without_form.converses
    served.taught = False
    assert not served.converses
    assert served.encode_messages(hello)  # a client may ask all the same


def test_places_are_bounded_by_memory(make_served: Make) -> None:
    served = make_served()
    each = served.model.new_cache(1, 64).num_bytes
    config = ServeConfig(runs=("a",), texts=8, context=64)

    def count(budget: int) -> int:
        made = Served.within("a", served.model, served.tokenizer, None, config, budget)
        assert made.scheduler.places.cache.num_bytes <= budget
        return made.scheduler.count

    assert (count(each), count(3 * each), count(100 * each)) == (1, 3, 8)
    with pytest.raises(InputError, match="give a smaller --context or more --cache-megabytes"):
        count(each - 1)


def test_a_context_longer_than_the_models_is_refused(make_served: Make) -> None:
    served = make_served()
    config = ServeConfig(runs=("a",), context=513)
    with pytest.raises(InputError, match="--context 513 is more than the 512 of a"):
        Served.within("a", served.model, served.tokenizer, None, config, 2**30)
    whole = Served.within("a", served.model, served.tokenizer, None, replace(config, context=512), 2**30)
    assert whole.scheduler.capacity == 512


@pytest.mark.parametrize("capacity", [100, 200])
def test_warming_up_leaves_every_place_free(make_served: Make, capacity: int) -> None:
    served = make_served(count=3, capacity=capacity)  # of less or more than a piece of a prompt
    warm_up(served.scheduler)
    assert served.scheduler.places.num_free == 3
