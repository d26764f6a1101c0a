"""Samples: the same prompt every time, and draws that are a function of seed and step."""

from __future__ import annotations

from minigrad.training import validation


def test_a_sample_begins_with_the_prompt_and_depends_on_seed_and_step(make):
    run = make()
    draws = ((0, 1), (0, 1), (0, 2), (1, 1))
    written = [validation.continuation(run.model, run.text, seed=seed, step=step) for seed, step in draws]
    assert written[0] == written[1]
    assert len(set(written)) == 3
    prompt = run.text.tokenizer.decode(validation.prompt_of(run.text)[1:])
    assert all(each.startswith(prompt) for each in written)


def test_the_seed_of_a_run_draws_its_samples(make):
    assert validation.write_sample(make(seed=1)) != validation.write_sample(make(seed=2))
