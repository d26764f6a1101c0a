"""Save and restore a run: its checkpoint, and the model for other programs, written while training goes on.

Training pauses only for as long as it takes to copy the weights and the moments. The copy is written, so the file does
not depend on how far training has come meanwhile. One write takes place at a time: the next one waits for it.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from minigrad.adapters.files import save, trained
from minigrad.formats.weights import check_weights
from minigrad.kernels.threads import over_rows
from minigrad.nn.language_model import LanguageModel
from minigrad.nn.parameter import Parameter
from minigrad.optim import Optimizer
from minigrad.training.folder import checkpoint
from minigrad.training.folder.checkpoint import Checkpoint
from minigrad.training.folder.run_folder import RunFolder
from minigrad.typing import Array, Tokenizer

Arrays = dict[str, Array]
Write = Callable[[Arrays], object]
"""Writes files from copies of arrays; raises RunError if it cannot."""


class Writer:
    """A thread that writes, and the memory of the copies, which is used again for every snapshot.

    Inside its block, a write that failed is reported by `check`, and the block does not end before the last write has.
    """

    def __init__(self) -> None:
        self._copies: Arrays = {}
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Wait for the last write; its error is raised, unless another one ends the block."""
        self.join()
        if kind is None:
            self.check()

    def begin(self, arrays: Mapping[str, Array], write: Write) -> None:
        """Wait for an earlier write, copy the arrays, and begin to `write` the copies.

        Raises the error of the earlier write if it failed.
        """
        self.wait()
        copies = self._copied(arrays)
        self._thread = threading.Thread(target=self._run, args=(write, copies), name="minigrad-writer", daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Wait until the last write has ended; raises its error if it failed."""
        self.join()
        self.check()

    def check(self) -> None:
        """Raise the error of a write that has failed; do not wait for one that is going on."""
        error, self._error = self._error, None
        if error is not None:
            raise error

    def join(self) -> None:
        """Wait until the last write has ended, whatever became of it."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def _run(self, write: Write, copies: Arrays) -> None:
        try:
            write(copies)
        except BaseException as error:
            self._error = error

    def _copied(self, arrays: Mapping[str, Array]) -> Arrays:
        """Return copies of the arrays, in the memory of earlier copies where it fits."""
        for name, array in arrays.items():
            known = self._copies.get(name)
            if known is None or (known.shape, known.dtype) != (array.shape, array.dtype):
                self._copies[name] = np.empty_like(array, order="C")
        pairs = [(self._copies[name], array) for name, array in arrays.items()]

        def copy_some(start: int, stop: int) -> None:
            for copy, array in pairs[start:stop]:
                np.copyto(copy, array)

        over_rows(copy_some, len(pairs), sum(array.size for array in arrays.values()) // max(len(pairs), 1))
        return {name: self._copies[name] for name in arrays}


class ModelFiles(NamedTuple):
    """A model as it is written for other programs: in the published format, with its tokenizer."""

    folder: RunFolder
    model: LanguageModel
    tokenizer: Tokenizer
    base: str | None  # the folder of the model that adapters belong to

    def write(self, weights: Mapping[str, Array], folder: Path) -> None:
        """Write the model with these weights into a folder; raises RunError if it cannot be written."""
        save(self.model, folder, base=self.base, weights=weights)
        self.folder.keep_tokenizer(self.tokenizer, folder)


class Snapshot(NamedTuple):
    """A run after a step: the arrays that it trains, what it keeps beside them, and its state."""

    step: int
    weights: Arrays
    kept: Arrays  # the moments of the optimizer and the arrays of guests
    state: dict[str, Any]
    published: Callable[[Arrays, Arrays], Arrays]  # the weights for other programs, from copies of the two


def save_run(snapshot: Snapshot, files: ModelFiles, writer: Writer, *, is_best: bool) -> None:
    """Begin to write the model for other programs, and then a checkpoint, from copies.

    In this order a run that is killed between the two takes its last steps again and writes both; after a checkpoint of
    the last step nothing is left to do, and an older model would stay. The best model is written as that too.
    """
    folder = files.folder
    folder.check()

    def write(copies: Arrays) -> None:
        weights, kept = ({name: copies[name] for name in names} for names in (snapshot.weights, snapshot.kept))
        published = snapshot.published(weights, kept)
        for place in (folder.path, *([folder.best] if is_best else [])):
            files.write(published, place)
        checkpoint.save(folder.path, snapshot.step, weights=weights, moments=kept, state=snapshot.state)
        folder.world.last_word(folder.last_word())

    writer.begin(snapshot.weights | snapshot.kept, write)


def save_best(model: LanguageModel, files: ModelFiles, writer: Writer) -> None:
    """Begin to write a model, from a copy, as the best one."""
    files.folder.check()
    writer.begin(trained(model), functools.partial(files.write, folder=files.folder.best))


def restore(saved: Checkpoint, model: LanguageModel, optimizer: Optimizer, arrays: Arrays, updates: int) -> None:
    """Copy what a checkpoint holds into a model, its optimizer and the `arrays` of guests.

    `updates` is the number of updates that the optimizer has made. Raises InputError if something does not fit.
    """
    dtype = model.head().dtype
    check_weights(saved.weights, {name: each.shape for name, each in trained(model).items()}, dtype)
    shapes = {f"{name}.{kind}": each.shape for name, each, kinds in _named(model, optimizer) for kind in kinds}
    shapes |= {name: array.shape for name, array in arrays.items()}
    # Muon once kept second moments of its matrices, which are zero.
    empty = {name for name, each in saved.moments.items() if name.endswith(".v") and not each.any()} - shapes.keys()
    kept = {name: array for name, array in saved.moments.items() if name not in empty}
    check_weights(kept, shapes, dtype)
    model.load_state_dict(model.state_dict() | saved.weights)
    load_moments(model, optimizer, kept, updates)
    for name, array in arrays.items():
        array[...] = kept[name]


def load_moments(model: LanguageModel, optimizer: Optimizer, moments: Mapping[str, Array], updates: int) -> None:
    """Set the moments of an optimizer, named as by `moments_of`, and its number of updates; what is missing is 0."""
    optimizer.load_moments(
        [
            [moments.get(f"{name}.{kind}", np.zeros(parameter.shape)) for kind in kinds]
            for name, parameter, kinds in _named(model, optimizer)
        ]
    )
    optimizer.steps = updates


def moments_of(model: LanguageModel, optimizer: Optimizer) -> Arrays:
    """Return the moments by names such as "norm.weight.m"; all in the first process, none in the others."""
    return {
        f"{name}.{kind}": array
        for (name, _, kinds), arrays in zip(_named(model, optimizer), optimizer.moments(), strict=False)
        for kind, array in zip(kinds, arrays, strict=True)
    }


def _named(model: LanguageModel, optimizer: Optimizer) -> list[tuple[str, Parameter, tuple[str, ...]]]:
    """Return each parameter that is trained, with its name and the names of its moments."""
    named = [(name, each) for name, each in model.named_parameters() if each.requires_grad]
    return [(name, each, optimizer.moments_kept(each)) for name, each in named]
