"""The figures that a reader changes: by keyboard and pointer, with the numbers of the library, from files alone."""

from __future__ import annotations

import dataclasses
import itertools
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import models
import tokenizer
from docs.extensions import figure_files
from minigrad import Tensor, generation, no_grad, optim
from minigrad.generation.decoding import document
from minigrad.generation.sampling import distribution
from minigrad.nn import RotaryAngles
from minigrad.pages.explain import attention_weights, logit_lens, trace
from minigrad.pages.explain.attention import ATTENTIONS
from minigrad.pages.model_page.export import export
from tests.browser import Browser, needs_a_browser, started
from tests.source_files import PAGES

pytestmark = [pytest.mark.docs, pytest.mark.filterwarnings("default")]

Open = Callable[[str], Browser]
TEXT = "the other representation of the thing, " * 20


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with started(tmp_path_factory.mktemp("browser")) as browser:
        yield browser


@pytest.fixture(scope="module")
def tok() -> tokenizer.Tokenizer:
    return tokenizer.train([TEXT], vocab_size=290)


LIKE_SHOWN = {"key_shift": True, "value_residual": True}  # as in the model that the figures show


def test_the_model_of_these_tests_has_the_shape_of_the_one_that_the_figures_show() -> None:
    shown, here = models.load(figure_files.MODEL).config, models.configure("vidya-v2", "nano", **LIKE_SHOWN)
    text = {"vocab_size": here.vocab_size, "context_length": here.context_length}  # which are not those of the shape
    assert dataclasses.replace(shown, **text) == here


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, tok: tokenizer.Tokenizer) -> Path:
    folder = tmp_path_factory.mktemp("run")
    models.build("vidya-v2", "nano", **LIKE_SHOWN, vocab_size=290, num_layers=4, context_length=64, init_std=0.3).save(
        folder
    )
    tok.save(folder)
    return folder


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, run: Path) -> Path:
    folder = tmp_path_factory.mktemp("site") / "figures"
    shutil.copytree(figure_files.SCRIPTS, folder)
    (folder / "engine.js").write_text(figure_files.engine(), encoding="utf-8")
    for name, text in figure_files.trained(run):
        (folder / name).write_text(text, encoding="utf-8")
    return folder


@pytest.fixture
def opened(browser: Browser, site: Path) -> Iterator[Open]:
    """Return a function that opens a page with one figure, on a phone."""

    def opened(name: str) -> Browser:
        scripts = "".join(f"<script src={each}.js defer></script>" for each in ("shared", name))
        head = "<!doctype html><meta charset=utf-8><meta name=viewport content=width=device-width>"
        place = figure_files.place_of(name).replace("|", "<p>What to do.</p>")
        page = site / f"{name}.html"
        page.write_text(f"{head}<link rel=stylesheet href=figures.css>{place}{scripts}", encoding="utf-8")
        browser.resize(360, phone=True)
        browser.open(page)
        browser.until("document.querySelector('.status')?.textContent")
        browser.until("[...document.querySelectorAll('[role=img] > g')].every((each) => each.childElementCount)")
        return browser

    yield opened
    assert browser.errors == []
    assert all(each.startswith(("file:", "data:")) for each in browser.requests)
    assert browser.run("document.documentElement.scrollWidth") == 360


def status(page: Browser) -> str:
    said: str = page.run("document.querySelector('.status').textContent")
    return said


def numbers(text: str) -> list[float]:
    return [float(each) for each in re.findall(r"\d+\.\d+", text)]


def slide(page: Browser, name: str, value: float) -> None:
    """Move the slider with a name that begins so."""
    page.run(f"""(() => {{
      const row = [...document.querySelectorAll('.slider')].find((each) => each.textContent.startsWith({name!r}));
      row.control.value = {value};
      row.control.dispatchEvent(new Event('input'));
    }})()""")


def press(page: Browser, name: str) -> None:
    page.run(f"[...document.querySelectorAll('button')].find((each) => each.textContent === {name!r}).click()")


def losses(start: tuple[float, float], rates: tuple[float, float, float]) -> list[float]:
    """Return the losses after 60 steps, as the chapter computes them."""
    first, second, third = rates
    makers: list[Callable[[Any], Any]] = [
        lambda w: optim.SGD(w, lr=first),
        lambda w: optim.SGD(w, lr=second, momentum=0.8),
        lambda w: optim.AdamW(w, lr=third, betas=(0.8, 0.95), weight_decay=0.0),
    ]
    steepness, found = np.array([1.0, 30.0]), []
    for make in makers:
        w = Tensor(np.array(start, np.float64), requires_grad=True)
        optimizer = make([w])
        for _ in range(60):
            ((w * w * steepness).sum() * 0.5).backward()
            optimizer.step()
            optimizer.zero_grad()
        found.append(float((0.5 * steepness * w.data**2).sum()))
    return found


@needs_a_browser
def test_the_optimizers_of_the_figure_are_those_of_the_library(opened: Open) -> None:
    page = opened("descent")
    assert numbers(status(page)) == pytest.approx(losses((-9, 2), (0.06, 0.03, 0.5)), rel=0.06)
    page.run("document.querySelector('.handle').focus()")
    for key, code in (("ArrowRight", 39), ("ArrowDown", 40)):
        page.press(key, code)
    assert "flat weight -8.5, steep weight 1.75" in page.run("document.activeElement.getAttribute('aria-label')")
    slide(page, "AdamW", 0.3)
    assert numbers(status(page)) == pytest.approx(losses((-8.5, 1.75), (0.06, 0.03, 0.3)), rel=0.06)
    slide(page, "SGD", 0.066)
    assert "out of the valley" not in status(page)
    slide(page, "SGD", 0.072)
    assert "SGD out of the valley" in status(page)


@needs_a_browser
def test_the_point_is_dragged_and_the_race_begins_there(opened: Open) -> None:
    page = opened("descent")
    x, y = page.run("""(() => { const box = document.querySelector('.handle').getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2]; })()""")
    for kind, across in (("mousePressed", 0), ("mouseMoved", 30), ("mouseMoved", 60), ("mouseReleased", 60)):
        page.call("Input.dispatchMouseEvent", type=kind, x=x + across, y=y, button="left", buttons=1, clickCount=1)
    label = "document.querySelector('.handle').getAttribute('aria-label')"
    page.until(f"parseFloat({label}.split('flat weight ')[1]) > -7")  # both moves have arrived
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    slide(page, "step", 3)
    assert status(page).startswith("Loss after 3 steps")
    press(page, "Race")
    page.until("document.querySelector('.status').textContent.startsWith('Loss after 60 steps')")
    page.call("Emulation.setEmulatedMedia", features=[])


@needs_a_browser
def test_the_score_of_the_dials_depends_on_the_distance_alone(opened: Open) -> None:
    def score(distance: int, base: float) -> float:
        return float(np.cos(distance * RotaryAngles(16, theta=base).frequencies).sum())

    page = opened("rotary")
    before = status(page)
    assert before.startswith("Distance 3:")
    assert numbers(before) == [round(score(3, 10_000), 2)]
    press(page, "one on ▶")
    assert page.run("[...document.querySelectorAll('.slider input')].slice(0, 2).map((each) => each.value)") == [
        "13",
        "10",
    ]
    assert status(page) == before
    slide(page, "position of key", 2)
    slide(page, "base", 1)
    assert numbers(status(page)) == [abs(round(score(11, 10), 2))]
    # What the chapter answers:
    assert min(score(distance, 10) for distance in range(65)) < 0 < min(score(d, 10_000) for d in range(65))


def fetches(order: str, room: int, block: int = 12, steps: int = 12**3) -> int:
    """Return how often a product of 12 x 12 matrices fetches a line of 4 numbers, if a cache holds some lines."""
    held, count = dict[tuple[int, int, int], None](), 0
    outer, inner = (list(itertools.product(range(size), repeat=3)) for size in (12 // block, block))
    for begin, place in itertools.islice(itertools.product(outer, inner), steps):
        at = {name: block * first + second for name, first, second in zip(order, begin, place, strict=True)}
        for matrix, (row, column) in enumerate(("ik", "kj", "ij")):
            line = matrix, at[row], at[column] // 4
            count += line not in held
            held.pop(line, None)
            held[line] = None
            if len(held) > room:
                del held[next(iter(held))]
    return count


@needs_a_browser
def test_the_cache_of_the_figure_fetches_what_such_a_cache_fetches(opened: Open) -> None:
    def counts() -> list[int]:
        return [int(each.replace(",", "")) for each in re.findall(r"[\d,]*\d", status(page))]

    page = opened("caches")
    assert counts() == [3, fetches("ijk", 12)]
    for name, order, block in (("textbook", "ijk", 12), ("loop order", "ikj", 12), ("blocks", "ikj", 4)):
        press(page, name)
        for room, steps in ((3, 1_000), (15, 40), (16, 1_728), (108, 1_728)):
            slide(page, "lines", room)
            slide(page, "steps", steps)
            assert counts() == [fetches(order, room, block, steps), fetches(order, room, block)]
    # What the chapter answers:
    second = fetches("ikj", 16)
    assert [fetches("ijk", room) <= second for room in (14, 15, 16, 17)] == [False, False, True, True]
    assert fetches("ijk", 108) == 108
    slide(page, "lines", 4)
    slide(page, "steps", 1)
    assert (
        page.run("[...document.querySelectorAll('rect')].filter((e) => getComputedStyle(e).fillOpacity == 1).length")
        == 3
    )
    page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": "reduce"}])
    press(page, "Play")
    page.until("document.querySelector('.slider output').textContent === '1,728'")
    page.call("Emulation.setEmulatedMedia", features=[])


@needs_a_browser
def test_the_threads_of_the_figure_take_the_time_of_the_formulas(opened: Open) -> None:
    def times(compute: float, operations: int, meeting: float, weights: float, threads: int) -> list[float]:
        divided = compute / threads + operations * meeting / 1_000
        replicas = compute / threads + meeting / 1_000 + threads * weights / 10
        return [divided, compute / divided, replicas, compute / replicas]

    page = opened("replicas")
    assert numbers(status(page)) == pytest.approx(times(60, 300, 20, 4, 2), abs=0.051)
    for name, value in (("threads", 4), ("computing", 2), ("operations", 1), ("a meeting", 3), ("weights", 2)):
        slide(page, name, value)
    assert numbers(status(page)) == pytest.approx(times(100, 10, 1_000, 100, 4), abs=0.051)
    bars = page.run("[...document.querySelectorAll('rect')].map((each) => Number(each.getAttribute('width')))")
    assert len(bars) == 16  # of each thread, both ways: the time until all have met, and the time of adding
    assert bars[0] / bars[8] == pytest.approx(35 / 26, rel=0.01)
    assert bars[12] / bars[8] == pytest.approx(40 / 26, rel=0.01)
    # What the chapter answers:
    for threads, weights in ((2, 30), (4, 15)):
        found = times(60, 300, 20, weights, threads)
        assert found[0] == pytest.approx(found[2], rel=0.01)


@needs_a_browser
def test_the_tree_ends_in_the_tokens_of_the_text(opened: Open, tok: tokenizer.Tokenizer) -> None:
    def roots() -> list[str]:
        found: list[str] = page.run("[...document.querySelectorAll('.tree .root')].map((each) => each.textContent)")
        return [each.replace("·", " ") for each in found]

    page = opened("merges")
    for text in (" representation", "the rest of them", ""):
        page.run(f"document.querySelector('.field input').value = {text!r}")
        page.run("document.querySelector('.field input').dispatchEvent(new Event('input'))")
        assert roots() == [tok.decode([number]) for number in tok.encode(text)]
    page.run("document.querySelector('.field input').value = ' the'")
    page.run("document.querySelector('.field input').dispatchEvent(new Event('input'))")
    page.run("document.querySelector('.tree .root').click()")
    merges = list(tok.vocabulary.merges)
    number = next(n for n, (left, right) in enumerate(merges, 1) if left + right == b" the")
    assert f"merge {number} of {len(merges)}" in status(page)
    counts = []
    for _ in range(3):
        press(page, "◀ one back")
        counts.append(len(roots()))
    assert counts == [2, 3, 4]
    press(page, "one merge ▶")
    assert len(roots()) == 3


def write(page: Browser, text: str) -> None:
    page.run(f"document.querySelector('.field input').value = {text!r}")
    page.run("document.querySelector('.field input').dispatchEvent(new Event('input'))")


@needs_a_browser
def test_the_bars_are_the_distribution_of_the_library(opened: Open, run: Path, tok: tokenizer.Tokenizer) -> None:
    page, model, text = opened("sampling"), models.load(run, quantize="int8"), "the thing"
    write(page, text)
    with no_grad():
        logits = model([[tok.end_of_text_id, *tok.encode(text)]]).data[0, -1]
    settings = generation.Sampling(temperature=2, top_k=30, top_p=0.95, min_p=0.01)
    for name, value in (("temperature", 2), ("top-k", 30), ("top-p", 0.95), ("min-p", 0.01)):
        slide(page, name, value)
    expected = distribution(logits, settings)
    shares = page.run(
        "[...document.querySelectorAll('.bars li')].map((each) => Number(each.style.getPropertyValue('--drawn')))"
    )
    np.testing.assert_allclose(shares[:-1], np.sort(expected)[::-1][:10], atol=1e-3)
    assert sum(shares) == pytest.approx(1)
    assert np.count_nonzero(expected) > 1
    assert status(page) == f"{np.count_nonzero(expected)} tokens may be drawn."
    slide(page, "temperature", 0)
    press(page, "Draw a token")
    assert page.run("document.querySelector('.field input').value").startswith(
        text + tok.decode([int(logits.argmax())])
    )


@needs_a_browser
def test_a_row_of_attention_has_the_numbers_of_the_library(opened: Open, run: Path, tok: tokenizer.Tokenizer) -> None:
    page, text = opened("attention"), "the other the other"
    write(page, text)
    ids = [tok.end_of_text_id, *tok.encode(text)]
    found = trace(models.load(run, quantize="int8"), ids, ATTENTIONS)
    press(page, "2.2")
    page.run("document.querySelector('.tokens [aria-checked=true]').focus()")
    for key, code in (("ArrowLeft", 37), ("ArrowLeft", 37)):
        page.press(key, code)
    place = len(ids) - 3
    assert page.texts(".tokens [aria-checked=true]") == [tok.decode([ids[place]]).replace(" ", "·")]
    weights = attention_weights(next(each for each in found.operations if each.layer == 1))[place][1, : place + 1]
    cells = "(row) => [...row.children].map((each) => each.textContent)"
    rows = page.run(f"[...document.querySelectorAll('tbody tr')].slice(1, -1).map({cells})")
    assert [row[0] for row in rows] == ["start", *(tok.decode([each]).replace(" ", "·") for each in ids[1 : place + 1])]
    np.testing.assert_allclose([float(row[3].rstrip("%")) for row in rows], 100 * weights, atol=0.6)
    scores = np.array([float(row[2]) for row in rows])
    np.testing.assert_allclose(np.exp(scores) / np.exp(scores).sum(), weights, atol=0.02)
    x, y = page.run("""(() => { const box = document.querySelectorAll('.tokens button')[1].getBoundingClientRect();
        return [box.x + box.width / 2, box.y + box.height / 2]; })()""")
    page.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
    page.until("document.querySelectorAll('tbody tr').length === 4")  # the query, two tokens, the sum


@needs_a_browser
def test_the_lens_has_the_answers_of_the_library_after_each_layer(
    opened: Open, run: Path, tok: tokenizer.Tokenizer
) -> None:
    page, model, text = opened("lens"), models.load(run, quantize="int8").eval(), "the other the"
    write(page, text)
    ids = document(tok, text)
    found = logit_lens(model, trace(model, ids, ATTENTIONS))
    page.run("document.querySelectorAll('tbody tr')[0].querySelectorAll('button')[0].click()")
    page.run("document.activeElement.blur(); document.querySelector('.lens [tabindex=\"0\"]').focus()")
    for layer in range(5):
        for place in range(len(ids)):
            said = status(page)
            where = f"after layer {layer}:" if layer else "the embedding alone:"
            assert where in said
            name = tok.decode([found.tokens[layer, place]]).replace(" ", "·")
            if name:  # the page never names an id that the tokenizer does not use
                assert "\ufffd" in name or f": “{name}” " in said
                share = float(re.findall(r"([\d.]+)%", said)[0])
                assert share == pytest.approx(100 * found.probabilities[layer, place], abs=0.6)
            assert ("which does follow" in said) == (place + 1 < len(ids))
            page.press("ArrowRight", 39)
        for _ in ids:
            page.press("ArrowLeft", 37)
        page.press("ArrowDown", 40)


def test_the_shipped_model_expects_the_comma_after_the_fourth_layer() -> None:
    """The question of the figure, in docs/course/generating.md."""
    model, tok = models.load(figure_files.MODEL, quantize="int8").eval(), tokenizer.load(figure_files.MODEL)
    found = logit_lens(model, trace(model, document(tok, "def __init__(self"), ATTENTIONS))
    assert [tok.decode([each]) for each in found.tokens[:, -1]] == ["self", ".", ".", ".", ",", ",", ","]


def shares(weights: np.ndarray, ids: list[int]) -> list[float]:
    """Return how much of the weights (T, T) of a head goes where, as the figure says it, in percent."""
    places = range(1, len(ids))
    followed = [[j for j in range(2, t + 1) if ids[j - 1] == ids[t]] for t in places]
    again = [weights[t][where].sum() for t, where in zip(places, followed, strict=True) if ids[t] in ids[1:t]]
    kinds = [weights.diagonal()[1:], weights.diagonal(-1), weights[1:, 0], *([again] if again else [])]
    return [100 * float(np.mean(kind)) for kind in kinds]


@needs_a_browser
def test_the_maps_of_the_heads_have_the_weights_of_the_library(
    opened: Open, run: Path, tok: tokenizer.Tokenizer
) -> None:
    page, model = opened("heads"), models.load(run, quantize="int8").eval()
    for text in ("the other the other thing", "of the"):
        write(page, text)
        ids = document(tok, text)
        for each in trace(model, ids, ATTENTIONS).operations:
            weights = attention_weights(each)
            for head in range(weights.shape[1]):
                press(page, f"{each.layer + 1}.{head + 1}")
                assert status(page).startswith(f"Head {each.layer + 1}.{head + 1}: ")
                said = [float(share) for share in re.findall(r"([\d.]+)%", status(page))]
                assert said == pytest.approx(shares(weights[:, head], ids), abs=0.6)
    page.run("document.querySelector('.maps [aria-checked=true]').focus()")
    page.press("ArrowLeft", 37)
    assert page.run("document.activeElement.getAttribute('aria-checked')") == "true"
    count = len(ids) * (len(ids) + 1) // 2
    assert page.run("document.querySelectorAll('.touch > svg rect').length") == count


def test_three_heads_of_the_shipped_model_read_what_followed_before() -> None:
    """The question of the figure, in docs/course/copying.md."""
    model, tok = models.load(figure_files.MODEL, quantize="int8").eval(), tokenizer.load(figure_files.MODEL)

    def found(text: str, place: int) -> dict[str, float]:
        ids = document(tok, text)
        each = {op.layer + 1: attention_weights(op) for op in trace(model, ids, ATTENTIONS).operations}
        heads = [(layer, head) for layer, weights in each.items() for head in range(weights.shape[1])]
        return {f"{layer}.{head + 1}": shares(each[layer][:, head], ids)[place] for layer, head in heads}

    copying = ["4.1", "6.1", "6.2"]
    followed = found("the cat sat on the mat, the cat sat on the mat", 3)
    assert [name for name, share in followed.items() if share > 50] == copying
    beginning = found("a list is mutable and so has no hash", 2)
    assert min(beginning["4.1"], beginning["6.2"]) > 60
    assert beginning["6.1"] < 40


@needs_a_browser
def test_the_model_in_motion_answers_as_the_library_after_each_layer(
    opened: Open, run: Path, tok: tokenizer.Tokenizer
) -> None:
    page, model, text = opened("motion"), models.load(run, quantize="int8").eval(), "the other the"
    write(page, text)
    ids = document(tok, text)
    found = logit_lens(model, trace(model, ids, ATTENTIONS))
    steps = "document.querySelectorAll('.steps button')"
    for layer, end in enumerate((17, 33, 49, 64), 1):
        page.run(f"{steps}[{end}].click()")
        assert status(page).startswith(f"Step {end + 1} of 67, layer {layer} of 4: multiply by a matrix, and")
        answer, chance = found.tokens[layer, -1], found.probabilities[layer, -1]
        shown = page.run("document.querySelector('p.mono').textContent").split(": ")[1]
        name = tok.decode([answer]).replace(" ", "·")
        assert "\ufffd" in name or shown.startswith(name)  # a part of a character has its byte as its name
        assert float(re.findall(r"([\d.]+)%", shown)[0]) == pytest.approx(100 * chance, abs=0.6)
    press(page, "◀ one back")
    assert "layer 4 of 4: let each unit say its part" in status(page)
    page.run(f"{steps}[22].click()")
    assert "layer 2 of 4: add the values of the first layer" in status(page)
    page.run(f"{steps}[10].click()")
    weights = attention_weights(next(each for each in trace(model, ids, ATTENTIONS).operations if each.layer == 0))[-1]
    shares = page.texts(".touch div.soft > div")
    assert [float(re.findall(r"([\d.]+)%", each)[0]) for each in shares] == pytest.approx(
        [100 * head.max() for head in weights], abs=0.6
    )


def test_the_steps_that_the_chapter_names_end_the_first_and_the_fifth_layer() -> None:
    """The answer beside the figure, in docs/course/vidya.md."""
    table, _ = export(models.load(figure_files.MODEL, quantize="int8").eval())
    additions = [n for n, step in enumerate(table["steps"], 1) if step[0] == "LINEAR" and step[2] == 0 and step[7]]
    assert (additions[1], additions[9]) == (18, 82)  # two in each layer


def test_every_figure_is_in_a_chapter() -> None:
    shown = [
        name
        for page in PAGES
        for name in re.findall(r"^```{touch} (\w+)$", page.read_text("utf-8"), flags=re.MULTILINE)
    ]
    assert sorted(shown) == sorted({path.stem for path in figure_files.SCRIPTS.glob("*.js")} - {"shared"})
