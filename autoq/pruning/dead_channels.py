"""Channels that a pruned product makes constant are left out; what they add becomes a bias."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnx.shape_inference

from autoq.pruning.attention_heads import find_heads
from autoq.pruning.bias import BiasWriter
from autoq.pruning.border_kinds import BorderKinds, border_kinds
from autoq.pruning.channel_links import Link, find_links
from autoq.pruning.onnx_constants import OnnxConstants
from autoq.pruning.onnx_weights import OnnxWeight
from autoq.pruning.ties import Joint, apart

_LEAST_UNIT, _MOST_UNIT = 16, 64
"""What a number of channels is a multiple of, which it remains: kernels copy 16 bytes at once, and
their tiles have 64 channels and more. On an H200 a 1x1 convolution of 32 channels to 240 takes 195
us, untuned, where one to 256 takes 69 (128 images of 56 x 56)."""


class DeadChannels:
    """The constant channels of a model whose products lose columns.

    weights: those that are pruned, and behind them others. Only channels are left out that nothing
    but products with such weights reads, through element-wise nodes and pools, and whose rows are
    pruned in all that are pruned; channels that are added to one another are constant where all of
    them are, and those of an attention's head leave where all of its values are. Where channels are
    a multiple of 16, 32 or 64, some constant ones stay so that they remain one. A channel whose
    constant is not 0 needs a bias to go to: a Conv's or Gemm's, that of its border where the input
    is padded, or one that is added; of quantised products one of integers, without padding.
    """

    def __init__(
        self, model: onnx.ModelProto, weights: Sequence[OnnxWeight], others: Sequence[OnnxWeight]
    ) -> None:
        self._model, self._weights, self._pruned = model, [*weights, *others], len(weights)
        weights = self._weights
        self._constants = OnnxConstants(model.graph)
        links = find_links(model.graph, weights, self._constants)
        shapes = _shapes(model)
        self._links = links + find_heads(model.graph, weights, self._constants, shapes)
        self._bias = BiasWriter(model.graph, self._constants)
        self._extents = {name: one[2:] for name, one in shapes.items() if one[2:] and all(one[2:])}
        self._dense = {
            place: weights[place].values() for link in self._links for place in link.consumers
        }
        self.count = 0
        self._rows = [_rows(one) for one in weights]  # before channels are left out
        self.removed = [np.zeros(one.tensor.dims[_axes(one)[1]], bool) for one in weights]

    def rows(self, columns: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The rows of each matrix, bool [k], that multiply constants once columns are pruned.

        columns: bool [n] of each matrix, those that are kept.
        """
        found = [np.zeros(rows, bool) for rows in self._rows]
        for link in self._links:
            if max(link.producers) < self._pruned:
                kept = np.logical_or.reduce([columns[place] for place in link.producers])
                dead = link.in_units(~kept & self._movable(link))
                for place in link.consumers:
                    found[place] |= self._rows_of(place, dead)
        return found[: self._pruned]

    def joint(self) -> list[Joint]:
        """Pruned weights whose columns leave the model only where all of them prune them."""
        several = (link for link in self._links if len(link.narrowed) > 1 or link.unit > 1)
        return [
            Joint(link.narrowed, link.unit) for link in several if max(link.narrowed) < self._pruned
        ]

    def apart(self) -> tuple[set[int], set[int]]:
        """Pruned weights whose columns leave the model, and those that read them, as in `apart`."""
        links = [(link.narrowed, tuple(link.consumers)) for link in self._links]
        return apart(link for link in links if max(map(max, link)) < self._pruned)

    def remove(self, masks: Sequence[np.ndarray]) -> None:
        """Leave dead channels out of the model, whose weights are pruned by masks [k, n] already.

        `removed` says afterwards which input channels each product has lost, `count` how many
        channels there are no more.
        """
        masks = [
            *masks,
            *(np.ones(one.values().shape, bool) for one in self._weights[len(masks) :]),
        ]
        survivors = [np.ones(mask.shape[1], bool) for mask in masks]
        found = []
        for link in self._links:
            kept = [masks[place].any(axis=0) for place in link.producers]
            constant = ~np.logical_or.reduce(kept) & self._movable(link)
            for place in link.consumers:
                if place < self._pruned:
                    kept_rows = masks[place].any(axis=1).reshape(-1, len(constant))
                    constant &= ~kept_rows.any(axis=0)
            constant = link.in_units(constant)
            if constant.any():
                gone = without_a_rest(constant, link.unit)
                self.count += int(gone.sum())
                found.append((link, gone, constant))
        for link, gone, _ in found:
            self._leave_out(link, gone)
            for place in link.narrowed:
                survivors[place] = ~gone
        for link, gone, constant in reversed(found):
            self._add(link, gone, constant, masks, survivors)
        if found:
            self._constants.drop_unread()
            del self._model.graph.value_info[:]
            self._free_constants()

    def _free_constants(self) -> None:
        """Constants that are inputs too, as up to IR version 3, become constants alone."""
        graph = self._model.graph
        names = {tensor.name for tensor in graph.initializer}
        for value in [one for one in graph.input if one.name in names]:
            graph.input.remove(value)
        self._model.ir_version = max(self._model.ir_version, 4)

    def lost_rows(self, place: int) -> np.ndarray:
        """The rows of a matrix, bool [k], that are left out of the model."""
        return self._rows_of(place, self.removed[place])

    def _leave_out(self, link: Link, gone: np.ndarray) -> None:
        """Take the channels `gone` out of the producers and of what lies between."""
        for place in link.narrowed:
            producer = self._weights[place]
            node = producer.readers[0]
            self._constants.take(node, 1, ~gone, _axes(producer)[0])
            if len(node.input) > 2 and node.input[2]:
                self._constants.take(node, 2, ~gone, 0)
        for between, index, axis in link.constants:
            self._constants.take(between, index, ~gone, axis)
        for extent in link.extents:
            name = extent.node.input[1]
            shape = self._constants.value(name).copy()
            if shape[extent.position] > 0:  # others follow from the rest
                shape[extent.position] = shape[extent.position] * int((~gone).sum()) // len(gone)
                extent.node.input[1] = self._constants.add(shape, name)

    def _add(
        self,
        link: Link,
        gone: np.ndarray,
        constant: np.ndarray,
        masks: Sequence[np.ndarray],
        survivors: Sequence[np.ndarray],
    ) -> None:
        """Add to the consumers what the `constant` channels are, and take `gone` out of them."""
        for place, name in link.consumers.items():
            weight = self._weights[place]
            moved = constant if place < self._pruned else gone  # others multiply what stays
            by_tap = self._added(place, np.where(moved, link.outputs[name], 0))
            by_tap[:, ~masks[place].any(axis=0)] = 0
            node = weight.readers[0]
            if by_tap.any():
                kinds = self._kinds(place)
                self._bias.add(node, by_tap[:, survivors[place]], kinds, weight)
            self._constants.take(node, 1, ~gone, _axes(weight)[1])
            self.removed[place] |= gone

    def _added(self, place: int, values: np.ndarray) -> np.ndarray:
        """What constant channels [c] add through each tap, [taps, n]."""
        dense = self._dense[place]
        return np.tensordot(values, dense.reshape(-1, len(values), dense.shape[1]), (0, 1))

    def _movable(self, link: Link) -> np.ndarray:
        """bool [n]: channels whose constant is 0 or has a bias to go to, in all that reads them."""
        found = np.ones(next(iter(link.outputs.values())).shape, bool)
        for place, name in link.consumers.items():
            weight = self._weights[place]
            if not self._bias.takes(weight.readers[0], self._kinds(place), weight):
                found &= link.outputs[name] == 0
        return found & np.logical_and.reduce([np.isfinite(v) for v in link.outputs.values()])

    def _kinds(self, place: int) -> BorderKinds | None:
        weight = self._weights[place]
        node = weight.readers[0]
        if not weight.convolves:
            return BorderKinds((), ())
        return border_kinds(node, weight.taps, self._extents.get(node.input[0]))

    def _rows_of(self, place: int, channels: np.ndarray) -> np.ndarray:
        """The rows of a matrix that read these input channels, in the order (r, s, c)."""
        return np.tile(channels, self._rows[place] // len(channels))


def without_a_rest(constant: np.ndarray, unit: int) -> np.ndarray:
    """The constant channels that leave: some stay, so that as large a unit divides the others."""
    gone, count = constant.copy(), len(constant)
    whole = _MOST_UNIT
    while whole > _LEAST_UNIT and (count % whole or count < 4 * whole):
        whole //= 2
    for start in np.flatnonzero(constant)[::unit]:
        left = count - int(gone.sum())
        if left and (count % whole or left % whole == 0):
            break
        gone[start : start + unit] = False
    return gone


def _axes(weight: OnnxWeight) -> tuple[int, int]:
    """Where output and input channels lie in a stored weight."""
    return (0, 1) if weight.convolves or weight.transposed else (1, 0)


def _rows(weight: OnnxWeight) -> int:
    outputs, _ = _axes(weight)
    return int(np.prod(weight.tensor.dims)) // weight.tensor.dims[outputs]


def _shapes(model: onnx.ModelProto) -> dict[str, list[int]]:
    """Shapes by tensor, 0 where an extent is not known.

    None of a model of more than 2 GB, or whose shapes contradict one another.
    """
    try:
        graph = onnx.shape_inference.infer_shapes(model).graph
    except (ValueError, onnx.shape_inference.InferenceError):
        return {}
    return {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*graph.value_info, *graph.input)
        if value.type.tensor_type.HasField("shape")
    }
