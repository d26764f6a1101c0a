"""How a program learns that mpiexec started it in several processes, and how these end.

Without mpiexec, MPI is not loaded. Only the output of the first process appears.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import platform
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from minigrad.distributed.mpi import Processes
from minigrad.distributed.world import ALONE, World, check_agreement
from minigrad.errors import RunError
from minigrad.system.terminal import installation, to_standard_error

_VARIABLES = (
    ("PMI_RANK", "PMI_SIZE"),  # MPICH, Intel MPI, Microsoft MPI
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),  # Open MPI
    ("PMIX_RANK", "SLURM_NTASKS"),  # Slurm's srun
)
"""The environment variables in which a launcher says the number of a process and how many there are."""

_processes: Processes | None = None  # MPI begins once in a process


def started_as() -> tuple[int, int]:
    """Return the number of this process and how many were started together, from the environment; (0, 1) if alone."""
    for rank, size in _VARIABLES:
        values = os.environ.get(rank, ""), os.environ.get(size, "")
        if all(value.isdecimal() for value in values):
            return int(values[0]), int(values[1])
    return 0, 1


def connect() -> World:
    """Return the processes that were started together with this one; all of them must call this.

    Raises RunError if mpi4py or an MPI is missing, or if the MPI does not belong to the mpiexec that was used.
    """
    global _processes
    _, size = started_as()
    if size == 1:
        return ALONE
    if _processes is None:
        _processes = _connect(size)
        check_agreement(_processes, _versions())
    return _processes


def _connect(size: int) -> Processes:
    install = f"install both with: {installation('[distributed]')}"
    try:
        from mpi4py import MPI
    except ImportError as error:
        raise RunError(f"mpiexec started {size} processes, which need mpi4py and an MPI ({error}); {install}") from None
    except RuntimeError as error:  # mpi4py found no MPI library
        reason = " ".join(str(error).split())
        raise RunError(f"mpiexec started {size} processes, but mpi4py found no MPI ({reason}); {install}") from None
    if MPI.COMM_WORLD.size != size:
        own = Path(sys.executable).with_name("mpiexec")
        library = MPI.Get_library_version().split("\n")[0].strip()
        raise RunError(
            f"mpiexec started {size} processes, but the MPI of this Python ({library}) connects "
            f"{MPI.COMM_WORLD.size}: the mpiexec belongs to another MPI. Start with {own}"
        )
    return Processes(MPI.COMM_WORLD)


def _versions() -> dict[str, str]:
    """Return what must be equal in all processes before they compute anything together."""
    packages = {f"the version of {name}": version(name) for name in ("numpy", "numba")}
    root, program = Path(__file__).parents[2], hashlib.blake2b(digest_size=8)
    rooms = [path for room in ("minigrad", "models", "tokenizer") for path in (root / room).rglob("*.py")]
    for path in sorted([*rooms, *root.glob("train.py")]):
        program.update(path.read_bytes())
    return {
        "the version of Python": platform.python_version(),
        **packages,
        "the program (a hash of its files)": program.hexdigest(),
    }


def run_together(program: Callable[[Callable[[str], object]], int]) -> int:
    """Run a program that returns its exit code, in this process and in those started with it; return the code.

    The program gets the function to report its end to, instead of printing it: a message appears once, whether one
    process failed or all did.
    """
    rank, size = started_as()
    if size == 1:
        return program(to_standard_error)
    said: list[str] = []
    with contextlib.ExitStack() as stack:
        if rank > 0:
            nowhere = stack.enter_context(open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123  (no path on every system)
            stack.enter_context(contextlib.redirect_stdout(nowhere))
        try:
            code = program(said.append)
        except Exception:
            said.append(traceback.format_exc())
            code = 1
        message = "\n".join(said)
        if _processes is not None:
            _processes.leave(code, message)
        elif rank == 0 and message:
            to_standard_error(message)
    return code
