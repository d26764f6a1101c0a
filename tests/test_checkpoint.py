"""Checkpoints: what is saved comes back bit for bit, and no kill or full disk costs the previous one."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import load_file, save_file

from minigrad import checkpoint
from minigrad.errors import InputError, RunError

DTYPES = [
    "float32",
    "float64",
    "int64",
    "int32",
    "int16",
    "int8",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "bool",
]


def save(run: Path, step: int, **options) -> Path:
    """Save a small checkpoint in which every number tells its step."""
    return checkpoint.save(
        run,
        step,
        weights={"w": np.full((2, 3), step, np.float32)},
        moments={"w.mean": np.full(4, step, np.float32)},
        state={"seen": step * 10},
        **options,
    )


def assert_good(run: Path, step: int) -> None:
    loaded = checkpoint.load(run)
    assert (loaded.step, loaded.state) == (step, {"seen": step * 10})
    np.testing.assert_array_equal(loaded.weights["w"], np.full((2, 3), step, np.float32))
    np.testing.assert_array_equal(loaded.moments["w.mean"], np.full(4, step, np.float32))


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refusal(function, *arguments, **options) -> str:
    with pytest.raises(InputError) as caught:
        function(*arguments, **options)
    return str(caught.value)


def test_what_is_saved_is_loaded(tmp_path):
    folder = save(tmp_path, 40)
    assert folder == checkpoint.latest(tmp_path) == tmp_path / "checkpoints" / "40"
    assert names(folder) == ["model.safetensors", "optimizer.safetensors", "state.json"]
    assert_good(tmp_path, 40)


def test_only_the_newest_are_kept_and_steps_are_numbers_not_words(tmp_path):
    for step in (8, 9, 10):
        save(tmp_path, step)
    assert checkpoint.steps(tmp_path) == [9, 10]
    assert_good(tmp_path, 10)
    save(tmp_path, 100, keep=1)
    assert checkpoint.steps(tmp_path) == [100]


def test_an_earlier_step_saved_later_is_not_removed_at_once(tmp_path):
    save(tmp_path, 30)
    save(tmp_path, 40)
    save(tmp_path, 10)
    assert 10 in checkpoint.steps(tmp_path)


def test_a_step_may_be_saved_twice(tmp_path):
    save(tmp_path, 5)
    checkpoint.save(tmp_path, 5, weights={}, moments={}, state={"second": True})
    assert checkpoint.load(tmp_path, 5).state == {"second": True}
    assert names(tmp_path / "checkpoints") == ["5"]


def test_one_of_several_steps_can_be_chosen(tmp_path):
    save(tmp_path, 1)
    save(tmp_path, 2)
    assert checkpoint.load(tmp_path, step=1).step == 1
    assert "no checkpoint of step 3; it has 1, 2" in refusal(checkpoint.load, tmp_path, step=3)


def test_no_checkpoint_is_an_error_with_a_way_out(tmp_path):
    assert checkpoint.latest(tmp_path / "nowhere") is None
    assert checkpoint.latest(tmp_path) is None
    assert "holds no checkpoint: no run folder" in refusal(checkpoint.load, tmp_path)


class Killed(BaseException):
    """Ends a save where it stands, as a kill would: no handler in the code catches it."""


def count_operations(monkeypatch, fail_at: int | None, error: BaseException) -> list[str]:
    """Make the disk operation number `fail_at` of a save raise `error`; return the list that records them."""
    done: list[str] = []

    def watched(name, original):
        def call(*arguments, **options):
            done.append(name)
            if len(done) - 1 == fail_at:
                if name == "rmtree" and Path(arguments[0]).exists():  # a kill finds it half done
                    next(Path(arguments[0]).iterdir()).unlink()
                raise error
            return original(*arguments, **options)

        return call

    for owner, name in [
        (os, "fsync"),
        (Path, "mkdir"),
        (Path, "rename"),
        (shutil, "rmtree"),
        (checkpoint, "save_file"),
        (checkpoint, "_write_text"),
    ]:
        monkeypatch.setattr(owner, name, watched(name, getattr(owner, name)))
    return done


def test_everything_is_on_the_disk_before_the_name_is_and_the_name_thereafter(tmp_path, monkeypatch):
    operations = count_operations(monkeypatch, None, Killed())
    save(tmp_path, 10)
    renamed = operations.index("rename")
    assert operations[:renamed].count("fsync") == 4  # three files and the folder that lists them
    assert operations[renamed + 1] == "fsync"


@pytest.mark.parametrize("again", [20, 30], ids=["same step", "next step"])
def test_a_kill_at_any_operation_leaves_a_good_checkpoint(tmp_path, again):
    run = tmp_path / "count"
    save(run, 10), save(run, 20)
    with pytest.MonkeyPatch.context() as patch:
        operations = count_operations(patch, None, Killed())
        save(run, again)
    assert len(operations) > 8
    for number in range(len(operations)):
        run = tmp_path / str(number)
        save(run, 10), save(run, 20)
        with pytest.MonkeyPatch.context() as patch:
            count_operations(patch, number, Killed())
            with pytest.raises(Killed):
                save(run, again)
        assert checkpoint.steps(run)[-1] in (20, again)
        for step in checkpoint.steps(run):
            assert checkpoint.load(run, step).state == {"seen": step * 10}
        save(run, 40)  # and the next save sweeps up what the kill left behind
        assert_good(run, 40)
        assert all(name.isdecimal() for name in names(run / "checkpoints"))


@pytest.mark.parametrize("saved_before", [True, False])
def test_a_full_disk_at_any_operation_is_an_error_that_names_what_is_left(tmp_path, saved_before):
    run = tmp_path / "count"
    if saved_before:
        save(run, 20)
    with pytest.MonkeyPatch.context() as patch:
        operations = count_operations(patch, None, OSError())
        save(run, 30)
    until_renamed = operations.index("rename")
    for number in range(until_renamed + 1):
        run = tmp_path / str(number)
        if saved_before:
            save(run, 20)
        with pytest.MonkeyPatch.context() as patch:
            count_operations(patch, number, OSError(28, "No space left on device"))
            with pytest.raises(RunError) as caught:
                save(run, 30)
        rest = "the checkpoint of step 20 is intact" if saved_before else "there is no earlier checkpoint"
        assert str(caught.value) == f"cannot save step 30 in {run / 'checkpoints'}: No space left on device; {rest}"
        assert checkpoint.steps(run) == ([20] if saved_before else [])
        if (run / "checkpoints").exists():
            assert names(run / "checkpoints") == (["20"] if saved_before else [])


@pytest.mark.parametrize("name", ["model.safetensors", "optimizer.safetensors", "state.json"])
@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "foreign"])
def test_a_damaged_checkpoint_is_refused_with_the_way_out(tmp_path, name, damage):
    save(tmp_path, 1)
    path = save(tmp_path, 2) / name
    content = path.read_bytes()
    path.unlink()
    if damage != "missing":
        path.write_bytes({"cut": content[:-3], "empty": b"", "foreign": b"PK\x03\x04 and more" * 9}[damage])
    message = refusal(checkpoint.load, tmp_path)
    assert str(path) in message
    assert message.endswith(f"Delete the folder {path.parent} to continue from step 1.")
    shutil.rmtree(path.parent)
    assert_good(tmp_path, 1)


def test_the_state_of_another_step_is_refused(tmp_path):
    save(tmp_path, 1).rename(tmp_path / "checkpoints" / "7")
    message = refusal(checkpoint.load, tmp_path)
    assert "state.json is not the state of step 7" in message
    assert "no older one is left" in message


def test_other_files_among_the_checkpoints_do_no_harm(tmp_path):
    save(tmp_path, 1)
    (tmp_path / "checkpoints" / ".DS_Store").write_text("x")
    (tmp_path / "checkpoints" / "best").mkdir()
    save(tmp_path, 2)
    assert checkpoint.steps(tmp_path) == [1, 2]


@pytest.mark.parametrize(
    ("write", "old", "new"),
    [
        (checkpoint.write_text, "old", "new"),
        (checkpoint.write_json, {"a": 1}, {"a": 2}),
        (checkpoint.save_tensors, {"a": np.zeros(3)}, {"a": np.ones(9)}),
    ],
)
def test_a_file_is_replaced_wholly_or_not_at_all(tmp_path, write, old, new):
    path = tmp_path / "file"
    write(path, old)
    before = path.read_bytes()

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for owner, operation in [(os, "fsync"), (Path, "replace")]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(owner, operation, full_disk)
            with pytest.raises(RunError, match=r"cannot write .*file: No space"):
                write(path, new)
        assert path.read_bytes() == before
        assert names(tmp_path) == ["file"]
    write(path, new)
    assert path.read_bytes() != before


def test_a_folder_that_is_not_there_is_a_run_error(tmp_path):
    for write, value in [(checkpoint.write_json, {}), (checkpoint.save_tensors, {"a": np.ones(1)})]:
        with pytest.raises(RunError, match=r"cannot write .*nowhere"):
            write(tmp_path / "nowhere" / "file", value)


def test_json_that_other_programs_could_not_read_is_never_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        checkpoint.write_json(tmp_path / "file", {"loss": float("nan")})
    assert names(tmp_path) == []


arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: hnp.arrays(dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4))
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])).filter(lambda s: s != "__metadata__"), arrays))
def test_any_arrays_come_back_bit_for_bit(arrays):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        checkpoint.save_tensors(path, arrays)
        ours, library = checkpoint.read_weights(path), load_file(path)
    assert set(ours) == set(library) == set(arrays)
    for name, array in arrays.items():
        for read in (ours[name], library[name]):
            assert (read.dtype, read.shape) == (array.dtype, array.shape)
            assert read.tobytes() == array.tobytes()


def test_a_strided_view_is_saved_by_its_values(tmp_path):
    matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
    checkpoint.save_tensors(tmp_path / "file", {"transposed": matrix.T, "every other": matrix[:, ::2]})
    read = checkpoint.read_weights(tmp_path / "file")
    np.testing.assert_array_equal(read["transposed"], matrix.T)
    np.testing.assert_array_equal(read["every other"], matrix[:, ::2])


def header_of(path: Path) -> dict:
    content = path.read_bytes()
    return json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")])


def test_the_header_carries_the_mark_that_transformers_asks_for(tmp_path):
    checkpoint.save_tensors(tmp_path / "file", {"a": np.ones(1)})
    assert header_of(tmp_path / "file")["__metadata__"] == {"format": "pt"}


def write_raw(path: Path, header: object, data: bytes) -> Path:
    text = json.dumps(header).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    return path


def test_bfloat16_and_float16_widen_to_float32(tmp_path):
    values = np.array([[1.0, -2.5, 0.0], [np.inf, 3.140625, -np.inf]], np.float32)  # each is a bfloat16
    data = (values.view(np.uint32) >> 16).astype("<u2").tobytes()
    entry = {"dtype": "BF16", "shape": [2, 3], "data_offsets": [0, 12]}
    read = checkpoint.read_weights(write_raw(tmp_path / "bf16", {"w": entry}, data))["w"]
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, values)
    save_file({"w": values.astype(np.float16)}, tmp_path / "f16")
    read = checkpoint.read_weights(tmp_path / "f16")["w"]
    assert read.dtype == np.float32
    np.testing.assert_array_equal(read, values)


ENTRY = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        ({"w": ENTRY}, b"123", "is damaged: its header promises"),
        ({"w": ENTRY}, b"12345", "is damaged: its header promises"),
        ({"w": ENTRY | {"shape": [2]}}, b"1234", "the bytes of w do not match its shape [2]"),
        ({"w": ENTRY | {"dtype": "F8_E4M3"}}, b"1234", "w is stored as F8_E4M3; convert it to F32 or BF16"),
        ({"w": {"dtype": "F32"}}, b"1234", "is not a safetensors file"),
        ({"w": 3}, b"1234", "is not a safetensors file"),
        (["w"], b"1234", "is not a safetensors file"),
        ("w", b"1234", "is not a safetensors file"),
    ],
)
def test_a_wrong_header_is_refused(tmp_path, header, data, message):
    path = write_raw(tmp_path / "file", header, data)
    refused = refusal(checkpoint.read_weights, path)
    assert str(path) in refused
    assert message in refused


@given(st.binary(max_size=80))
def test_any_foreign_file_is_refused(content):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "file"
        path.write_bytes(content)
        refusal(checkpoint.read_weights, path)


def write_shards(folder: Path) -> dict[str, np.ndarray]:
    weights = {name: np.full(2, number, np.float32) for number, name in enumerate("abc")}
    save_file({"a": weights["a"], "c": weights["c"]}, folder / "one.safetensors")
    save_file({"b": weights["b"]}, folder / "two.safetensors")
    weight_map = {"a": "one.safetensors", "b": "two.safetensors", "c": "one.safetensors"}
    checkpoint.write_json(folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": weight_map})
    return weights


def test_weights_are_read_from_shards(tmp_path):
    weights = write_shards(tmp_path)
    read = checkpoint.read_weights(tmp_path)
    assert set(read) == set(weights)
    for name, value in weights.items():
        np.testing.assert_array_equal(read[name], value)


def test_a_missing_shard_or_a_shard_without_its_weights_is_refused(tmp_path):
    write_shards(tmp_path)
    save_file({"z": np.ones(1)}, tmp_path / "two.safetensors")
    assert "promises weights that its files do not hold: b" in refusal(checkpoint.read_weights, tmp_path)
    (tmp_path / "two.safetensors").unlink()
    assert "two.safetensors: No such file" in refusal(checkpoint.read_weights, tmp_path)
    checkpoint.write_json(tmp_path / "model.safetensors.index.json", {"weight_map": 3})
    assert "holds no weight_map" in refusal(checkpoint.read_weights, tmp_path)


def test_a_whole_file_in_a_folder_goes_before_shards_and_a_pickle_is_never_opened(tmp_path):
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
    assert "never loaded" in refusal(checkpoint.read_weights, tmp_path)
    write_shards(tmp_path)
    checkpoint.save_tensors(tmp_path / "model.safetensors", {"whole": np.ones(1)})
    assert set(checkpoint.read_weights(tmp_path)) == {"whole"}


def test_names_and_shapes_are_compared_with_what_the_model_expects():
    weights = {"a": np.zeros((2, 3)), "b": np.zeros(4), "extra": np.zeros(1)}
    checkpoint.check_names(weights, {"a": (2, 3), "b": (4,), "extra": (1,)})
    message = refusal(checkpoint.check_names, weights, {"a": (3, 2), "b": (4,)} | {f"m{i}": (1,) for i in range(7)})
    assert message == (
        "the weights do not fit the model: missing: m0, m1, m2, m3, m4 and 2 more; unexpected: extra; "
        "of another shape: a is (2, 3), should be (3, 2)"
    )
