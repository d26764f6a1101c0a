"""The peers are optional: without PyTorch the models that are written in it are not looked at."""

from __future__ import annotations

import importlib.util

import pytest

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["torch_*.py"]


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    """Import no peer where none is compared: PyTorch would bring threads of its own into every process of the suite."""
    return True if "not peers" in config.option.markexpr else None
