"""Vidya v1 with some of the parts of v2, for the study of its five changes."""

from __future__ import annotations

from dataclasses import replace

from minigrad import nn
from minigrad.nn.config import laptop_init_std, residual_std
from models.vidya_v1 import VidyaV1, VidyaV1Config


class Vidya(VidyaV1):
    """A Vidya v1 whose query heads share keys and values, `groups` to each, with SwiGLU if it `has_gate`."""

    groups = 1
    has_gate = False
    key_shift = False

    def __init__(self, config: VidyaV1Config) -> None:
        config = replace(config, init_std=laptop_init_std(config.width))
        super().__init__(config)
        std, out_std = config.init_std, residual_std(config)
        heads = config.num_heads, config.num_heads // self.groups, config.head_dim
        self.shifts_keys = self.key_shift
        for layer in self.model.layers:
            layer.self_attn = nn.GroupedQueryAttention(
                config.width, *heads, key_shift=self.key_shift, std=std, out_std=out_std
            )
            if self.has_gate:
                layer.mlp = nn.SwiGLUFeedForward(config.width, config.feed_forward, std=std, out_std=out_std)

    def new_cache(self, batch_size: int = 1, max_length: int | None = None) -> nn.KeyValueCache:
        """Return an empty cache with the heads that keys and values have."""
        config, length = self.config, max_length or self.config.context_length
        shape = config.num_layers, batch_size, length, config.num_heads // self.groups, config.head_dim
        return nn.KeyValueCache(*shape, self.head().dtype, key_shift=self.shifts_keys).in_format(self.cache_format)
