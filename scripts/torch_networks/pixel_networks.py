"""Networks in torch with random weights whose output is an image or a set of boxes."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional

from torch_networks.layers import ConvNorm


def twice(channels: int, out: int) -> nn.Module:
    """Two 3x3 convolutions."""
    return nn.Sequential(ConvNorm(channels, out, 3), ConvNorm(out, out, 3))


class UNet(nn.Module):
    """A U-Net whose way up is by transposed convolutions, or by bilinear interpolation."""

    def __init__(self, full: bool, transposed: bool) -> None:
        super().__init__()
        widths = (64, 128, 256, 512, 1024) if full else (16, 32, 64)
        self.down = nn.ModuleList(
            twice(channels, out) for channels, out in zip((3, *widths), widths, strict=False)
        )
        self.up, self.joined = nn.ModuleList(), nn.ModuleList()
        for wide, narrow in zip(widths[:0:-1], widths[-2::-1], strict=True):
            self.up.append(
                nn.ConvTranspose2d(wide, narrow, 2, 2)
                if transposed
                else nn.Sequential(
                    nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True),
                    nn.Conv2d(wide, narrow, 1),
                )
            )
            self.joined.append(twice(2 * narrow, narrow))
        self.last = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        kept = []
        for index, part in enumerate(self.down):
            x = part(functional.max_pool2d(x, 2) if index else x)
            kept.append(x)
        for up, joined, other in zip(self.up, self.joined, kept[-2::-1], strict=True):
            x = up(x)
            below, right = other.shape[2] - x.shape[2], other.shape[3] - x.shape[3]
            x = functional.pad(x, (right // 2, right - right // 2, below // 2, below - below // 2))
            x = joined(torch.cat([other, x], 1))
        return self.last(x)


class Bottleneck(nn.Module):
    """ResNet-50's block."""

    def __init__(self, channels: int, width: int, stride: int, dilation: int) -> None:
        super().__init__()
        self.parts = nn.Sequential(
            ConvNorm(channels, width, 1), ConvNorm(width, width, 3, stride, 1, dilation),
            ConvNorm(width, 4 * width, 1, act=nn.Identity),
        )  # fmt: skip
        self.short: nn.Module = nn.Identity()
        if stride > 1 or channels != 4 * width:
            self.short = ConvNorm(channels, 4 * width, 1, stride, act=nn.Identity)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.parts(x) + self.short(x))


class Fcn(nn.Module):
    """FCN-ResNet-50: dilations in place of the last two strides, and the logits interpolated."""

    def __init__(self, full: bool) -> None:
        super().__init__()
        depths, widths = ((3, 4, 6, 3), (64, 128, 256, 512)) if full else ((1, 1, 1), (16, 32, 32))
        parts: list[nn.Module] = [ConvNorm(3, 64, 7, 2), nn.MaxPool2d(3, 2, 1)]
        channels, dilation = 64, 1
        for stage, (depth, width) in enumerate(zip(depths, widths, strict=True)):
            for block in range(depth):
                stride = 2 if stage == 1 and not block else 1
                parts.append(Bottleneck(channels, width, stride, dilation))
                dilation = 2 ** max(stage - 1, 0)
                channels = 4 * width
        self.parts = nn.Sequential(*parts)
        self.head = nn.Sequential(
            ConvNorm(channels, channels // 4, 3), nn.Dropout(0.1), nn.Conv2d(channels // 4, 21, 1)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.head(self.parts(x))
        return functional.interpolate(y, x.shape[-2:], mode="bilinear", align_corners=False)


class Gate(nn.Module):
    """MobileNetV3's squeeze and excitation."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        inner = max(8, channels // 4 // 8 * 8)
        self.parts = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(channels, inner, 1), nn.ReLU(),
            nn.Conv2d(inner, channels, 1), nn.Hardsigmoid(),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts(x) * x


class MobileNetV3Block(nn.Module):
    """An inverted bottleneck, with a gate or without."""

    def __init__(
        self, channels: int, size: int, inner: int, out: int, gate: int, hard: int, stride: int,
        dilation: int = 1,
    ) -> None:  # fmt: skip
        super().__init__()
        act = nn.Hardswish if hard else nn.ReLU
        parts: list[nn.Module] = []
        if inner != channels:
            parts.append(ConvNorm(channels, inner, 1, act=act))
        step = 1 if dilation > 1 else stride
        parts.append(ConvNorm(inner, inner, size, step, inner, dilation, act))
        parts += [Gate(inner)] if gate else []
        self.parts = nn.Sequential(*parts, ConvNorm(inner, out, 1, act=nn.Identity))
        self.same = stride == 1 and channels == out

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.parts(x) if self.same else self.parts(x)


LARGE = (
    (16, 3, 16, 16, 0, 0, 1), (16, 3, 64, 24, 0, 0, 2), (24, 3, 72, 24, 0, 0, 1),
    (24, 5, 72, 40, 1, 0, 2), (40, 5, 120, 40, 1, 0, 1), (40, 5, 120, 40, 1, 0, 1),
    (40, 3, 240, 80, 0, 1, 2), (80, 3, 200, 80, 0, 1, 1), (80, 3, 184, 80, 0, 1, 1),
    (80, 3, 184, 80, 0, 1, 1), (80, 3, 480, 112, 1, 1, 1), (112, 3, 672, 112, 1, 1, 1),
    (112, 5, 672, 160, 1, 1, 2, 2), (160, 5, 960, 160, 1, 1, 1, 2), (160, 5, 960, 160, 1, 1, 1, 2),
)  # fmt: skip
"""MobileNetV3-Large: channels, filter, inner channels, outputs, gate, hard swish, stride, dilation;
the last stage dilated in place of its stride."""
FEW = (LARGE[0], LARGE[1], LARGE[3], (40, 5, 120, 80, 1, 1, 1, 2))


class LrAspp(nn.Module):
    """LR-ASPP over MobileNetV3-Large: features of an eighth and a sixteenth of the image."""

    def __init__(self, full: bool) -> None:
        super().__init__()
        blocks = LARGE if full else FEW
        early = 6 if full else 3
        stem = ConvNorm(3, 16, 3, 2, act=nn.Hardswish)
        parts = [MobileNetV3Block(*block) for block in blocks]
        last, inner = blocks[-1][3], 128 if full else 32
        wide = ConvNorm(last, 6 * last, 1, act=nn.Hardswish)
        self.early, self.late = (
            nn.Sequential(stem, *parts[:early]),
            nn.Sequential(*parts[early:], wide),
        )
        self.pixels = ConvNorm(6 * last, inner, 1)
        self.whole = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(6 * last, inner, 1, bias=False), nn.Sigmoid()
        )
        self.low, self.high = nn.Conv2d(blocks[early - 1][3], 21, 1), nn.Conv2d(inner, 21, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low = self.early(x)
        high = self.late(low)
        y = self.pixels(high) * self.whole(high)
        y = functional.interpolate(y, low.shape[-2:], mode="bilinear", align_corners=False)
        y = self.low(low) + self.high(y)
        return functional.interpolate(y, x.shape[-2:], mode="bilinear", align_corners=False)
