"""Samples: the same prompt every time, and draws that are a function of seed and step."""

from __future__ import annotations

from minigrad.training.reporting import samples


def test_a_sample_begins_with_the_prompt_and_depends_on_seed_and_step(make):
    run = make()
    written = [
        samples.write(run.model, run.text, seed=seed, step=step) for seed, step in ((0, 1), (0, 1), (0, 2), (1, 1))
    ]
    assert written[0] == written[1]
    assert len(set(written)) == 3
    prompt = run.text.tokenizer.decode(samples.prompt_of(run.text)[1:])
    assert all(each.startswith(prompt) for each in written)
