"""Layers of networks with pruned weights: the latencies of figures 10 and 11 of arXiv:2402.10876.

A convolution is a product of patches, [pixels, taps x channels], with its filters. First layers, of
three channels, are pruned nowhere.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from cases.pruned_cases import TWO_OF_FOUR, PrunedCase

from autoq.pruning.pattern import Pattern
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.operators.gemm import Gemm

Product = tuple[int, int, int]
"""Rows of activations, outputs and inputs of a weight."""

DTYPES: dict[str, Callable[[int, int, int], Gemm | FloatGemm]] = {
    "int8": Gemm,
    "float16": lambda m, n, k: FloatGemm(m, n, k, weight_dtype="float16"),
}
"""The dense product of each type of activations and weights."""


@dataclass(frozen=True)
class Network:
    """The products of a network's layers, how often each, and the columns of its tiles."""

    products: Counter[Product]
    tile: int

    @classmethod
    def of(cls, products: Iterable[Product], tile: int) -> Network:
        return cls(Counter(products), tile)

    @property
    def prunings(self) -> tuple[tuple[Pattern, float], ...]:
        """Patterns and shares of zeros that the figures compare, tiles as wide as the paper's."""
        tiles = Pattern.make("tw", self.tile)
        return (
            *((tiles, sparsity) for sparsity in (0.5, 0.75, 0.9)),
            (Pattern.make("tvw", self.tile), 0.75),
            (TWO_OF_FOUR, 0.5),
            (Pattern.make("bw", 16), 0.75),
        )


def _convolution(images: int, size: int, channels: int, filters: int, taps: int) -> Product:
    """A convolution whose outputs have `size` pixels on either side."""
    return images * size * size, filters, taps * channels


def _vgg16(images: int) -> Iterator[Product]:
    stages = ((224, (64, 64)), (112, (64, 128, 128)), (56, (128, 256, 256, 256)))
    for size, widths in (*stages, (28, (256, *[512] * 3)), (14, (512, *[512] * 3))):
        for channels, filters in pairwise(widths):
            yield _convolution(images, size, channels, filters, 9)
    for filters, channels in ((4096, 512 * 49), (4096, 4096), (1000, 4096)):
        yield images, filters, channels


def _resnet18(images: int) -> Iterator[Product]:
    before = 64
    for size, width in ((56, 64), (28, 128), (14, 256), (7, 512)):
        for channels in (before, width, width, width):
            yield _convolution(images, size, channels, width, 9)
        if before != width:
            yield _convolution(images, size, before, width, 1)
        before = width
    yield images, 1000, 512


def _resnet50(images: int) -> Iterator[Product]:
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


def _nmt(sentences: int, width: int = 512, words: int = 7709) -> Iterator[Product]:
    """A step of an LSTM with attention, its encoder bidirectional, its decoder of two layers."""
    for inputs in (2 * width, 2 * width, 3 * width, 2 * width):
        yield sentences, 4 * width, inputs
    for filters, inputs in ((width, 2 * width), (width, 3 * width), (words, width)):
        yield sentences, filters, inputs


def _bert(tokens: int, width: int = 768, layers: int = 12) -> Iterator[Product]:
    for _ in range(layers):
        for filters, inputs in (*[(width, width)] * 4, (4 * width, width), (width, 4 * width)):
            yield tokens, filters, inputs


NETWORKS: dict[str, Network] = {
    "VGG-16, 1 image": Network.of(_vgg16(1), 64),
    "ResNet-18, 8 images": Network.of(_resnet18(8), 64),
    "ResNet-50, 8 images": Network.of(_resnet50(8), 64),
    "NMT, a step of 128 sentences": Network.of(_nmt(128), 128),
    "BERT, 1024 tokens": Network.of(_bert(1024), 128),
}


def network_cases(networks: Iterable[Network]) -> list[PrunedCase]:
    """Each distinct product of some networks, in bytes and in 16-bit floats, in every pruning."""
    cases = (
        PrunedCase(dense(*product), sparsity, pattern)
        for network in networks
        for product in network.products
        for dense in DTYPES.values()
        for pattern, sparsity in network.prunings
    )
    return list({case.name: case for case in cases}.values())
