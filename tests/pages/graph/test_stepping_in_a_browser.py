"""What the script of a stepped page does: it starts complete, and buttons, keys, slider and list go through it.

The rule that it follows is tested without a browser, in test_stepping.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from minigrad import Tensor, step_through
from tests.browser import Browser, needs_a_browser, started

pytestmark = needs_a_browser

LAST = 7  # of the computation below
SEEN = """(() => {
  const graph = document.querySelector(".graph-steps"), slider = graph.querySelector("input");
  const visible = (part) => getComputedStyle(part).visibility === "visible";
  return {
    step: Number(slider.value),
    told: slider.getAttribute("aria-valuetext"),
    marked: [...graph.querySelectorAll("li.now")].map((each) => each.textContent),
    steps: [...graph.querySelectorAll("li")].map((each) => each.textContent),
    working: graph.querySelectorAll("rect.now").length,
    numbers: [...graph.querySelectorAll("text")].filter(visible).map((each) => each.textContent),
  };
})()"""


def residual(w: Tensor, x: Tensor) -> Tensor:
    h = w * x
    return h.tanh() + h


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    folder = tmp_path_factory.mktemp("browser")
    with started(folder / "profile") as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Browser:
    text = step_through(residual, w=0.5, x=2.0)
    (tmp_path / "page.html").write_text(f"<!doctype html><meta charset='utf-8'>{text}", encoding="utf-8")
    browser.open(tmp_path / "page.html")
    return browser


def click(page: Browser, which: str) -> None:
    """Click in the middle of a part of the page, as a hand would."""
    x, y = page.run(f"""(() => {{ const part = document.querySelector(`{which}`); part.scrollIntoView();
        const box = part.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; }})()""")
    for kind in ("mousePressed", "mouseReleased"):
        page.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)


def step(page: Browser) -> int:
    seen = page.run(SEEN)
    number: int = seen["step"]
    assert seen["marked"] == [seen["told"]] == [seen["steps"][number]]  # the list and a screen reader say the same
    return number


def test_it_starts_complete_with_its_controls_shown(page: Browser) -> None:
    seen = page.run(SEEN)
    assert seen["step"] == LAST
    assert seen["told"] == "multiply₁ passes on 2.84 to w and 0.71 to x."
    assert seen["numbers"].count("gradient") == 5
    assert page.run("getComputedStyle(document.querySelector('.graph-steps p')).display") == "flex"


def test_the_buttons_go_one_step_and_around(page: Browser) -> None:
    forward, back = "[aria-label='one step forward']", "[aria-label='one step back']"
    found = []
    for button in (forward, forward, back, back, back):
        click(page, button)
        found.append(step(page))
    assert found == [0, 1, 0, LAST, LAST - 1]


def test_a_click_in_the_list_shows_what_is_known_at_that_step(page: Browser) -> None:
    click(page, ".graph-steps li:nth-child(2)")
    seen = page.run(SEEN)
    assert step(page) == 1
    assert seen["numbers"] == ["w", "0.5", "x", "2", "multiply₁", "1"]
    assert seen["working"] == 1
    click(page, ".graph-steps li:nth-child(6)")
    assert page.run(SEEN)["numbers"].count("gradient") == 3  # that of multiply₁ is only the part that has arrived


def test_keys_alone_reach_and_move_everything(page: Browser) -> None:
    reached = []
    for _ in range(3):
        page.press("Tab", 9)
        reached.append(page.run("document.activeElement.getAttribute('aria-label')"))
    assert reached == ["one step back", "step of the computation", "one step forward"]
    page.run("document.querySelector('.graph-steps input').focus()")
    found = []
    for key, code in (("Home", 36), ("ArrowRight", 39), ("ArrowUp", 38), ("ArrowLeft", 37), ("End", 35)):
        page.press(key, code)
        found.append(step(page))
    assert found == [0, 1, 2, 1, LAST]


def test_two_pictures_on_a_page_are_moved_each_by_itself(browser: Browser, tmp_path: Path) -> None:
    text = step_through(residual, w=0.5, x=2.0) + step_through(lambda a: a * a, a=3.0)
    (tmp_path / "page.html").write_text(f"<!doctype html><meta charset='utf-8'>{text}", encoding="utf-8")
    browser.open(tmp_path / "page.html")
    click(browser, ".graph-steps:last-of-type button:last-of-type")
    assert browser.run("[...document.querySelectorAll('.graph-steps input')].map((each) => each.value)") == ["7", "0"]
