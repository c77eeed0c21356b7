"""The networks of `models.py` in torch, with random weights, to time beside them.

They are what torchvision and transformers compute for inference: fused attention
(`scaled_dot_product_attention`), layer_norm and gelu of torch, convolutions over channels_last.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """Self-attention of tokens `[batch, length, width]`; one product for queries, keys, values."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.last = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        parts = self.first(x).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = parts.permute(2, 0, 3, 1, 4)
        y = functional.scaled_dot_product_attention(query, key, value)
        return self.last(y.transpose(1, 2).reshape(batch, length, width))


def perceptron(width: int) -> nn.Module:
    """Two layers around a GELU."""
    return nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))


class Layer(nn.Module):
    """A transformer's layer, normalised before its parts, as in ViT, or after, as in BERT."""

    def __init__(self, width: int, heads: int, first: bool) -> None:
        super().__init__()
        self.normalised_first = first
        self.attention, self.perceptron = Attention(width, heads), perceptron(width)
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for norm, part in zip(self.norms, (self.attention, self.perceptron), strict=True):
            x = x + part(norm(x)) if self.normalised_first else norm(x + part(x))
        return x


class ViT(nn.Module):
    """ViT-B/16."""

    def __init__(self, image: int = 224, width: int = 768, layers: int = 12) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (image // 16) ** 2 + 1, width) / 10)
        self.layers = nn.Sequential(*(Layer(width, width // 64, True) for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(len(x), -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


class Bert(nn.Module):
    """BERT-base's embeddings of tokens and its encoder."""

    def __init__(self, length: int, width: int = 768, layers: int = 12) -> None:
        super().__init__()
        self.words = nn.Embedding(30522, width)
        self.places = nn.Parameter(torch.randn(1, length, width) / 10)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.Sequential(*(Layer(width, width // 64, False) for _ in range(layers)))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.layers(self.norm(self.words(tokens) + self.places))


class ConvNextBlock(nn.Module):
    """A block, whose perceptron works on channels_last."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.perceptron = nn.LayerNorm(width), perceptron(width)
        self.factor = nn.Parameter(torch.rand(width, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.perceptron(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
        return x + self.factor * y.permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation of the channels of `[batch, channels, height, width]`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class ConvNext(nn.Module):
    """ConvNeXt-Tiny."""

    def __init__(self) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Conv2d(3, 96, 4, 4), ChannelNorm(96)]
        for stage, (depth, width) in enumerate(zip((3, 3, 9, 3), (96, 192, 384, 768), strict=True)):
            if stage:
                parts += [ChannelNorm(width // 2), nn.Conv2d(width // 2, width, 2, 2)]
            parts += [ConvNextBlock(width) for _ in range(depth)]
        self.parts = nn.Sequential(*parts)
        self.norm, self.head = nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.norm(self.parts(x).mean((2, 3))))


def normalised(channels: int, k: int, size: int) -> list[nn.Module]:
    """Batch normalisation, ReLU and a convolution."""
    convolution = nn.Conv2d(channels, k, size, padding=size // 2, bias=False)
    return [nn.BatchNorm2d(channels), nn.ReLU(), convolution]


class DenseLayer(nn.Module):
    """A layer of DenseNet, whose output stands behind its input."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.parts = nn.Sequential(*normalised(channels, 128, 1), *normalised(128, 32, 3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.parts(x)], 1)


class DenseNet(nn.Module):
    """DenseNet-121."""

    def __init__(self) -> None:
        super().__init__()
        parts = [nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        channels = 64
        for block, depth in enumerate((6, 12, 24, 16)):
            if block:
                parts += [*normalised(channels, channels // 2, 1), nn.AvgPool2d(2)]
                channels //= 2
            parts += [DenseLayer(channels + 32 * layer) for layer in range(depth)]
            channels += 32 * depth
        self.parts = nn.Sequential(*parts, nn.BatchNorm2d(channels), nn.ReLU())
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
    "vit": lambda shape: ViT(shape[-1]),
    "bert": lambda shape: Bert(shape[-1]),
    "convnext": lambda shape: ConvNext(),
    "densenet": lambda shape: DenseNet(),
    "resnet50": lambda shape: ResNet(),
}
"""A network by its name, for an input of a shape."""
