"""Language models in torch with random weights: BERT, and a decoder with keys and values kept."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from torch_networks.layers import Attended, Encoder

VOCABULARY = 1000


class Bert(nn.Module):
    """BERT-Mini: tokens, a mask of those that count, segments, an encoder and a pooled output."""

    def __init__(self, full: bool, length: int) -> None:
        super().__init__()
        width, layers, heads = (256, 4, 4) if full else (64, 2, 2)
        self.words, self.segments = nn.Embedding(VOCABULARY, width), nn.Embedding(2, width)
        self.places, self.norm = nn.Embedding(512, width), nn.LayerNorm(width, 1e-12)
        self.register_buffer("numbers", torch.arange(512)[None])
        self.layers, self.pool = Encoder(layers, width, heads, False), nn.Linear(width, width)

    def forward(
        self, tokens: torch.Tensor, mask: torch.Tensor, segments: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        places = self.places(self.numbers[:, : tokens.shape[1]])
        x = self.norm(self.words(tokens) + self.segments(segments) + places)
        least = torch.finfo(x.dtype).min
        added = (1.0 - mask[:, None, None, :].to(x.dtype)) * least
        x = self.layers(x, added)
        return x, torch.tanh(self.pool(x[:, 0]))


def turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embedding: halves of each head as parts of complex numbers."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class RootMeanSquare(nn.Module):
    """Rows over their root mean square, computed in float32."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.to(torch.float32)
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class DecoderLayer(nn.Module):
    """Llama's layer: grouped queries, rotary places, a gated perceptron."""

    def __init__(self, width: int, heads: int, shared: int) -> None:
        super().__init__()
        self.heads, self.shared, self.size = heads, shared, width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, shared * self.size, bias=False)
        self.value = nn.Linear(width, shared * self.size, bias=False)
        self.last = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 2 * width, bias=False)
        self.up = nn.Linear(width, 2 * width, bias=False)
        self.down = nn.Linear(2 * width, width, bias=False)
        self.norms = nn.ModuleList([RootMeanSquare(width), RootMeanSquare(width)])

    def forward(
        self, x: torch.Tensor, past: tuple[torch.Tensor, torch.Tensor], mask: torch.Tensor,
        cos: torch.Tensor, sin: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:  # fmt: skip
        batch, length, width = x.shape
        y = self.norms[0](x)
        query = self.query(y).view(batch, length, self.heads, self.size).transpose(1, 2)
        key = self.key(y).view(batch, length, self.shared, self.size).transpose(1, 2)
        value = self.value(y).view(batch, length, self.shared, self.size).transpose(1, 2)
        query, key = turned(query, cos, sin), turned(key, cos, sin)
        key, value = torch.cat([past[0], key], 2), torch.cat([past[1], value], 2)
        copies = self.heads // self.shared
        keys, values = (
            part[:, :, None].expand(-1, -1, copies, -1, -1).flatten(1, 2)
            for part in (key, value)
        )  # fmt: skip
        y = Attended.of(query, keys, values, mask)
        x = x + self.last(y.transpose(1, 2).reshape(batch, length, width))
        y = self.norms[1](x)
        return x + self.down(functional.silu(self.gate(y)) * self.up(y)), key, value


class Decoder(nn.Module):
    """A few layers of a decoder that is given and gives back keys and values."""

    def __init__(self, full: bool) -> None:
        super().__init__()
        width, layers = (256, 4) if full else (64, 2)
        self.shape = (2, width // 4)  # heads of keys, their size
        self.words = nn.Embedding(VOCABULARY, width)
        self.layers = nn.ModuleList(DecoderLayer(width, 4, 2) for _ in range(layers))
        self.norm, self.head = RootMeanSquare(width), nn.Linear(width, VOCABULARY, bias=False)
        size = width // 4
        self.register_buffer("turns", 10000.0 ** (-torch.arange(0, size, 2).float() / size))

    def forward(
        self, tokens: torch.Tensor, places: torch.Tensor, *past: torch.Tensor
    ) -> tuple[torch.Tensor, ...]:
        x = self.words(tokens)
        angles = places[:, None, :, None].float() * self.turns
        angles = torch.cat([angles, angles], -1)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        before = past[0].shape[2]
        columns = torch.arange(before + tokens.shape[1])
        seen = columns[None, :] <= columns[before:, None]
        mask = torch.zeros(seen.shape, dtype=x.dtype).masked_fill(~seen, torch.finfo(x.dtype).min)
        present: list[torch.Tensor] = []
        for index, layer in enumerate(self.layers):
            pair = (past[2 * index], past[2 * index + 1])
            x, key, value = layer(x, pair, mask, cos, sin)
            present += [key, value]
        return self.head(self.norm(x)), *present
