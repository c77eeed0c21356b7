"""Swin transformer in torch: attention within windows, shifted in every second block.

Z. Liu et al., "Swin Transformer: Hierarchical Vision Transformer using Shifted Windows", 2021.
"""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from torch_networks.layers import Perceptron

WINDOW = 7


def in_windows(x: torch.Tensor) -> torch.Tensor:
    """`[batch, height, width, channels]` to `[windows, pixels of a window, channels]`."""
    batch, height, width, channels = x.shape
    apart = x.view(batch, height // WINDOW, WINDOW, width // WINDOW, WINDOW, channels)
    return apart.permute(0, 1, 3, 2, 4, 5).reshape(-1, WINDOW * WINDOW, channels)


class WindowAttention(nn.Module):
    """Attention of the pixels of a window, with a bias for each distance."""

    def __init__(self, width: int, heads: int, shift: int) -> None:
        super().__init__()
        self.heads, self.shift = heads, shift
        self.first, self.last = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.biases = nn.Parameter(torch.randn((2 * WINDOW - 1) ** 2, heads) / 10)
        place = torch.stack(torch.meshgrid(*[torch.arange(WINDOW)] * 2, indexing="ij")).flatten(1)
        apart = place[:, :, None] - place[:, None, :] + WINDOW - 1
        self.register_buffer("distances", (apart[0] * (2 * WINDOW - 1) + apart[1]).flatten())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, height, width, channels = x.shape
        below, right = -height % WINDOW, -width % WINDOW
        x = functional.pad(x, (0, 0, 0, right, 0, below))
        whole = x.shape
        shifts = [0 if extent <= WINDOW else self.shift for extent in whole[1:3]]
        x = torch.roll(x, [-shift for shift in shifts], (1, 2)) if sum(shifts) else x
        parts = in_windows(x)
        count, pixels, _ = parts.shape
        qkv = self.first(parts).reshape(count, pixels, 3, self.heads, channels // self.heads)
        query, key, value = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query * (channels // self.heads) ** -0.5 @ key.transpose(-2, -1)
        bias = self.biases[self.distances].view(pixels, pixels, -1).permute(2, 0, 1)
        scores = scores + bias.unsqueeze(0)
        if sum(shifts):
            scores = self.masked(scores, whole, shifts)
        y = (functional.softmax(scores, -1) @ value).transpose(1, 2)
        y = self.last(y.reshape(count, pixels, channels))
        rows, columns = whole[1] // WINDOW, whole[2] // WINDOW
        y = y.view(batch, rows, columns, WINDOW, WINDOW, channels).permute(0, 1, 3, 2, 4, 5)
        y = y.reshape(whole)
        y = torch.roll(y, shifts, (1, 2)) if sum(shifts) else y
        return y[:, :height, :width, :].contiguous()

    def masked(
        self, scores: torch.Tensor, whole: tuple[int, ...], shifts: list[int]
    ) -> torch.Tensor:
        """Scores less 100 between pixels that were not neighbours before the shift."""
        regions = scores.new_zeros(whole[1:3])
        cuts = [((0, -WINDOW), (-WINDOW, -shift), (-shift, None)) for shift in shifts]
        for count, (rows, columns) in enumerate((h, w) for h in cuts[0] for w in cuts[1]):
            regions[rows[0] : rows[1], columns[0] : columns[1]] = count
        windows = in_windows(regions[None, :, :, None])[..., 0]
        apart = windows[:, None, :] - windows[:, :, None]
        mask = apart.masked_fill(apart != 0, -100.0).masked_fill(apart == 0, 0.0)
        count, heads, pixels, _ = scores.shape
        kinds = mask.shape[0]
        scores = scores.view(count // kinds, kinds, heads, pixels, pixels)
        return (scores + mask[None, :, None]).view(count, heads, pixels, pixels)


class Block(nn.Module):
    """Attention in windows and a perceptron, normalised before each."""

    def __init__(self, width: int, heads: int, shift: int) -> None:
        super().__init__()
        self.attention = WindowAttention(width, heads, shift)
        self.perceptron = Perceptron(width, 4 * width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.norms[0](x))
        return x + self.perceptron(self.norms[1](x))


class Merge(nn.Module):
    """Four neighbouring pixels become one of twice the channels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(4 * width)
        self.narrow = nn.Linear(4 * width, 2 * width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = functional.pad(x, (0, 0, 0, x.shape[2] % 2, 0, x.shape[1] % 2))
        parts = [x[:, row::2, column::2, :] for column in (0, 1) for row in (0, 1)]
        return self.narrow(self.norm(torch.cat(parts, -1)))


class Swin(nn.Module):
    """Swin-T."""

    def __init__(self, full: bool) -> None:
        super().__init__()
        width, depths, heads = (96, (2, 2, 6, 2), (3, 6, 12, 24)) if full else (32, (2, 2), (2, 4))
        self.stem, self.first = nn.Conv2d(3, width, 4, 4), nn.LayerNorm(width)
        parts: list[nn.Module] = []
        for stage, depth in enumerate(depths):
            if stage:
                parts.append(Merge(width))
                width *= 2
            shifts = [WINDOW // 2 * (block % 2) for block in range(depth)]
            parts += [Block(width, heads[stage], shift) for shift in shifts]
        self.parts = nn.Sequential(*parts)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.parts(self.first(self.stem(x).permute(0, 2, 3, 1))))
        return self.head(x.permute(0, 3, 1, 2).mean((2, 3)))
