"""Products of networks' layers with pruned weights: the latencies of figures 10 and 11 of
arXiv:2402.10876, which multiplies convolutions as matrices of patches, [pixels, taps x channels].
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from cases.pruned_cases import TWO_OF_FOUR, PrunedCase

from autoq.pruning.pattern import Pattern
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm

Layers = Counter[tuple[int, int, int]]
"""Rows of activations, columns and rows of the weight, and how many layers have them."""


def _convolution(images: int, size: int, channels: int, filters: int, taps: int) -> tuple[int, ...]:
    """A convolution whose outputs have so many pixels on either side."""
    return images * size * size, filters, taps * channels


def _vgg16(images: int) -> Iterator[tuple[int, ...]]:
    """Its first layer, of three channels, is pruned nowhere."""
    stages = ((224, (64, 64)), (112, (64, 128, 128)), (56, (128, 256, 256, 256)))
    for size, widths in (*stages, (28, (256, *[512] * 3)), (14, (512, *[512] * 3))):
        for channels, filters in pairwise(widths):
            yield _convolution(images, size, channels, filters, 9)
    for filters, channels in ((4096, 512 * 49), (4096, 4096), (1000, 4096)):
        yield images, filters, channels


def _resnet18(images: int) -> Iterator[tuple[int, ...]]:
    for stage, (size, width) in enumerate(((56, 64), (28, 128), (14, 256), (7, 512))):
        before = width if stage == 0 else width // 2
        for channels in (before, width, width, width):
            yield _convolution(images, size, channels, width, 9)
        if stage:
            yield _convolution(images, size, before, width, 1)
    yield images, 1000, 512


def _resnet50(images: int) -> Iterator[tuple[int, ...]]:
    """A stage's first 1x1 convolution has as many pixels as the stage before."""
    before, larger = 64, 56
    for size, width, blocks in ((56, 64, 3), (28, 128, 4), (14, 256, 6), (7, 512, 3)):
        for block in range(blocks):
            yield _convolution(images, larger if block == 0 else size, before, width, 1)
            yield _convolution(images, size, width, width, 9)
            yield _convolution(images, size, width, 4 * width, 1)
            if block == 0:
                yield _convolution(images, size, before, 4 * width, 1)
            before = 4 * width
        larger = size
    yield images, 1000, 2048


def _nmt(sentences: int, width: int = 512, words: int = 7709) -> Iterator[tuple[int, ...]]:
    """A step of an LSTM with attention, its encoder bidirectional, its decoder of two layers."""
    gates = 4 * width
    for inputs in (2 * width, 2 * width, 3 * width, 2 * width):
        yield sentences, gates, inputs
    for filters, inputs in ((width, 2 * width), (width, 3 * width), (words, width)):
        yield sentences, filters, inputs


def _bert(tokens: int, width: int = 768, layers: int = 12) -> Iterator[tuple[int, ...]]:
    for _ in range(layers):
        for filters, inputs in (*[(width, width)] * 4, (4 * width, width), (width, 4 * width)):
            yield tokens, filters, inputs


def _counted(products: Iterator[tuple[int, ...]]) -> Layers:
    return Counter((m, n, k) for m, n, k in products)


NETWORKS: dict[str, Layers] = {
    "VGG-16, 1 image": _counted(_vgg16(1)),
    "ResNet-18, 8 images": _counted(_resnet18(8)),
    "ResNet-50, 8 images": _counted(_resnet50(8)),
    "NMT, a step of 128 sentences": _counted(_nmt(128)),
    "BERT, 1024 tokens": _counted(_bert(1024)),
}
TILES_OF_TRANSFORMERS = 128
"""Columns of tiles of the last two networks; those of convolutions have half as many."""


def granularity(network: str) -> int:
    """Columns of a network's tiles, as in the paper."""
    wide = network.startswith(("NMT", "BERT"))
    return TILES_OF_TRANSFORMERS if wide else TILES_OF_TRANSFORMERS // 2


def patterns(network: str) -> tuple[tuple[Pattern, float], ...]:
    """What a network's weights are pruned to, and how far."""
    columns = granularity(network)
    tiles = [(Pattern.make("tw", columns), sparsity) for sparsity in (0.5, 0.75, 0.9)]
    return (
        *tiles, (Pattern.make("tvw", columns), 0.75), (TWO_OF_FOUR, 0.5),
        (Pattern.make("bw", 16), 0.75),
    )  # fmt: skip


def network_cases(names: Sequence[str] = tuple(NETWORKS)) -> list[PrunedCase]:
    """Each distinct product of some networks, in bytes and in 16-bit floats, in every pattern."""
    found: dict[str, PrunedCase] = {}
    for name in names:
        for m, n, k in NETWORKS[name]:
            for dense in (Gemm(m, n, k), FloatGemm(m, n, k, weight_dtype="float16")):
                for pattern, sparsity in patterns(name):
                    case = PrunedCase(dense, sparsity, pattern)
                    found.setdefault(case.name, case)
    return list(found.values())
