"""The counters are in the text format of Prometheus."""

from __future__ import annotations

import re
from collections.abc import Callable
from unittest.mock import Mock

from minigrad.serving.metrics import ServerMetrics
from minigrad.serving.served import Served


def test_the_page_has_counters_and_what_models_do(make_served: Callable[..., Served]) -> None:
    metrics = ServerMetrics()
    metrics.add("generated_tokens_total", 5, model="tiny")
    metrics.add("generated_tokens_total", 2, model="tiny")
    metrics.add("requests_total", path='a"b\\c\n', status="200")
    served = make_served(count=3)
    served.scheduler.submit(Mock())
    page = metrics.page([served])
    assert 'minigrad_generated_tokens_total{model="tiny"} 7\n' in page
    assert 'minigrad_places{model="tiny"} 3\n' in page
    assert 'minigrad_texts_waiting{model="tiny"} 1\n' in page
    assert 'minigrad_texts_served{model="tiny"} 0\n' in page
    assert 'path="a\\"b\\\\c\\n"' in page
    line = r'(# (HELP|TYPE) .+|minigrad_\w+\{(\w+="([^"\\]|\\.)*",?)*\} [0-9.e+]+)'
    assert all(re.fullmatch(line, each) for each in page.splitlines())
