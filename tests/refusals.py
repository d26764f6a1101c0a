"""What a function says when it refuses its arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from minigrad.errors import InputError


def refusal(function: Callable[..., Any], *arguments: Any, **options: Any) -> str:
    """Call a function, which must raise InputError, and return what it says."""
    with pytest.raises(InputError) as caught:
        function(*arguments, **options)
    return str(caught.value)
