"""Counters of the server, in the text format of Prometheus."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from minigrad.serving.served import Served

_HELP = {
    "requests_total": "requests by path and status of the reply",
    "prompt_tokens_total": "tokens of the prompts of requests",
    "generated_tokens_total": "tokens written",
    "first_token_seconds_sum": "seconds from entering the queue to the first token",
    "first_token_seconds_count": "requests that got a first token",
    "texts_served": "texts that are read or written now",
    "texts_waiting": "texts that wait for a place now",
    "places": "texts that can be read and written at once",
    "cache_bytes": "memory of the keys and values of all places",
}


class ServerMetrics:
    """Counters by name and labels.

    >>> metrics = ServerMetrics()
    >>> metrics.add("requests_total", path="/health", status="200")
    >>> print(metrics.page([]))
    # HELP minigrad_requests_total requests by path and status of the reply
    # TYPE minigrad_requests_total counter
    minigrad_requests_total{path="/health",status="200"} 1
    <BLANKLINE>
    """

    def __init__(self) -> None:
        self._counts = defaultdict[tuple[str, tuple[tuple[str, str], ...]], float](float)

    def add(self, name: str, amount: float = 1, **labels: str) -> None:
        """Add to a counter."""
        self._counts[name, tuple(labels.items())] += amount

    def page(self, models: Iterable[Served]) -> str:
        """Return all counters, and what the models do now."""
        values = dict(self._counts)
        for each in models:
            scheduler, label = each.scheduler, (("model", each.name),)
            values["texts_served", label] = scheduler.num_served
            values["texts_waiting", label] = scheduler.num_waiting
            values["places", label] = scheduler.count
            values["cache_bytes", label] = scheduler.places.cache.num_bytes
        lines = []
        for name, words in _HELP.items():
            found = [(labels, value) for (each, labels), value in values.items() if each == name]
            if found:
                kind = "counter" if name.endswith(("_total", "_sum", "_count")) else "gauge"
                lines += [f"# HELP minigrad_{name} {words}", f"# TYPE minigrad_{name} {kind}"]
                lines += [f"minigrad_{name}{{{_labels(labels)}}} {value:.12g}" for labels, value in found]
        return "\n".join(lines) + "\n"


def _labels(labels: tuple[tuple[str, str], ...]) -> str:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return ",".join(f'{name}="{escaped(value)}"' for name, value in labels)
