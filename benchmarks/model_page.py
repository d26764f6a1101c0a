"""The page with the model inside, in a Chromium without a window: its size, its speed, and how near it is to Python.

    python benchmarks/model_page.py --run runs/vidya-v2-nano
    python benchmarks/model_page.py --run runs/vidya-v2-nano --formats float16 --tokens 200

For each format of weights: the bytes of the page; the seconds from opening it to the first token; tokens per second,
the best of several texts, by the clock and by the processor's time of the page alone; the largest difference of a logit
from Python's with the same weights; and whether the same greedy tokens are written. Run with nothing else on the
machine.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from machine import describe_machine

PROMPT, TURNS = "The list type", 3


def idle(browser: Any) -> None:
    """Wait until the page has written."""
    while browser.run("view.isBusy || view.left > 0"):
        time.sleep(0.01)


def processor_seconds(browser: Any) -> float:
    """Return the time that the page has used its thread for."""
    found = {each["name"]: each["value"] for each in browser.call("Performance.getMetrics")["metrics"]}
    return float(found["TaskDuration"])


def measured(browser: Any, run: str, format: str, tokens: int, folder: Path) -> dict[str, Any]:
    """Return the figures of a run in one format."""
    import generate
    import models
    import tokenizer
    from minigrad import generation
    from minigrad.generation.decoding import document
    from minigrad.programs.decoder import Decoder

    page = folder / f"{format}.html"
    settings = ["--prompt", PROMPT, "--tokens", str(tokens), "--temperature", "0"]
    assert generate.main([run, "--page", str(page), "--quantize", format, *settings]) == 0
    start = time.perf_counter()
    browser.open(page)
    browser.run("view.write(1)")
    idle(browser)
    first, speeds, shares = time.perf_counter() - start, [], []
    for _ in range(TURNS):
        browser.run(f"view.edit({PROMPT!r})")
        idle(browser)
        used, start = processor_seconds(browser), time.perf_counter()
        browser.run(f"view.write({tokens})")
        idle(browser)
        speeds.append(tokens / (time.perf_counter() - start))
        shares.append(tokens / (processor_seconds(browser) - used))
    model, tok = models.load(run, quantize=format), tokenizer.load(run)
    ids = browser.run("view.reader.ids")
    prompt = document(tok, PROMPT)
    drawn = generation.stream(model, prompt, tokenizer=tok, tokens=tokens, temperature=0)
    cache, decoder, worst = model.new_cache(1, len(ids)), Decoder(model), 0.0
    browser.run("view.reader.machine.cut(0)")
    for token in ids:
        expected = decoder.step([token], cache)[0]
        found = browser.run(f"Array.from(view.reader.machine.read({token}))")
        worst = max(worst, float(np.abs(np.array(found) - expected).max()))
    return {
        "format": format,
        "megabytes": page.stat().st_size / 1e6,
        "seconds_to_first_token": first,
        "tokens_per_second": max(speeds),
        "tokens_per_processor_second": max(shares),
        "largest_difference_of_a_logit": worst,
        "same_greedy_tokens": ids[len(prompt) :] == [int(token) for token in drawn],
        "other_requests": len(set(browser.requests)) - 1,
        "errors": len(browser.errors),
    }


def main() -> None:
    """Measure each format and print a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run", required=True, help="a run folder whose weights are not quantised")
    parser.add_argument("--formats", nargs="+", default=["float16", "int8"])
    parser.add_argument("--tokens", type=int, default=200)
    arguments = parser.parse_args()
    from tests.browser import started

    print(json.dumps(describe_machine()))
    with tempfile.TemporaryDirectory() as folder, started(Path(folder) / "profile") as browser:
        browser.call("Performance.enable", timeDomain="threadTicks")
        for format in arguments.formats:
            print(json.dumps(measured(browser, arguments.run, format, arguments.tokens, Path(folder))))


if __name__ == "__main__":
    main()
