"""Reading the config.json of a Hugging Face folder, and writing such a folder."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

from minigrad.errors import InputError, RunError
from minigrad.formats.folders import CONFIG, check_folder
from minigrad.formats.json_files import as_json, read_json
from minigrad.formats.safetensors import write_tensors
from minigrad.options import options, shown
from minigrad.system.files import reason, replacing, sync_file
from minigrad.typing import Array


def require_variant(values: Mapping[str, Any], needed: Mapping[str, Any]) -> None:
    """Raise InputError if a config.json describes a variant of an architecture that a family does not have.

    `needed` holds the only value that the family supports for each key; a key that the file leaves out is accepted.
    """
    for key, value in needed.items():
        found = values.get(key, value)
        if found != value or type(found) is not type(value):
            raise InputError(f"{key} = {shown(found)}; this family needs {value!r}")


UNROUNDED = "take the folder of the model before it was quantised"
QUANTISATION = "quantization_config"  # the key of config.json that says how and by which program


def config_path(folder: Path) -> Path:
    """Return where the config.json of a model is; raises InputError, with the way out, if the folder has none."""
    check_folder(folder)
    if (path := folder / CONFIG).exists():
        return path
    raise InputError(
        f"{folder} holds adapters without the weights of their base: merge them first, by "
        f'models.load("{folder}").save(DIR), and copy its tokenizer files'
    )


def require_floats(values: Mapping[str, Any], path: Path, way_out: str = UNROUNDED) -> None:
    """Raise InputError, with a `way_out`, if the config.json at `path` says that the weights are quantised."""
    if values.get(QUANTISATION) is not None:
        raise InputError(
            f"{path} says that the weights are quantised ({QUANTISATION}), and this needs the unrounded ones; {way_out}"
        )


def read_fields(
    config: Any, values: Mapping[str, Any], keys: Mapping[str, str], defaults: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the fields of a config class from the content of a config.json.

    `keys` maps their keys to our fields, whose declarations check the values; a key in `defaults` may be missing.
    Raises InputError naming the key that is missing, or whose value is not allowed.
    """
    declared, optional = {each.name: each for each in options(config)}, defaults or {}
    fields = {}
    for theirs, ours in keys.items():
        if theirs not in values and theirs not in optional:
            raise InputError(f"{theirs} is missing")
        fields[ours] = declared[ours].check(values.get(theirs, optional.get(theirs)), theirs)
    return fields


def rotary_scaling(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the rotary settings of a config.json: old files have them in rope_scaling, newer ones in rope_parameters.

    Their kind, which the oldest files call "type", is under "rope_type". Raises InputError for anything but an object.
    """
    found: dict[str, Any] = {}
    for name in ("rope_scaling", "rope_parameters"):
        part = values.get(name)
        if not isinstance(part, dict | None):
            raise InputError(f"{name} = {shown(part)}, which should be an object with a rope_type")
        found |= {key: value for key, value in (part or {}).items() if value is not None}
    found.setdefault("rope_type", found.pop("type", "default"))
    return found


GENERATION = "generation_config.json"  # the file that says with which tokens other programs begin and end a text


def listed_end_ids(values: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the ids with which a text ends, if the content of a file lists several; else none.

    Raises InputError for a list that holds something else.
    """
    ids = values.get("eos_token_id")
    if not isinstance(ids, list):
        return ()
    if not all(type(each) is int and each >= 0 for each in ids):
        raise InputError(f"eos_token_id must list whole numbers of at least 0, not {shown(ids)}")
    return tuple(ids)


def read_end_ids(folder: Path) -> tuple[int, ...]:
    """Return the ids with which a text ends, if generation_config.json or else config.json lists several; else none.

    Many folders have only one of these files. If generation_config.json has one id, and config.json does not have it,
    that id ends a text. Raises InputError for a file that is damaged.
    """
    paths = folder / GENERATION, folder / CONFIG
    generation, config = (read_json(path) if path.exists() else {} for path in paths)
    one, known = generation.get("eos_token_id"), config.get("eos_token_id")
    is_new = one != known and not (isinstance(known, list) and one in known)
    if paths[1].exists() and not isinstance(one, list | None) and is_new:
        generation = {"eos_token_id": [one]}
    for path, content in zip(paths, (generation, config), strict=True):
        try:
            ids = listed_end_ids(content)
        except InputError as error:
            raise InputError(f"{path} cannot be used: {error}") from None
        if ids:
            return ids
    return ()


def generation_config(config: Mapping[str, Any], end_ids: Iterable[int]) -> dict[str, Any]:
    """Return the content of generation_config.json for a config, and for other tokens that end a text."""
    ids = {key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id") if key in config}
    if others := [each for each in end_ids if each != ids.get("eos_token_id")]:
        ids["eos_token_id"] = [ids["eos_token_id"], *others]
    return ids


def write_folder(
    folder: Path, config: Mapping[str, Any], weights: Mapping[str, Array], end_ids: Iterable[int] = ()
) -> None:
    """Write config.json, generation_config.json and model.safetensors; errors: as `write_files`.

    A text also ends with a token of `end_ids`: generation_config.json then has a list of ids, which transformers reads.
    The auto_map of a config.json that is replaced stays, if it is of the same model_type: the classes that it names are
    in other files of the folder (`minigrad.formats.transformers`).
    """
    described = dict(config)
    with suppress(InputError):  # there is none yet, or it is damaged
        before = read_json(folder / CONFIG)
        if "auto_map" in before and before.get("model_type") == config.get("model_type"):
            described["auto_map"] = before["auto_map"]
    documents = {CONFIG: described, GENERATION: generation_config(config, end_ids)}
    write_files(folder / "model.safetensors", weights, documents)


def write_files(path: Path, weights: Mapping[str, Array], documents: Mapping[str, Mapping[str, Any]]) -> None:
    """Write a safetensors file, and JSON files with the names of the `documents` beside it, into a folder that is made.

    Raises RunError if writing fails; the files that existed before are then unchanged. The others are replaced when
    all are written: weights would otherwise be left beside the settings of other weights.
    """
    texts = {name: as_json(document) for name, document in documents.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot make the folder {path.parent}: {reason(error)}") from error
    try:
        with ExitStack() as stack:
            for name, text in texts.items():
                temporary = stack.enter_context(replacing(path.with_name(name)))
                temporary.write_bytes(text.encode())
                sync_file(temporary)
            # The file that is entered last gets its name first: writing the weights is most likely to fail.
            write_tensors(stack.enter_context(replacing(path)), weights)
    except OSError as error:
        raise RunError(f"cannot write {path} and the files beside it: {reason(error)}") from error
