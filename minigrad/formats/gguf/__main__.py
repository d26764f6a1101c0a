"""Write a run as a GGUF file: ``python -m minigrad.formats.gguf runs/gpt2-nano --type q8_0``."""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # during the imports Ctrl-C ends the program without a traceback

import errno
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import tokenizer
from minigrad.cli.exits import exit_code
from minigrad.cli.parser import Parser
from minigrad.errors import InputError, RunError
from minigrad.formats.gguf import container
from minigrad.formats.gguf.container import STORAGES, StoredTensor, storage_for
from minigrad.formats.gguf.network import read_network
from minigrad.formats.gguf.vocabulary import describe_vocabulary
from minigrad.options import REQUIRED, option
from minigrad.system.files import check_new_file, reason, replacing
from minigrad.system.signals import raise_on_interrupt
from minigrad.system.terminal import prepare_output, say
from minigrad.system.units import format_bytes
from models.pretrained import find_runs
from tokenizer.chat import template_of

PROGRAM = "python -m minigrad.formats.gguf"

_FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7}  # llama.cpp's numbers for the type of most arrays of a file


@dataclass(frozen=True)
class GGUFConfig:
    """What to write."""

    run: str = option(
        REQUIRED,
        "the folder of a GPT-2, of a Llama, or of a Vidya v2 trained with --set key_shift=false",
        positional=True,
        value="RUN",
    )
    type: str = option("f16", "the type of the matrices: 32, 16 or 8.5 bits per element", choices=tuple(STORAGES))
    out: str | None = option(None, "the file to write", value="FILE", none_means="RUN/model-TYPE.gguf")


def export(config: GGUFConfig) -> Path:
    """Write the GGUF file and return its path; it appears under its name only when it is complete.

    Raises InputError if something is there already or the folder cannot be used, RunError if writing fails.
    """
    folder = Path(find_runs(config).run)
    path = folder / f"model-{config.type}.gguf" if config.out is None else Path(config.out)
    network = read_network(folder)
    check_new_file(path)
    vocabulary = tokenizer.load(folder).vocabulary
    try:
        described = describe_vocabulary(vocabulary, network.vocab_size)
    except InputError as error:
        raise InputError(f"the tokenizer in {folder}: {error}") from None
    metadata: dict[str, container.Value] = {
        **network.metadata,
        "general.file_type": _FILE_TYPES[config.type],
        "general.quantization_version": 2,
        **described,
    }
    template, _ = template_of(folder)
    if template:
        metadata["tokenizer.chat_template"] = template
    tensors = {name: StoredTensor(each, storage_for(name, each, config.type)) for name, each in network.arrays.items()}
    try:
        with replacing(path) as temporary, temporary.open("wb") as file:
            container.write(file, metadata, tensors)
    except OSError as error:
        kind = InputError if error.errno == errno.ENAMETOOLONG else RunError
        raise kind(f"cannot write {path}: {reason(error)}") from error
    counts = {name: sum(each.storage == name for each in tensors.values()) for name in STORAGES}
    kinds = ", ".join(f"{count} as {name}" for name, count in counts.items() if count)
    say(f"{path}: {format_bytes(path.stat().st_size)}, {len(tensors)} arrays ({kinds})")
    return path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, 1 (a fault), 2 (bad input) or 130 (Ctrl-C)."""
    raise_on_interrupt()
    prepare_output()
    parser = Parser(GGUFConfig, prog=PROGRAM, description="Write a run as a GGUF file, which llama.cpp runs.")
    return exit_code(
        PROGRAM,
        lambda: export(parser.read(arguments)[0]),
        interrupted="interrupted",
        less_memory="close other programs",
    )


if __name__ == "__main__":
    sys.exit(main())
