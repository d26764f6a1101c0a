"""The settings of the server: one field is one flag."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from minigrad.errors import InputError
from minigrad.generation.settings import ComputeSettings
from minigrad.options import REQUIRED, Group, option, validate


@dataclass(frozen=True, kw_only=True)
class ServedModelSettings(ComputeSettings):
    """Which models are served, and how they compute."""

    runs: tuple[str, ...] = option(
        REQUIRED,
        "run folders, Hugging Face folders, or names of models that come with minigrad, such as vidya-v2-nano; clients "
        "name a model by its folder",
        positional=True,
        value="RUN",
        filled=True,
    )

    def check(self) -> None:
        """Raise InputError for a folder that is given twice."""
        if len({Path(run).resolve() for run in self.runs}) < len(self.runs):
            raise InputError("a folder is given twice; each model is served once")


@dataclass(frozen=True, kw_only=True)
class PlaceSettings(Group):
    """How many texts a model writes at once."""

    heading: ClassVar[str] = "places"

    texts: int = option(64, "texts that a model writes at once, at most", at_least=1, at_most=1024)
    context: int | None = option(
        None,
        "the most tokens that a text may have with its prompt; at most the context of every model",
        at_least=2,
        at_most=10**9,
        none_means="the model's context",
    )
    cache_megabytes: int = option(
        1024, "memory for the keys and values of all texts, shared equally by the models", at_least=1, at_most=10**7
    )


@dataclass(frozen=True, kw_only=True)
class NetworkSettings(Group):
    """Who may call the server."""

    heading: ClassVar[str] = "network"

    host: str = option("127.0.0.1", "the address to listen on; 0.0.0.0 lets other machines call", filled=True)
    port: int = option(8000, "the port to listen on; 0 chooses a free one", at_least=0, at_most=65535)
    api_key: str | None = option(None, "the key that clients must send", value="KEY", none_means="none", filled=True)
    allow_origin: tuple[str, ...] = option(
        (), "let the pages of this web site call; may be given several times", value="URL", filled=True
    )


@dataclass(frozen=True, kw_only=True)
class LimitSettings(Group):
    """What a request may ask of the server."""

    heading: ClassVar[str] = "limits"

    queue: int = option(
        256,
        "texts that may wait for a place; further ones are refused (429), and so is a request for more than that (400)",
        at_least=1,
        at_most=10**6,
    )
    max_tokens: int | None = option(
        None, "tokens that a text may have after its prompt", at_least=1, at_most=10**9, none_means="up to --context"
    )
    body_kilobytes: int = option(1024, "size of a request", at_least=1, at_most=10**6)
    seconds: float = option(600.0, "time for a request, including its wait", above=0, at_most=10**6)


@dataclass(frozen=True, kw_only=True)
class ServeConfig(LimitSettings, NetworkSettings, PlaceSettings, ServedModelSettings):
    """The settings of python -m minigrad.serving.

    >>> ServeConfig(runs=("runs/vidya-v2-nano",)).host
    '127.0.0.1'
    """

    def __post_init__(self) -> None:
        validate(self)
        if self.api_key is not None and not (self.api_key.isascii() and self.api_key.isprintable()):
            raise InputError("--api-key takes printable characters of ASCII: clients encode others in different ways")
        if self.api_key is not None and self.api_key != self.api_key.strip():
            raise InputError("--api-key begins or ends with a space, which is cut from the header of a request")
        for origin in self.allow_origin:
            if origin not in ("*", "null") and re.fullmatch(r"[a-z][a-z0-9+.-]*://[^/?#A-Z]+", origin) is None:
                example = "https://example.com, in small letters and without a path"
                raise InputError(f"--allow-origin {origin} must be like {example}, or * for all, or null for files")
