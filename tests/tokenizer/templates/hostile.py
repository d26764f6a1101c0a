"""Chat templates that no honest author writes: each must be refused in one sentence, in bounded time and memory."""

from __future__ import annotations

TRACEBACKS = {
    "division by zero": "{{ 1 / 0 }}",
    "division of what is given": "{{ messages | length / (messages | length - 1) }}",
    "remainder of zero": "{{ 1 % 0 }}",
    "a number too large for a float": "{{ 10.0 ** 400 }}",
    "a number too large to print": "{{ 10 ** 5000 }}",
    "a missing key of a format": "{{ '%(absent)s' % {'a': 1} }}",
    "a missing name of a format": "{{ '{absent}'.format(a=1) }}",
    "a missing place of a format": "{{ '{5}'.format(1) }}",
    "a number where a text is": "{{ 'a' + 1 }}",
    "a call of a text": "{{ 'a'() }}",
    "a call of nothing": "{{ absent() }}",
    "a field of nothing": "{{ absent.field }}",
    "an index of nothing": "{{ messages[7].content.x }}",
    "a loop over a number": "{% for each in 5 %}{% endfor %}",
    "three names for two values": "{% for a, b, c in [(1, 2)] %}{% endfor %}",
    "a range of the sandbox's own limit": "{% for each in range(10 ** 6) %}{% endfor %}",
    "a range of texts": "{{ range('a') }}",
    "an unknown filter": "{{ messages | absent }}",
    "an unknown test": "{{ messages is absent }}",
    "a file to include": "{% include '/etc/passwd' %}",
    "a file to import": "{% import 'os' as os %}",
    "a parent": "{% extends 'base' %}",
    "a tag that does not end": "{% if messages %}",
    "an expression that does not end": "{{ messages",
    "no expression": "{% for %}",
    "what cannot be JSON": "{{ range | tojson }}",
    "options of JSON that it does not have": "{{ messages | tojson(cls=1, absent=2) }}",
    "a sum of texts": "{{ ['a', 'b'] | sum }}",
    "texts compared with numbers": "{{ ['a', 1] | sort }}",
    "Python's insides": "{{ messages.__class__.__mro__ }}",
    "Python's insides through a filter": "{{ (messages | attr('__class__')).mro() }}",
    "Python's insides through a format": "{{ '{0.__class__.__init__.__globals__}'.format(messages) + 1 }}",
    "a changed list": "{{ messages.append(1) }}",
    "its own refusal": "{{ raise_exception('no') }}",
    "a refusal with escape sequences": "{{ raise_exception('\\x1b]0;owned\\x07\\x1b[2J') }}",
    "a refusal of a megabyte": "{{ raise_exception('no ' * 350000) }}",
    "a refusal that is no text": "{{ raise_exception(messages) }}",
}

DEEP = {
    "a macro that calls itself": "{% macro again() %}{{ again() }}{% endmacro %}{{ again() }}",
    "two macros that call each other": "{% macro a() %}{{ b() }}{% endmacro %}{% macro b() %}{{ a() }}{% endmacro %}"
    "{{ a() }}",
    "a recursive loop over itself": "{% set l = [1] %}{% for each in l recursive %}{{ loop(l) }}{% endfor %}",
    "a thousand brackets": "{{ " + "(" * 1_000 + "1" + ")" * 1_000 + " }}",
    "ten thousand brackets": "{{ " + "[" * 10_000 + "]" * 10_000 + " }}",
    "ten thousand signs": "{{ " + "-" * 10_000 + "1 }}",
    "a thousand blocks": "{% if messages %}" * 1_000 + "{% endif %}" * 1_000,
}

LARGE = {
    "a repeated text": "{{ 'a' * 10 ** 10 }}",
    "a repeated list": "{{ ([0] * 10 ** 10) | length }}",
    "a text of a large width": "{{ '%10000000000d' % 1 }}",
    "a format of a large width": "{{ '{:10000000000}'.format(1) }}",
    "a centred text": "{{ 'a' | center(10 ** 10) }}",
    "a filled text": "{{ 'a'.zfill(10 ** 10) }}",
    "tabs of a large width": "{{ '\\t'.expandtabs(10 ** 9) }}",
    "a large indent": "{{ 'a\\nb' | indent(10 ** 10) }}",
    "a large indent of JSON": "{{ [messages] | tojson(indent=10 ** 10) }}",
    "a replaced text": "{% set a = 'a' * 10 ** 6 %}{{ a | replace('a', a) }}",
    "a joined text": "{% set a = 'a' * 10 ** 6 %}{{ a.join(a) }}",
    "a filled batch": "{{ [1] | batch(10 ** 10, 'x') | list }}",
    "a text that doubles": "{% set n = namespace(a='a') %}{% for i in range(60) %}{% set n.a = n.a ~ n.a %}{% endfor %}"
    "{{ n.a | length }}",
    "a list that doubles": "{% set n = namespace(a=[1]) %}{% for i in range(60) %}{% set n.a = n.a + n.a %}"
    "{% endfor %}",
    "many texts": "{% set n = namespace(a=[]) %}{% for i in range(99999) %}"
    "{% set n.a = n.a + [('a' * 10 ** 6) ~ i] %}{% endfor %}",
    "a long answer": "{% for i in range(99999) %}{{ 'a' * 1000 }}{% endfor %}",
}

ENDLESS = {
    "loops in loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}"
    "{% endfor %}{% endfor %}",
    "a power": "{{ 10 ** (10 ** 9) % 7 }}",
    "a power of a power": "{{ 9 ** (9 ** (9 ** 9)) }}",
    "a macro that branches": "{% macro f(n) %}{% if n %}{{ f(n - 1) }}{{ f(n - 1) }}{% endif %}{% endmacro %}"
    "{{ f(99) }}",
    "a search": "{% for a in range(99999) %}{{ ('a' * 10 ** 7).count('ab') or '' }}{% endfor %}",
    "much lorem ipsum": "{{ lipsum(n=10 ** 9, html=false) | length }}",
}

HOSTILE = TRACEBACKS | DEEP | LARGE | ENDLESS
