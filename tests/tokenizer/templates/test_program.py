import json
import subprocess
import sys

import pytest

from tokenizer.templates.renderer import PROGRAM

pytest.importorskip("jinja2")


def answers(*lines: object, bounds: tuple[float, int, int] = (10, 512, 100)) -> tuple[list[object], int]:
    """Return what the program answers, and its exit code."""
    given = "".join(json.dumps(line) + "\n" for line in lines)
    command = [sys.executable, "-P", str(PROGRAM), json.dumps(bounds)]
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    return [json.loads(line) for line in done.stdout.splitlines()], done.returncode


def test_the_program_answers_until_its_questions_end() -> None:
    assert answers("{{ a }}", {"a": 1}, {"a": "b"}) == ([{"text": ""}, {"text": "1"}, {"text": "b"}], 0)


def test_each_bound_is_named() -> None:
    count = "{% for i in range(9999) %}{% for j in range(9999) %}"
    endless = count + "{{ 'a'.center(10 ** 6)[:0] }}{% endfor %}{% endfor %}"
    form = "{% if slow %}" + endless + "{% endif %}{{ 'a' * n }}"
    found, _ = answers(form, {"n": 101}, {"n": 10**9}, {"n": 1})
    _, code = answers(form, {"slow": 1}, bounds=(1, 512, 100))
    long, large = "it writes 101 characters, more than 100", "it needs more than 512 MB of memory"
    assert found == [{"text": ""}, {"refused": long}, {"refused": large}, {"text": "a"}]
    assert code != 0  # faulthandler ends the process, and may crash while it prints where it was


def test_a_message_of_the_template_is_one_line_for_a_terminal() -> None:
    refused = answers("{{ raise_exception(' no\\n robots\\x1b[2J') }}", {})[0][1]
    assert refused == {"refused": "no robots\ufffd[2J"}


def test_what_other_programs_add_to_jinja_is_there() -> None:
    form = (
        "{% if tools is not none or documents is not none %}tools{% endif %}"
        "{% generation %}{{ a | tojson(ensure_ascii=False) }}{% endgeneration %}{{ a | tojson(True, 1) }}"
        "{% set x = 1 %}{% generation %}{% set x = 2 %}{% endgeneration %}{{ x }}"
    )
    assert answers(form, {"a": ["\u00e9"]})[0][1] == {"text": '["\u00e9"]' + '[\n "\\u00e9"\n]1'}
