"""Give the first convolution channels that its kernels like.

An image of 3 channels feeds tensor cores badly. The quantisation at the input can write more
channels (zero weights make them harmless) and, for a convolution of stride 2, can turn each 2x2
block of pixels into one pixel of 4 times the channels: a 7x7 stride-2 convolution over 3 channels
becomes a 4x4 stride-1 one over 12, of the same products.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from autoq.graph.fused import CONV, QUANTIZE
from autoq.graph.ir import Graph, Operation
from autoq.graph.rewrite import Neighbourhood
from autoq.templates.arrays.storage import BYTE_DTYPES
from autoq.templates.target import Target

TENSOR_CORE_BYTES = 16
"""What TMA and cp.async move at least: the channels of a pixel must fill it."""

DOT_CHANNELS = 4
"""Channels that one dot-product instruction of a CPU multiplies."""


def widen_stem(graph: Graph, target: Target) -> None:
    """Rewrite quantise -> convolution pairs at the graph's inputs, exactly."""
    around = Neighbourhood(graph)
    for node in graph.operations:
        if node.op != QUANTIZE:
            continue
        conv = around.only_reader(node.output, CONV)
        shape = graph.shape(node.output)
        if conv is None or len(shape) != 4 or conv.attributes["groups"] != 1:
            continue
        if conv.inputs[1:] == (node.output,):
            continue
        wanted = DOT_CHANNELS
        if target.kind == "cuda":
            wanted = tensor_core_channels(graph.dtype(node.output))
            if not _to_patches(graph, node, conv):
                _to_blocks(graph, node, conv, wanted)
        channels = -(-graph.shape(node.output)[1] // wanted) * wanted
        _pad_channels(graph, node, conv, channels)


def tensor_core_channels(dtype: str) -> int:
    """Channels that a pixel needs at least, of 8 or 4 bits each."""
    return TENSOR_CORE_BYTES * (2 if dtype in BYTE_DTYPES else 1)


def _to_patches(graph: Graph, quantise: Operation, conv: Operation) -> bool:
    """Space to depth of whole windows, where they are square and tile the image; whether it was.

    A pixel's channels are then those of a window in the order of the filter, [c, r, s].
    """
    a = conv.attributes
    k, c, *window = a["weight"].shape
    n, _, h, w = graph.shape(quantise.output)
    size = window[0]
    tiled = window == [size] * 2 == list(a["strides"]) and not any(a["pads"])
    if size == 1 or not tiled or tuple(a["dilations"]) != (1, 1) or h % size or w % size:
        return False
    channels = c * size * size
    _set_shape(graph, quantise.output, (n, channels, h // size, w // size))
    quantise.attributes.update(block=size, channels=channels, planes=True)
    a.update(weight=a["weight"].reshape(k, channels, 1, 1), strides=(1, 1))
    return True


def _to_blocks(graph: Graph, quantise: Operation, conv: Operation, wanted: int) -> None:
    """Space to depth, block 2: tap row i of padding `top` reads pixel row 2 p + i - top.

    That is row `d` of block row p + b for 2 b + d = i - top, so block taps run from
    floor(-top / 2) to floor((r - 1 - top) / 2). Left as it is where the four pixels have more
    than `wanted` channels.
    """
    a = conv.attributes
    weight = a["weight"]
    n, c, h, w = graph.shape(quantise.output)
    p, q = graph.shape(conv.output)[2:]
    strided = tuple(a["strides"]) == (2, 2) and tuple(a["dilations"]) == (1, 1)
    if not strided or h % 2 or w % 2 or 4 * c > wanted:
        return
    found = in_blocks(weight, 2, tuple(a["pads"]), (h, w), (p, q))
    if found is None:  # the last pixels are outside every window
        return
    blocks, pads = found
    _set_shape(graph, quantise.output, (n, 4 * c, h // 2, w // 2))
    quantise.attributes.update(block=2, channels=4 * c)
    a.update(weight=blocks, strides=(1, 1), pads=pads)


def in_blocks(
    weight: np.ndarray, block: int, pads: tuple[int, ...], image: tuple[int, int],
    output: tuple[int, int],
) -> tuple[np.ndarray, tuple[int, int, int, int]] | None:  # fmt: skip
    """Filters [k, block * block * c, rows, columns] over blocks of pixels, and their padding.

    weight: [k, c, r, s] of a convolution of stride `block`; a block's channels are its pixels' one
    by one. None where the last blocks would be outside every window.
    """
    k, c, *taps = weight.shape
    before, rows = _block_taps(taps[0], pads[0], block)
    left, columns = _block_taps(taps[1], pads[1], block)
    after = output[0] + rows - 1 - before - image[0] // block
    right = output[1] + columns - 1 - left - image[1] // block
    if after < 0 or right < 0:
        return None
    blocks = np.zeros((k, block, block, c, rows, columns), weight.dtype)
    for i in range(taps[0]):
        for j in range(taps[1]):
            row, di = divmod(i - pads[0], block)
            column, dj = divmod(j - pads[1], block)
            blocks[:, di, dj, :, row + before, column + left] = weight[:, :, i, j]
    return blocks.reshape(k, block * block * c, rows, columns), (before, left, after, right)


def _block_taps(taps: int, padding: int, block: int) -> tuple[int, int]:
    """(blocks before the first output's own, taps in blocks)."""
    first = -padding // block
    last = (taps - 1 - padding) // block
    return -first, last - first + 1


def _pad_channels(graph: Graph, quantise: Operation, conv: Operation, channels: int) -> None:
    n, c, h, w = graph.shape(quantise.output)
    if channels == c:
        return
    weight = conv.attributes["weight"]
    edges = [(0, 0), (0, channels - c), (0, 0), (0, 0)]
    conv.attributes["weight"] = np.pad(weight, edges)
    quantise.attributes["channels"] = channels
    _set_shape(graph, quantise.output, (n, channels, h, w))


def _set_shape(graph: Graph, name: str, shape: tuple[int, ...]) -> None:
    graph.tensors[name] = replace(graph.tensors[name], shape=shape)
