"""Image classifiers in torch with random weights, as their papers and torchvision build them.

Each maker takes `full`: the published depths and widths, or a network of the same parts with a few
layers of few channels, whose kernels compile in a minute.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional

from torch_networks.layers import ConvNorm, Encoder, Perceptron

CLASSES = 100
CONVNEXT_TINY = (3, 3, 9, 3), (96, 192, 384, 768)
"""Blocks and channels of each stage."""
DENSENET_121 = (6, 12, 24, 16), 32
"""Layers of each block, and the channels that each adds."""


class ViT(nn.Module):
    """A vision transformer: patches, a class token, layers normalised first."""

    def __init__(
        self, image: int, width: int, layers: int, heads: int, classes: int = CLASSES
    ) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 16, 16)
        self.first = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, (image // 16) ** 2 + 1, width) / 10)
        self.layers = Encoder(layers, width, heads, normalised_first=True)
        self.norm, self.head = nn.LayerNorm(width, 1e-6), nn.Linear(width, classes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.first.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.norm(self.layers(x))[:, 0])


def vit(full: bool) -> nn.Module:
    """ViT-Ti/16, for images of 64 x 64 pixels."""
    return ViT(64, 192, 12, 3) if full else ViT(64, 64, 2, 2)


class ConvNextBlock(nn.Module):
    """A depthwise 7x7 convolution and a perceptron over channels last."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm, self.perceptron = nn.LayerNorm(width, 1e-6), Perceptron(width, 4 * width)
        self.factor = nn.Parameter(torch.rand(width, 1, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.perceptron(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))
        return x + self.factor * y.permute(0, 3, 1, 2)


class ChannelNorm(nn.LayerNorm):
    """Layer normalisation of the channels of `[batch, channels, height, width]`."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


def convnext_body(depths: Sequence[int], widths: Sequence[int]) -> list[nn.Module]:
    """ConvNeXt up to its head: stages of so many blocks, each of so many channels."""
    parts: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, 4), ChannelNorm(widths[0])]
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        if stage:
            parts += [ChannelNorm(width // 2), nn.Conv2d(width // 2, width, 2, 2)]
        parts += [ConvNextBlock(width) for _ in range(depth)]
    return parts


def convnext(full: bool) -> nn.Module:
    """ConvNeXt-Tiny."""
    depths, widths = CONVNEXT_TINY if full else ((1, 1), (32, 64))
    parts = convnext_body(depths, widths)
    head = [nn.AdaptiveAvgPool2d(1), ChannelNorm(widths[-1]), nn.Flatten()]
    return nn.Sequential(*parts, *head, nn.Linear(widths[-1], CLASSES))


class Mixer(nn.Module):
    """MLP-Mixer-S/16: perceptrons over tokens and over channels by turns."""

    def __init__(self, full: bool, image: int) -> None:
        super().__init__()
        width, depth, tokens = (512, 8, 256) if full else (64, 2, 32)
        self.stem = nn.Conv2d(3, width, 16, 16)
        count = (image // 16) ** 2
        self.blocks = nn.ModuleList(
            nn.ModuleList([
                nn.LayerNorm(width), Perceptron(count, tokens),
                nn.LayerNorm(width), Perceptron(width, 4 * width),
            ])
            for _ in range(depth)
        )  # fmt: skip
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x).flatten(2).transpose(1, 2)
        for first, tokens, second, channels in self.blocks:
            x = x + tokens(first(x).transpose(1, 2)).transpose(1, 2)
            x = x + channels(second(x))
        return self.head(self.norm(x).mean(1))


class DenseLayer(nn.Module):
    """A layer of DenseNet, whose output stands behind its input."""

    def __init__(self, channels: int, growth: int) -> None:
        super().__init__()
        self.parts = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(),
            nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, self.parts(x)], 1)


def dense_blocks(channels: int, depths: Sequence[int], growth: int) -> tuple[list[nn.Module], int]:
    """DenseNet between its stem, of so many channels, and its head, and the channels of these."""
    parts: list[nn.Module] = []
    for block, depth in enumerate(depths):
        if block:
            narrow = nn.Conv2d(channels, channels // 2, 1, bias=False)
            parts += [nn.BatchNorm2d(channels), nn.ReLU(), narrow, nn.AvgPool2d(2)]
            channels //= 2
        parts += [DenseLayer(channels + growth * layer, growth) for layer in range(depth)]
        channels += growth * depth
    return [*parts, nn.BatchNorm2d(channels), nn.ReLU()], channels


def densenet(full: bool) -> nn.Module:
    """DenseNet-121."""
    depths, growth = DENSENET_121 if full else ((2, 2), 16)
    width = 2 * growth
    stem = [
        nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
        nn.MaxPool2d(3, 2, 1),
    ]  # fmt: skip
    parts, channels = dense_blocks(width, depths, growth)
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)]
    return nn.Sequential(*stem, *parts, *head)


class SplitAttention(nn.Module):
    """ResNeSt's convolution in two halves, weighed against each other by a softmax a channel."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = max(channels // 2, 32)
        self.conv = ConvNorm(channels, 2 * channels, 3, groups=2)
        self.narrow, self.wide = ConvNorm(channels, inner, 1), nn.Conv2d(inner, 2 * channels, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, channels = x.shape[:2]
        halves = self.conv(x).view(batch, 2, channels, *x.shape[2:])
        gap = functional.adaptive_avg_pool2d(halves.sum(1), 1)
        weights = self.wide(self.narrow(gap)).view(batch, 1, 2, channels).transpose(1, 2)
        weights = functional.softmax(weights, 1).reshape(batch, 2, channels, 1, 1)
        return (halves * weights).sum(1)


class ResNestBlock(nn.Module):
    """A bottleneck with split attention; strides are averages over 3x3 pixels."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        middle = [ConvNorm(channels, width, 1), SplitAttention(width)]
        if stride > 1:
            middle.append(nn.AvgPool2d(3, stride, 1))
        self.parts = nn.Sequential(*middle, ConvNorm(width, 4 * width, 1, act=nn.Identity))
        self.short: nn.Module = nn.Identity()
        if stride > 1 or channels != 4 * width:
            self.short = nn.Sequential(
                nn.AvgPool2d(stride, stride, ceil_mode=True, count_include_pad=False),
                ConvNorm(channels, 4 * width, 1, act=nn.Identity),
            )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.parts(x) + self.short(x))


def resnest(full: bool) -> nn.Module:
    """ResNeSt-50."""
    depths, widths = ((3, 4, 6, 3), (64, 128, 256, 512)) if full else ((1, 1), (16, 32))
    parts: list[nn.Module] = [
        ConvNorm(3, 32, 3, 2), ConvNorm(32, 32, 3), ConvNorm(32, 64, 3), nn.MaxPool2d(3, 2, 1)
    ]  # fmt: skip
    channels = 64
    for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
        for block in range(depth):
            parts.append(ResNestBlock(channels, width, 2 if stage and not block else 1))
            channels = 4 * width
    return nn.Sequential(
        *parts, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, CLASSES)
    )


class MobileNetBlock(nn.Module):
    """MobileNetV2's inverted bottleneck."""

    def __init__(self, channels: int, out: int, stride: int) -> None:
        super().__init__()
        self.same = stride == 1 and channels == out
        self.parts = nn.Sequential(
            ConvNorm(channels, 2 * channels, 1, act=nn.SiLU),
            ConvNorm(2 * channels, 2 * channels, 3, stride, 2 * channels, act=nn.SiLU),
            ConvNorm(2 * channels, out, 1, act=nn.Identity),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.parts(x) if self.same else self.parts(x)


class MobileViTBlock(nn.Module):
    """Attention among the pixels that have one place in their 2x2 patches."""

    def __init__(self, channels: int, width: int, layers: int) -> None:
        super().__init__()
        self.first, self.into = (
            ConvNorm(channels, channels, 3, act=nn.SiLU),
            nn.Conv2d(channels, width, 1, bias=False),
        )
        self.layers = Encoder(layers, width, 4, normalised_first=True, factor=2, act=nn.SiLU)
        self.norm, self.back = nn.LayerNorm(width), ConvNorm(width, channels, 1, act=nn.SiLU)
        self.last = ConvNorm(2 * channels, channels, 3, act=nn.SiLU)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.into(self.first(x))
        batch, width, height, columns = y.shape
        rows, patches = height // 2, height // 2 * (columns // 2)
        y = y.reshape(batch * width * rows, 2, columns // 2, 2).transpose(1, 2)
        y = y.reshape(batch, width, patches, 4).transpose(1, 3).reshape(batch * 4, patches, width)
        y = self.norm(self.layers(y)).contiguous().view(batch, 4, patches, width).transpose(1, 3)
        y = y.reshape(batch * width * rows, columns // 2, 2, 2).transpose(1, 2)
        y = self.back(y.reshape(batch, width, height, columns))
        return self.last(torch.cat([x, y], 1))


def mobilevit(full: bool) -> nn.Module:
    """MobileViT-S."""
    if full:
        widths, stages = (16, 32, 64), ((96, 144, 2), (128, 192, 4), (160, 240, 3))
    else:
        widths, stages = (16, 16, 32), ((32, 64, 1), (64, 64, 1))
    parts: list[nn.Module] = [ConvNorm(3, widths[0], 3, 2, act=nn.SiLU)]
    parts += [MobileNetBlock(widths[0], widths[1], 1), MobileNetBlock(widths[1], widths[2], 2)]
    parts += [MobileNetBlock(widths[2], widths[2], 1)]
    channels = widths[2]
    for out, width, layers in stages:
        parts += [MobileNetBlock(channels, out, 2), MobileViTBlock(out, width, layers)]
        channels = out
    parts += [ConvNorm(channels, 4 * channels, 1, act=nn.SiLU), nn.AdaptiveAvgPool2d(1)]
    return nn.Sequential(*parts, nn.Flatten(), nn.Linear(4 * channels, CLASSES))
