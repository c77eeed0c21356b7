"""A detector in torch with random weights, in the manner of YOLOv8.

Cross-stage blocks, spatial pyramid pooling, a way down and up again, three heads without anchors
whose distances are expectations of a softmax, and boxes in pixels.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import nn
from torch.nn import functional

from torch_networks.layers import ConvNorm

ConvSiLU = partial(ConvNorm, act=nn.SiLU)
BINS, CLASSES = 16, 20


class Residual(nn.Module):
    """Two 3x3 convolutions beside their input."""

    def __init__(self, width: int, same: bool) -> None:
        super().__init__()
        self.same = same
        self.parts = nn.Sequential(ConvSiLU(width, width, 3), ConvSiLU(width, width, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.parts(x) if self.same else self.parts(x)


class CrossStage(nn.Module):
    """Half of the channels through residual blocks, whose outputs are all kept (C2f)."""

    def __init__(self, channels: int, out: int, depth: int, same: bool) -> None:
        super().__init__()
        self.first, self.last = (
            ConvSiLU(channels, out, 1),
            ConvSiLU((2 + depth) * (out // 2), out, 1),
        )
        self.blocks = nn.ModuleList(Residual(out // 2, same) for _ in range(depth))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = list(self.first(x).chunk(2, 1))
        for block in self.blocks:
            parts.append(block(parts[-1]))
        return self.last(torch.cat(parts, 1))


class Pyramid(nn.Module):
    """Largest values of 5, 9 and 13 pixels beside each other (SPPF)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.first, self.last = ConvSiLU(width, width // 2, 1), ConvSiLU(2 * width, width, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        parts = [self.first(x)]
        for _ in range(3):
            parts.append(functional.max_pool2d(parts[-1], 5, 1, 2))
        return self.last(torch.cat(parts, 1))


class Detector(nn.Module):
    """YOLOv8n: boxes `[batch, 4 + classes, places]`, centres and extents in pixels and scores."""

    def __init__(self, full: bool) -> None:
        super().__init__()
        widths, depth = ((16, 32, 64, 128, 256), 2) if full else ((16, 16, 32, 32, 64), 1)
        stem, *rest = widths
        self.stem = ConvSiLU(3, stem, 3, 2)
        self.down = nn.ModuleList(
            nn.Sequential(ConvSiLU(before, width, 3, 2), CrossStage(width, width, depth, True))
            for before, width in zip(widths, rest, strict=False)
        )
        low, middle, high = widths[2:]
        self.pyramid = Pyramid(high)
        self.up = nn.ModuleList([
            CrossStage(high + middle, middle, 1, False), CrossStage(middle + low, low, 1, False)
        ])  # fmt: skip
        self.narrow = nn.ModuleList([ConvSiLU(low, low, 3, 2), ConvSiLU(middle, middle, 3, 2)])
        self.again = nn.ModuleList([
            CrossStage(low + middle, middle, 1, False), CrossStage(middle + high, high, 1, False)
        ])  # fmt: skip
        self.boxes = nn.ModuleList(
            nn.Sequential(ConvSiLU(width, 64, 3), nn.Conv2d(64, 4 * BINS, 1))
            for width in (low, middle, high)
        )
        self.scores = nn.ModuleList(
            nn.Sequential(ConvSiLU(width, 32, 3), nn.Conv2d(32, CLASSES, 1))
            for width in (low, middle, high)
        )
        self.bins = nn.Conv2d(BINS, 1, 1, bias=False)
        self.bins.weight.data = torch.arange(BINS, dtype=torch.float32).view(1, BINS, 1, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x, kept = self.stem(x), []
        for part in self.down:
            x = part(x)
            kept.append(x)
        _, low, middle, high = kept
        high = self.pyramid(high)
        middle = self.up[0](torch.cat([functional.interpolate(high, scale_factor=2.0), middle], 1))
        low = self.up[1](torch.cat([functional.interpolate(middle, scale_factor=2.0), low], 1))
        middle = self.again[0](torch.cat([self.narrow[0](low), middle], 1))
        high = self.again[1](torch.cat([self.narrow[1](middle), high], 1))
        return self.decoded((low, middle, high))

    def decoded(self, features: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """Boxes around the centres of all pixels of the features."""
        found, centres, strides = [], [], []
        for feature, boxes, scores, stride in zip(
            features, self.boxes, self.scores, (8, 16, 32), strict=True
        ):
            found.append(torch.cat([boxes(feature), scores(feature)], 1).flatten(2))
            rows, columns = (torch.arange(extent) + 0.5 for extent in feature.shape[2:])
            place = torch.stack(torch.meshgrid(columns, rows, indexing="xy")).flatten(1)
            centres.append(place.to(feature.dtype))
            strides.append(torch.full((1, place.shape[1]), stride, dtype=feature.dtype))
        distances, scores = torch.cat(found, 2).split((4 * BINS, CLASSES), 1)
        batch, _, places = distances.shape
        shares = distances.view(batch, 4, BINS, places).transpose(2, 1).softmax(1)
        left, right = self.bins(shares).view(batch, 4, places).chunk(2, 1)
        centre = torch.cat(centres, 1)
        least, most = centre - left, centre + right
        boxes = torch.cat([(least + most) / 2, most - least], 1) * torch.cat(strides, 1)
        return torch.cat([boxes, scores.sigmoid()], 1)
