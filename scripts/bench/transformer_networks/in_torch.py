"""The networks of `models.py` in torch, with random weights, to time beside them.

They are what torchvision and transformers compute for inference: fused attention
(`scaled_dot_product_attention`), layer_norm and gelu of torch, convolutions over channels_last.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional
from torch_networks.classifiers import (
    CONVNEXT_TINY,
    DENSENET_121,
    ViT,
    convnext_body,
    dense_blocks,
)
from torch_networks.layers import Encoder


class Bert(nn.Module):
    """BERT-base's embeddings of tokens and its encoder."""

    def __init__(self, length: int, width: int = 768, layers: int = 12) -> None:
        super().__init__()
        self.words = nn.Embedding(30522, width)
        self.places = nn.Parameter(torch.randn(1, length, width) / 10)
        self.norm = nn.LayerNorm(width)
        self.layers = Encoder(layers, width, width // 64, normalised_first=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layers(self.norm(self.words(tokens) + self.places))


class ConvNext(nn.Module):
    """ConvNeXt-Tiny."""

    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.Sequential(*convnext_body(*CONVNEXT_TINY))
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.parts(x).mean((2, 3))))


class DenseNet(nn.Module):
    """DenseNet-121, the stem's batch normalisation folded."""

    def __init__(self) -> None:
        super().__init__()
        depths, growth = DENSENET_121
        blocks, channels = dense_blocks(2 * growth, depths, growth)
        stem = nn.Conv2d(3, 2 * growth, 7, 2, 3)
        self.parts = nn.Sequential(stem, nn.ReLU(), nn.MaxPool2d(3, 2, 1), *blocks)
        self.head = nn.Linear(channels, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.parts(x).mean((2, 3)))


class Bottleneck(nn.Module):
    """ResNet-50's block, its batch normalisations folded."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.parts = nn.Sequential(
            nn.Conv2d(channels, width, 1), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1), nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1),
        )  # fmt: skip
        same = stride == 1 and channels == 4 * width
        self.short = nn.Identity() if same else nn.Conv2d(channels, 4 * width, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu_(self.parts(x) + self.short(x))


class ResNet(nn.Module):
    """ResNet-50."""

    def __init__(self) -> None:
        super().__init__()
        stem = nn.Conv2d(3, 64, 7, 2, 3)
        parts: list[nn.Module] = [stem, nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
        channels = 64
        for stage, depth in enumerate((3, 4, 6, 3)):
            for block in range(depth):
                parts.append(Bottleneck(channels, 64 << stage, 1 + (stage > 0 and not block)))
                channels = 256 << stage
        self.parts, self.head = nn.Sequential(*parts), nn.Linear(2048, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.parts(x).mean((2, 3)))


NETWORKS: dict[str, Callable[[tuple[int, ...]], nn.Module]] = {
    "vit": lambda shape: ViT(shape[-1], 768, 12, 12, classes=1000),
    "bert": lambda shape: Bert(shape[-1]),
    "convnext": lambda shape: ConvNext(),
    "densenet": lambda shape: DenseNet(),
    "resnet50": lambda shape: ResNet(),
}
"""A network by its name, for an input of a shape."""
