"""Serve models to any client of OpenAI's API: ``python -m minigrad.serving runs/vidya-v2-nano``.

A program, like train.py: it brings together the model families, their tokenizers and a server.
"""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # during the imports Ctrl-C ends the program without a traceback

import errno
import importlib.util
import socket
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from minigrad.cli.exits import exit_code
from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.serving.settings import ServeConfig
from minigrad.system import hardware
from minigrad.system.cache import tell_if_nothing_is_kept
from minigrad.system.files import distinct_names, reason
from minigrad.system.limits import check_limits
from minigrad.system.signals import raise_on_interrupt
from minigrad.system.terminal import installation, phase, prepare_output, printable, say
from minigrad.system.units import format_bytes, plural
from minigrad.training.folder.record import was_taught_to_talk
from models.pretrained import find_runs

if TYPE_CHECKING:  # the command line is read before NumPy and the rest are imported
    from minigrad.serving.served import Served

PROGRAM = "python -m minigrad.serving"
_BEGUN = 100  # connections that the system accepts before the server does


def serve(config: ServeConfig) -> None:
    """Serve models until Ctrl-C or SIGTERM; raises InputError if a folder, an address or a setting cannot be used."""
    raise_on_interrupt()
    config = find_runs(config)
    config.check()
    for package in ("starlette", "uvicorn"):
        if importlib.util.find_spec(package) is None:
            raise InputError(f"{package} is not installed; run: {installation('[serve]')}")
    with listen(config) as listener:
        hardware.prepare(config.threads)
        check_limits(hardware.threads())
        tell_if_nothing_is_kept()
        from minigrad.serving.api import Api
        from minigrad.serving.server import Server

        models = load(config)
        for each in models:
            say(f"[{each.name}: {places(each)}]", sys.stderr)
        host = f"[{config.host}]" if ":" in config.host else config.host
        address, port = listener.getsockname()[:2]
        site = f"http://{host}:{port}"
        say(f"[serving at {site}/v1, the playground at {site}; Ctrl-C ends it]", sys.stderr)
        Server(Api(models, config, address)).run(sockets=[listener])
        raise KeyboardInterrupt  # nothing else ends it; a shell may have told its background programs to ignore it


def listen(config: ServeConfig) -> socket.socket:
    """Return a socket that listens; raises InputError if the port is taken, or the address is not this machine's."""
    family = socket.AF_INET6 if ":" in config.host else socket.AF_INET
    try:
        config.host.encode("idna")
    except UnicodeError:
        raise InputError(f"cannot listen on {config.host}: this is not the name of a computer") from None
    try:
        return socket.create_server((config.host, config.port), family=family, backlog=_BEGUN)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(f"another program uses port {config.port}: end it, or give another --port") from None
        raise InputError(f"cannot listen on {config.host}, port {config.port}: {reason(error)}") from None


def load(config: ServeConfig) -> list[Served]:
    """Load the models, and compute with each once, so that no client waits for a kernel to be compiled."""
    with phase("loading", sys.stderr):
        import models
        import tokenizer
        from minigrad.serving.served import Served, warm_up
        from tokenizer.errors import TokenizerError

        found = []
        for run, name in zip(config.runs, map(printable, distinct_names(config.runs)), strict=True):
            model, tok = models.load(run, quantize=config.quantize), tokenizer.load(run)
            model.cache_format = config.cache_format
            try:
                form = tokenizer.load_chat(run, tok)
            except TokenizerError as error:  # a model of texts, or jinja2 is missing
                form = None
                say(f"[{run} writes texts but cannot hold conversations: {error}]", sys.stderr)
            budget = config.cache_megabytes * 2**20 // len(config.runs)
            found.append(Served.within(name, model, tok, form, config, budget))
            try:
                found[-1].taught = was_taught_to_talk(Path(run))
            except InputError as error:  # a damaged record, which only training needs
                say(f"[whether {run} was taught to converse is not known: {error}]", sys.stderr)
            warm_up(found[-1].scheduler)
    return found


def places(model: Served) -> str:
    """Describe how many texts a model writes at once, and the memory that their keys and values take."""
    scheduler = model.scheduler
    kind = "chats and texts" if model.converses else "texts"
    count, length = plural(scheduler.count, "place"), plural(scheduler.capacity, "token")
    return f"{count} for {kind}, each of up to {length}; caches of {format_bytes(scheduler.places.cache.num_bytes)}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 1 (a fault), 2 (bad input) or 130 (Ctrl-C); SIGTERM ends it."""
    prepare_output()
    parser = Parser(
        ServeConfig,
        prog=PROGRAM,
        description="Serve models to any client of OpenAI's API.",
        aliases={"max_model_len": "context", "max_num_seqs": "texts", "key": "api_key", "address": "host"},
    )
    less_memory = "take a smaller model, or less --cache-megabytes"
    return exit_code(PROGRAM, lambda: serve(parser.read(arguments)[0]), interrupted="stopped", less_memory=less_memory)


if __name__ == "__main__":
    sys.exit(main())
