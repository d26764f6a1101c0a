"""The peers are optional: without PyTorch the models that are written in it are not looked at."""

from __future__ import annotations

import importlib.util

collect_ignore_glob = [] if importlib.util.find_spec("torch") else ["torch_*.py"]
