"""Whether outputs of a quantised model are what onnxruntime gives, at every element."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx
import onnxruntime
from onnx import helper

from qdq.output_bounds import output_bounds

_OPTIONS = onnxruntime.SessionOptions()
_OPTIONS.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
_OPTIONS.intra_op_num_threads = 1
_OPTIONS.log_severity_level = 3


def run_in_memory(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """onnxruntime's outputs by name, with every graph optimisation off."""
    providers = ["CPUExecutionProvider"]
    session = onnxruntime.InferenceSession(model.SerializeToString(), _OPTIONS, providers=providers)
    names = [output.name for output in session.get_outputs()]
    return dict(zip(names, session.run(names, dict(feeds)), strict=True))


def normal_feeds(model: onnx.ModelProto, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Inputs of static shape: normal numbers of standard deviation 2, or any integers."""
    feeds = {}
    for value in model.graph.input:
        tensor = value.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        dtype = np.dtype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))
        if dtype == np.float32:
            feeds[value.name] = 2 * rng.standard_normal(shape, np.float32)
        else:
            limits = np.iinfo(dtype)
            feeds[value.name] = rng.integers(limits.min, limits.max + 1, shape).astype(dtype)
    return feeds


class Oracle:
    """onnxruntime's outputs of a model, and the bounds of what float32 arithmetic may give.

    Where the bounds of an element meet, which is at 99.9% of the quantised outputs of
    `qdq.random_graphs`, only that one value is right. They differ where a value lies on a tie or
    within float32's rounding of one, and where such a step has spread from there.
    """

    def __init__(self, model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> None:
        self.expected = run_in_memory(model, feeds)
        self._bounds = output_bounds(model, feeds)
        assert not self.complaint(self.expected), "the bounds do not hold for onnxruntime"

    def complaint(self, outputs: Mapping[str, np.ndarray]) -> str:
        """What is wrong with outputs by name, "" where nothing is."""
        for name, expected in self.expected.items():
            value, bounds = outputs[name], self._bounds[name]
            if value.dtype != expected.dtype or value.shape != expected.shape:
                return f"{name}: {value.dtype}{value.shape}, not {expected.dtype}{expected.shape}"
            slack = 0.0
            if value.dtype == np.float32:  # bounds are float64
                slack = 2.0**-22 * np.maximum(np.abs(bounds.low), np.abs(bounds.high)) + 1e-30
            wrong = ~((bounds.low - slack <= value) & (value <= bounds.high + slack))
            if np.any(wrong):
                first = tuple(np.argwhere(wrong)[0].tolist())
                return (
                    f"{name}{list(first)} is {value[first]}, not {expected[first]}; "
                    f"{wrong.sum()} of {wrong.size} elements are wrong"
                )
        return ""

    @property
    def certain(self) -> tuple[int, int]:
        """(elements of integer outputs whose bounds meet, elements of integer outputs)."""
        integers = [n for n, value in self.expected.items() if value.dtype != np.float32]
        meet = sum(int((b.low == b.high).sum()) for b in (self._bounds[n] for n in integers))
        return meet, sum(self.expected[n].size for n in integers)
