"""Let transformers open a run: ``python -m minigrad.formats.transformers runs/vidya-v2-nano``."""

from __future__ import annotations

import signal

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # during the imports Ctrl-C ends the program without a traceback

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from minigrad.cli.exits import exit_code
from minigrad.cli.parser import Parser
from minigrad.errors import InputError
from minigrad.formats.huggingface import config_path, require_floats
from minigrad.formats.json_files import read_json, write_json
from minigrad.options import REQUIRED, option, shown
from minigrad.system.files import write_text
from minigrad.system.locks import FolderLock
from minigrad.system.signals import raise_on_interrupt
from minigrad.system.terminal import prepare_output, say

PROGRAM = "python -m minigrad.formats.transformers"

FILES = ("configuration_vidya_v2.py", "modeling_vidya_v2.py")
CLASSES = {
    "AutoConfig": "configuration_vidya_v2.VidyaV2Config",
    "AutoModelForCausalLM": "modeling_vidya_v2.VidyaV2ForCausalLM",
}
"""The entry auto_map of config.json: the class that transformers takes from each file."""


@dataclass(frozen=True)
class TransformersConfig:
    """Which folder to complete."""

    run: str = option(REQUIRED, "the folder of a Vidya v2 with shifted keys or added values", positional=True)


def export(config: TransformersConfig) -> None:
    """Write the files into the folder, and their classes into its config.json.

    Raises InputError if the folder holds a model that transformers opens without them, or cannot open even with them,
    for a file of the same name with another content, which is left as it is, and if another process writes into the
    folder.
    """
    folder = Path(config.run)
    path = config_path(folder)
    with FolderLock() as lock:
        lock.take(folder)
        values = read_json(path)
        _check(values, path)
        for name in FILES:
            if (file := folder / name).exists() and file.read_bytes() != _template(name).encode():
                raise InputError(f"{file} has another content and is not overwritten; move it away first")
        for name in FILES:
            write_text(folder / name, _template(name))
        write_json(path, values | {"auto_map": CLASSES})
    say(f'AutoModelForCausalLM.from_pretrained("{folder}", trust_remote_code=True) opens it, by {" and ".join(FILES)}')


def _check(values: Mapping[str, Any], path: Path) -> None:
    """Raise InputError unless `values`, the content of the config.json at `path`, describe a model for these files."""
    kind = values.get("model_type")
    if kind in ("llama", "gpt2"):
        raise InputError(f"{path} is of model_type {kind}: transformers opens the folder as it is")
    if kind != "vidya-v2":
        raise InputError(f"{path} is of model_type {shown(kind)}; there are files for Vidya v2 alone")
    if "num_local_experts" in values:
        raise InputError(f"{path} describes experts (num_local_experts), and the files for transformers have none")
    require_floats(values, path)


def _template(name: str) -> str:
    return (Path(__file__).parent / "vidya_v2" / f"{name}.txt").read_text(encoding="utf-8")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, 1 (a fault), 2 (bad input) or 130 (Ctrl-C)."""
    raise_on_interrupt()
    prepare_output()
    description = "Write the Python files with which transformers opens a Vidya v2 that is not a Llama into its folder."
    parser = Parser(TransformersConfig, prog=PROGRAM, description=description)
    return exit_code(
        PROGRAM,
        lambda: export(parser.read(arguments)[0]),
        interrupted="interrupted",
        less_memory="close other programs",
    )


if __name__ == "__main__":
    sys.exit(main())
