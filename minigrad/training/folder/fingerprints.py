"""Hashes of the data of a run: a run that continues compares them to see whether its text is still the same."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from minigrad.data.split import digest_of
from minigrad.data.tokens.token_files import TokenFile, TokenMixture
from minigrad.data.tokens.tokenized import TokenizedCorpus
from minigrad.distributed.agreement import check_agreement
from minigrad.distributed.world import World
from minigrad.errors import InputError
from minigrad.training.folder.record import FILE, Record, stored
from minigrad.training.settings import TrainConfig

_PART = 1 << 22  # tokens that are hashed at a time


def fingerprints(text: TokenizedCorpus, lessons: str = "", base: str = "") -> dict[str, str]:
    """Return the hashes of a run's data, under the names of their fields in the record.

    `lessons` is the hash of the lessons, `base` that of the weights which adapters leave as they are.
    """
    texts = {"text": fingerprint(text.train), "validation_text": fingerprint(text.validation)}
    texts["test_text"] = of_test(text.corpus.split().test)
    return texts | {"lessons": lessons, "base": base}


def check_processes_agree(world: World, settings: TrainConfig, found: Mapping[str, str]) -> None:
    """Raise InputError if processes have other settings, or read something with other `fingerprints`.

    Their numbers of threads may differ.
    """
    if world.size > 1:
        facts = {f"--{name.replace('_', '-')}": value for name, value in stored(settings).items()}
        texts = {f"the {name.replace('_', ' ')}, by its hash": value for name, value in found.items()}
        check_agreement(world, texts | facts | {"--threads": None})


def difference(record: Record, found: Mapping[str, str]) -> str:
    """Return what a run would now read that it did not read before, in words; "" if there is no such thing.

    `found` are the `fingerprints` of now.
    """
    name = record.text_name
    if record.text != found["text"]:
        if found["test_text"] and not record.test_text:  # the run began before there was a test
            return f"the text of {name}, and a part of it is now held out for the test,"
        return f"the text of {name} or the tokenizer"
    if record.base != found["base"]:
        return f"the model in {record.used['init']}"
    if record.lessons != found["lessons"]:
        return f"what {record.data} teaches"
    if record.validation_text not in ("", found["validation_text"]):
        return f"the validation text of {record.used.get('held_out') or name}"
    return ""


def check_beginnings(settings: TrainConfig, test: Iterable[str]) -> None:
    """Raise InputError if a test is wanted, and a model of --init or --teacher was trained on some of its text.

    Such a model is of a run on the same text with another test text, or started from the model of such a run.
    """
    found, folders = of_test(test), [settings.init, settings.teacher] if settings.test else []
    while folders:
        folder = folders.pop()
        if folder is not None and (Path(folder) / FILE).is_file():
            record = Record.read(Path(folder))
            if record.text_name == settings.text and record.test_text != found:
                raise InputError(
                    f"the model in {folder} was trained on text that is now for the test, so a test would tell "
                    "nothing: leave out --test"
                )
            folders += [record.used.get("init"), record.used.get("teacher")]


def of_test(documents: Iterable[str]) -> str:
    """Return a hash of test documents, for which they need not be tokens; "" where there are none."""
    documents = tuple(documents)
    return digest_of(documents) if documents else ""


def fingerprint(tokens: TokenFile | TokenMixture) -> str:
    """Return a hash of the tokens of one text or of several: it changes with the text and with the tokenizer."""
    digest = hashlib.blake2b(digest_size=16)
    for file in tokens.files if isinstance(tokens, TokenMixture) else (tokens,):
        for start in range(0, len(file), _PART):  # a file may be larger than the memory
            digest.update(file.tokens[start : start + _PART].tobytes())
    return digest.hexdigest()
