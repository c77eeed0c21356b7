"""Norms of what each row of a weight multiplies, over calibration samples, by onnxruntime."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

from autoq.errors import InputError, ModelError
from autoq.pruning.onnx_weights import OnnxWeight


def activation_norms(
    model: onnx.ModelProto,
    weights: Sequence[OnnxWeight],
    samples: Sequence[Mapping[str, np.ndarray]],
) -> list[np.ndarray]:
    """The Euclidean norm of every input of each weight, float64 [k], over all samples.

    samples: feeds of one run each. Raises InputError without onnxruntime, ModelError where it does
    not run the model.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise InputError(
            "calibration needs onnxruntime: install it with pip install 'autoq[quantize]'"
        ) from error
    names = list(dict.fromkeys(node.input[0] for one in weights for node in one.readers))
    inputs = {value.name for value in model.graph.input}
    observed = onnx.ModelProto()
    observed.CopyFrom(model)
    del observed.graph.output[:]
    # Without a type, which onnxruntime infers.
    observed.graph.output.extend(helper.ValueInfoProto(name=n) for n in names if n not in inputs)
    if not observed.graph.output:
        observed.graph.output.extend(model.graph.output)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4  # what it raises says the same
    squares = [np.zeros(_rows(one)) for one in weights]
    try:
        session = onnxruntime.InferenceSession(
            observed.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        outputs = [output.name for output in session.get_outputs()]
        for feeds in samples:
            found = {**feeds, **dict(zip(outputs, session.run(outputs, dict(feeds)), strict=True))}
            for sums, weight in zip(squares, weights, strict=True):
                for node in weight.readers:
                    sums += _squares(node, found[node.input[0]], weight.taps)
    except Exception as error:  # onnxruntime's own errors have no common class
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ModelError(f"onnxruntime cannot run the model on these samples ({reason})") from error
    return [np.sqrt(sums) for sums in squares]


def _rows(weight: OnnxWeight) -> int:
    dims = tuple(weight.tensor.dims)
    if weight.convolves:
        return int(np.prod(dims[1:]))
    return dims[1] if weight.transposed else dims[0]


def _squares(node: onnx.NodeProto, x: np.ndarray, taps: Sequence[int]) -> np.ndarray:
    """Sums of squares of what each row multiplies, [k]."""
    attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    squares = np.square(x.astype(np.float64))
    if node.op_type != "Conv":
        if attributes.get("transA"):
            squares = squares.T
        return squares.reshape(-1, squares.shape[-1]).sum(axis=0)
    return _columns(squares, taps, attributes)


def _columns(squares: np.ndarray, taps: Sequence[int], attributes: Mapping[str, Any]) -> np.ndarray:
    """Sums of the columns of im2col of `squares` [n, c, ...], in the order (r, s, c)."""
    rank = len(taps)
    strides = attributes.get("strides", [1] * rank)
    dilations = attributes.get("dilations", [1] * rank)
    reach = [d * (tap - 1) + 1 for d, tap in zip(dilations, taps, strict=True)]
    pads = conv_pads(attributes, squares.shape[2:], reach, strides)
    padded = np.pad(squares, [(0, 0), (0, 0), *pads])
    sums = []
    for place in itertools.product(*map(range, taps)):
        window = tuple(
            slice(tap * d, tap * d + extent - span + 1, stride)
            for tap, d, extent, span, stride in zip(
                place, dilations, padded.shape[2:], reach, strides, strict=True
            )
        )
        part = padded[(slice(None), slice(None), *window)]
        sums.append(part.sum(axis=(0, *range(2, part.ndim))))
    return np.concatenate(sums)


def conv_pads(
    attributes: Mapping[str, Any],
    extents: Sequence[int],
    reach: Sequence[int],
    strides: Sequence[int],
) -> list[tuple[int, int]]:
    """Padding before and behind each axis of an image; `reach`: the dilated extents of filters."""
    auto = attributes.get("auto_pad", b"NOTSET").decode()
    if auto in ("NOTSET", ""):
        given = attributes.get("pads", [0] * 2 * len(reach))
        return list(zip(given[: len(reach)], given[len(reach) :], strict=True))
    if auto == "VALID":
        return [(0, 0)] * len(reach)
    made = []
    for extent, span, stride in zip(extents, reach, strides, strict=True):
        total = max(0, (-(-extent // stride) - 1) * stride + span - extent)
        less, more = total // 2, total - total // 2
        made.append((less, more) if auto == "SAME_UPPER" else (more, less))
    return made
