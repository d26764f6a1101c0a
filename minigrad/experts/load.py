"""The load of a model's experts in its report: whether the router uses them all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from minigrad.pages.chart import Series, captioned, thinned

_TITLE = "Load of the experts, 1 is an equal share"
_EXPLAINED = (
    "Each token passes through a few experts of each layer. The curves show the experts that the most and the fewest "
    "tokens of a step passed through, of all layers, relative to an equal share. An expert near 0 has learned to be "
    "left out, and its parameters are wasted; the balance loss works against that."
)


def section(records: Sequence[Mapping[str, Any]]) -> str:
    """Return a section of the report from the lines of metrics.jsonl; "" if no line has a load."""
    loads = {int(each["step"]): _relative(each) for each in records}
    steps = thinned([step for step, load in loads.items() if load])
    if not steps:
        return ""
    busiest = Series("busiest expert", steps, [max(loads[step]) for step in steps])
    idlest = Series("idlest expert", steps, [min(loads[step]) for step in steps])
    chart = captioned(_TITLE, [busiest, idlest], references=[("equal", 1.0)])
    return f"<section>{chart}</section><p>{_EXPLAINED}</p>"


def measured(records: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the names of the loads of the layers in lines of metrics.jsonl."""
    return [*dict.fromkeys(name for each in records for name in each if name.startswith("expert_load_"))]


def _relative(record: Mapping[str, Any]) -> list[float]:
    """Return the load of every expert of every layer relative to an equal share."""
    layers = [record[name] for name in measured([record])]
    return [share * len(load) for load in layers for share in load if share is not None]
