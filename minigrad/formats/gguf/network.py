"""The network of a GGUF file: config.json and model.safetensors in llama.cpp's terms.

llama.cpp has one architecture for each kind of model, with its own names of settings and arrays. Its matrices are
stored `[out, in]`, so those of GPT-2, which are `[in, out]`, are transposed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from minigrad.errors import InputError
from minigrad.formats.gguf.container import Value
from minigrad.formats.huggingface import config_path, require_floats, require_variant, rotary_scaling
from minigrad.formats.json_files import read_json
from minigrad.formats.typed import read_dataclass
from minigrad.formats.weights import HEAD, check_arrays, read_weights, rename_published, without_copy_of_tied
from minigrad.options import REQUIRED, option, shown
from minigrad.system.terminal import printable, quoted
from minigrad.typing import Array

_MOST = 2**31 - 1  # llama.cpp's settings are whole numbers of 32 bits
_MOST_LAYERS = 10_000  # as in a model here: each has tensors of its own, to be listed
_PREFIX = "transformer."  # which the names of a GPT-2 may have
_SCALINGS = ("default", "linear", "yarn")


class Network(NamedTuple):
    """A network in llama.cpp's terms."""

    metadata: dict[str, Value]
    arrays: dict[str, Array]  # by llama.cpp's names
    vocab_size: int


def read_network(folder: Path) -> Network:
    """Read the network of a run folder or a Hugging Face folder.

    Raises InputError, naming the file, if llama.cpp lacks the architecture, or if the weights do not fit the config.
    """
    path = config_path(folder)
    values = read_json(path)
    require_floats(values, path)
    kind = values.get("model_type")
    if "num_local_experts" in values:
        raise InputError(f"{path} describes experts (num_local_experts), which are not written for llama.cpp here")
    if kind == "vidya-v2" and (values.get("key_shift", True) or values.get("value_residual")):
        raise InputError(
            f"{path} is of model_type 'vidya-v2', which llama.cpp cannot run, because keys are shifted or values added "
            "up: train with --set key_shift=false, or open it in transformers, after python -m "
            f"minigrad.formats.transformers {quoted(folder)}"
        )
    if not isinstance(kind, str) or kind not in _ARCHITECTURES:
        known = " and ".join(f"{name} ({ours})" for name, (ours, _) in _ARCHITECTURES.items())
        raise InputError(f"{path} is of model_type {shown(kind)}, which llama.cpp cannot run; it can run {known}")
    try:
        described = _ARCHITECTURES[kind][1](values)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    weights = rename_published(read_weights(folder), _PREFIX, described.entries)
    if HEAD not in described.entries:
        weights = dict(without_copy_of_tied(weights.items(), _embedding(described.entries), folder))
    check_arrays(weights, {name: entry.shape for name, entry in described.entries.items()}, place=folder)
    metadata: dict[str, Value] = {"general.architecture": kind, "general.name": printable(folder.resolve().name)}
    metadata |= {f"{kind}.{key}": value for key, value in described.settings.items()}
    arrays = {entry.name: entry.change(weights[name]) for name, entry in described.entries.items()}
    return Network(metadata, arrays, described.vocab_size)


class Entry(NamedTuple):
    """How an array of a checkpoint is stored in a GGUF file."""

    name: str  # llama.cpp's
    shape: tuple[int, ...]  # in the checkpoint
    change: Callable[[Array], Array] = np.asarray  # leaves it as it is


class Described(NamedTuple):
    """What a config.json says, in llama.cpp's terms."""

    settings: dict[str, Value]  # names without that of the architecture
    entries: dict[str, Entry]  # by the published names
    vocab_size: int


def _embedding(entries: Mapping[str, Entry]) -> str:
    """Return the published name of the embedding, which is the first entry of each architecture."""
    return next(iter(entries))


@dataclass(frozen=True)
class _Llama:
    """The settings of a Llama that llama.cpp needs, under their published names."""

    vocab_size: int = option(REQUIRED, "", at_least=1, at_most=_MOST)
    hidden_size: int = option(REQUIRED, "", at_least=1, at_most=_MOST)
    intermediate_size: int = option(REQUIRED, "", at_least=1, at_most=_MOST)
    num_hidden_layers: int = option(REQUIRED, "", at_least=1, at_most=_MOST_LAYERS)
    num_attention_heads: int = option(REQUIRED, "", at_least=1, at_most=_MOST)
    max_position_embeddings: int = option(REQUIRED, "", at_least=1, at_most=_MOST)
    num_key_value_heads: int | None = option(None, "", at_least=1, at_most=_MOST)
    head_dim: int | None = option(None, "", at_least=2, at_most=_MOST)
    rms_norm_eps: float = option(1e-6, "", at_least=0)
    tie_word_embeddings: bool = False


def _llama(values: dict[str, Any]) -> Described:
    """Return Vidya v2, SmolLM2 or another Llama in llama.cpp's terms."""
    require_variant(values, {"attention_bias": False, "mlp_bias": False, "hidden_act": "silu"})
    config = read_dataclass(_Llama, values, ignore_unknown=True)
    width, inner, heads = config.hidden_size, config.intermediate_size, config.num_attention_heads
    kv_heads, size = config.num_key_value_heads or heads, config.head_dim or width // heads
    if size % 2 or not size:
        raise InputError(f"head_dim must be even, because rotary positions rotate pairs; it is {size}")
    settings: dict[str, Value] = {
        "vocab_size": config.vocab_size,
        "block_count": config.num_hidden_layers,
        "context_length": config.max_position_embeddings,
        "embedding_length": width,
        "feed_forward_length": inner,
        "attention.head_count": heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": size,
        "attention.value_length": size,
        "attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        "rope.dimension_count": size,
        **rotary_metadata(values, config.max_position_embeddings),
    }
    entries = {
        "model.embed_tokens.weight": Entry("token_embd.weight", (config.vocab_size, width)),
        "model.norm.weight": Entry("output_norm.weight", (width,)),
    }
    block = {
        "input_layernorm": Entry("attn_norm", (width,)),
        "self_attn.q_proj": Entry("attn_q", (heads * size, width), pairs_in_a_row(heads)),
        "self_attn.k_proj": Entry("attn_k", (kv_heads * size, width), pairs_in_a_row(kv_heads)),
        "self_attn.v_proj": Entry("attn_v", (kv_heads * size, width)),
        "self_attn.o_proj": Entry("attn_output", (width, heads * size)),
        "post_attention_layernorm": Entry("ffn_norm", (width,)),
        "mlp.gate_proj": Entry("ffn_gate", (inner, width)),
        "mlp.up_proj": Entry("ffn_up", (inner, width)),
        "mlp.down_proj": Entry("ffn_down", (width, inner)),
    }
    for layer in range(config.num_hidden_layers):
        for ours, entry in block.items():
            named = entry._replace(name=f"blk.{layer}.{entry.name}.weight")
            entries[f"model.layers.{layer}.{ours}.weight"] = named
    return _described(settings, entries, config)


def _described(settings: dict[str, Value], entries: dict[str, Entry], config: _Llama | _GPT2) -> Described:
    """Return what a config describes, with a head of its own if it has one."""
    if not config.tie_word_embeddings:
        entries[HEAD] = entries[_embedding(entries)]._replace(name="output.weight")  # of the embedding's shape
    return Described(settings, entries, config.vocab_size)


@dataclass(frozen=True)
class _Rotary:
    """The settings of config.json, where older files have them (rope_scaling) and newer ones (rope_parameters)."""

    rope_type: str = option("default", "", choices=_SCALINGS)
    rope_theta: float = option(10_000.0, "", above=0, at_most=1e30)
    factor: float = option(1.0, "", at_least=1, at_most=1e6)
    original_max_position_embeddings: int | None = option(None, "", at_least=1, at_most=_MOST)
    beta_fast: float = option(32.0, "", above=0)
    beta_slow: float = option(1.0, "", above=0)
    attention_factor: float | None = option(None, "", above=0)


def rotary_metadata(values: dict[str, Any], context_length: int) -> dict[str, Value]:
    """Return the settings of rotary positions that a config.json describes.

    Raises InputError for a kind of scaling other than linear and yarn. "ntk" is stored as another theta, so
    nothing more is written for it.
    """
    at_the_top = ("rope_theta", "original_max_position_embeddings")
    given = {name: values[name] for name in at_the_top if name in values} | rotary_scaling(values)
    if given["rope_type"] not in _SCALINGS:
        raise InputError(f"rope_type is {shown(given['rope_type'])}, not one of {', '.join(_SCALINGS)}")
    rotary = read_dataclass(_Rotary, given, "rope_scaling")
    metadata: dict[str, Value] = {"rope.freq_base": float(rotary.rope_theta)}
    if rotary.rope_type == "default":
        return metadata
    metadata |= {"rope.scaling.type": rotary.rope_type, "rope.scaling.factor": float(rotary.factor)}
    if rotary.rope_type == "yarn":
        metadata |= {
            "rope.scaling.original_context_length": rotary.original_max_position_embeddings or context_length,
            "rope.scaling.yarn_beta_fast": float(rotary.beta_fast),
            "rope.scaling.yarn_beta_slow": float(rotary.beta_slow),
        }
        if rotary.attention_factor is not None:  # llama.cpp multiplies it by its own, which is the usual one
            metadata["rope.scaling.attn_factor"] = rotary.attention_factor / (0.1 * math.log(rotary.factor) + 1)
    return metadata


def pairs_in_a_row(heads: int) -> Callable[[Array], Array]:
    """Return the function that reorders the rows of a matrix of queries or keys (heads * D, width) for llama.cpp.

    A rotary position rotates pairs of elements of a head. In published Llamas, and here, pair j is the elements
    (j, j + D/2); for llama.cpp's `llama` it is (2j, 2j + 1). So row j of the first half goes to 2j, row j of the second
    half to 2j + 1. Scores do not change: queries and keys are reordered alike, and a dot product is a sum in any order.

    >>> pairs_in_a_row(heads=1)(np.arange(6).reshape(6, 1)).ravel()
    array([0, 3, 1, 4, 2, 5])
    """

    def reorder(matrix: Array) -> Array:
        rows, width = matrix.shape
        halves = matrix.reshape(heads, 2, rows // heads // 2, width)
        return halves.swapaxes(1, 2).reshape(rows, width)

    return reorder


@dataclass(frozen=True)
class _GPT2:
    """The settings of a GPT-2 that llama.cpp needs, under their published names."""

    vocab_size: int = option(REQUIRED, "", at_least=1, at_most=_MOST)
    n_positions: int = option(REQUIRED, "", at_least=1, at_most=_MOST)
    n_embd: int = option(REQUIRED, "", at_least=1, at_most=_MOST)
    n_layer: int = option(REQUIRED, "", at_least=1, at_most=_MOST_LAYERS)
    n_head: int = option(REQUIRED, "", at_least=1, at_most=_MOST)
    n_inner: int | None = option(None, "", at_least=1, at_most=_MOST)
    layer_norm_epsilon: float = option(1e-5, "", at_least=0)
    tie_word_embeddings: bool = True


def _gpt2(values: dict[str, Any]) -> Described:
    """Return a GPT-2 in llama.cpp's terms."""
    needed = {"activation_function": "gelu_new", "scale_attn_weights": True, "add_cross_attention": False}
    require_variant(values, needed | {"scale_attn_by_inverse_layer_idx": False})
    config = read_dataclass(_GPT2, values, ignore_unknown=True)
    width, inner = config.n_embd, config.n_inner or 4 * config.n_embd
    settings: dict[str, Value] = {
        "vocab_size": config.vocab_size,
        "block_count": config.n_layer,
        "context_length": config.n_positions,
        "embedding_length": width,
        "feed_forward_length": inner,
        "attention.head_count": config.n_head,
        "attention.layer_norm_epsilon": float(config.layer_norm_epsilon),
    }
    entries = {
        "wte.weight": Entry("token_embd.weight", (config.vocab_size, width)),
        "wpe.weight": Entry("position_embd.weight", (config.n_positions, width)),
        "ln_f.weight": Entry("output_norm.weight", (width,)),
        "ln_f.bias": Entry("output_norm.bias", (width,)),
    }
    for layer in range(config.n_layer):
        for ours, theirs in {"ln_1": "attn_norm", "ln_2": "ffn_norm"}.items():
            for part in ("weight", "bias"):
                entries[f"h.{layer}.{ours}.{part}"] = Entry(f"blk.{layer}.{theirs}.{part}", (width,))
        for ours, theirs, rows, columns in (
            ("attn.c_attn", "attn_qkv", width, 3 * width),
            ("attn.c_proj", "attn_output", width, width),
            ("mlp.c_fc", "ffn_up", width, inner),
            ("mlp.c_proj", "ffn_down", inner, width),
        ):
            entries[f"h.{layer}.{ours}.weight"] = Entry(f"blk.{layer}.{theirs}.weight", (rows, columns), np.transpose)
            entries[f"h.{layer}.{ours}.bias"] = Entry(f"blk.{layer}.{theirs}.bias", (columns,))
    return _described(settings, entries, config)


_ARCHITECTURES: dict[str, tuple[str, Callable[[dict[str, Any]], Described]]] = {
    "llama": ("vidya-v2, trained with --set key_shift=false", _llama),
    "gpt2": ("gpt2", _gpt2),
}
"""From the model_type of config.json, which is also llama.cpp's name, to our family and what translates its config."""
