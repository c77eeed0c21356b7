"""Layers that the exported networks share."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional


class ConvNorm(nn.Sequential):
    """A convolution of the same extents, batch normalisation and an activation."""

    def __init__(
        self, channels: int, out: int, size: int, stride: int = 1, groups: int = 1,
        dilation: int = 1, act: Callable[[], nn.Module] = nn.ReLU,
    ) -> None:  # fmt: skip
        pad = size // 2 * dilation
        conv = nn.Conv2d(channels, out, size, stride, pad, dilation, groups, bias=False)
        super().__init__(conv, nn.BatchNorm2d(out), act())


class Perceptron(nn.Sequential):
    """Two layers around an activation."""

    def __init__(self, width: int, inner: int, act: Callable[[], nn.Module] = nn.GELU) -> None:
        super().__init__(nn.Linear(width, inner), act(), nn.Linear(inner, width))


FUSED_ATTENTION_OPSET = 14
"""First opset that the older exporter writes torch's own attention in."""


class Attended:
    """softmax(q k / sqrt(size) + mask) v, spelled out where an exporter lacks torch's own."""

    spelled_out = False

    @classmethod
    def of(
        cls, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None
    ) -> torch.Tensor:
        """Heads of `[batch, heads, length, size]`."""
        if not cls.spelled_out:
            return functional.scaled_dot_product_attention(query, key, value, mask)
        scores = query @ key.transpose(-2, -1) / query.shape[-1] ** 0.5
        scores = scores if mask is None else scores + mask
        return functional.softmax(scores, -1) @ value


class SelfAttention(nn.Module):
    """Self-attention of tokens `[batch, length, width]`; one product for queries, keys, values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.last = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.first(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        y = Attended.of(query, key, value, mask)
        return self.last(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    """A transformer's layer, normalised before its parts, as in ViT, or after, as in BERT."""

    def __init__(
        self, width: int, heads: int, normalised_first: bool, factor: int,
        act: Callable[[], nn.Module],
    ) -> None:  # fmt: skip
        super().__init__()
        self.normalised_first = normalised_first
        self.attention = SelfAttention(width, heads)
        self.perceptron = Perceptron(width, factor * width, act)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        first, second = self.norms
        if self.normalised_first:
            x = x + self.attention(first(x), mask)
            return x + self.perceptron(second(x))
        x = first(x + self.attention(x, mask))
        return second(x + self.perceptron(x))


class Encoder(nn.Module):
    """Layers one after another, all under one mask."""

    def __init__(
        self, layers: int, width: int, heads: int, normalised_first: bool, factor: int = 4,
        act: Callable[[], nn.Module] = nn.GELU,
    ) -> None:  # fmt: skip
        super().__init__()
        self.layers = nn.ModuleList(
            Layer(width, heads, normalised_first, factor, act) for _ in range(layers)
        )

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, mask)
        return x
