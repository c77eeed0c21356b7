"""Post-training quantisation of a float32 ONNX model, by onnxruntime's quantize_static."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.version_converter

from autoq.calibration import calibration_samples, open_input
from autoq.errors import InputError, ModelError
from autoq.frontend.checks import require_sound
from autoq.frontend.read import DYNAMIC, read_model, require_other_than_model
from autoq.paths import require_other
from autoq.quantization.border_images import border_additions, unrounded_before
from autoq.replace_file import replace_file
from autoq.scratch import scratch_folder

FORMATS = ("QDQ", "QOperator")
_TYPES = {"uint8": "QUInt8", "int8": "QInt8", "uint4": "QUInt4", "int4": "QInt4"}
ACTIVATIONS = tuple(_TYPES)
WEIGHTS = ("int8", "int4")
_FLOATS = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
CHANNEL_OPSET = 13
"""First opset whose DequantizeLinear takes one scale a channel."""
FOUR_BIT_OPSET, FOUR_BIT_IR_VERSION = 21, 10
"""First versions with 4-bit tensors."""


def quantize(
    model: str | Path,
    calibration: str | Path | Mapping[str, np.ndarray] | None,
    output: str | Path,
    per_channel: bool = True,
    activation: str = "uint8",
    format: str = "QDQ",
    fuse: bool = True,
    weights: str = "int8",
) -> None:
    """Write `output`, the quantised form of the float32 ONNX file `model`.

    calibration is an .npz file, or a mapping, with one array for each input of the model; arrays
    of more samples than the model's batch are cut into batches. None calibrates on normal random
    numbers, which is only good for measuring time. Weights are `weights` ("int8" or "int4"),
    activations `activation` ("uint8", "int8", "uint4" or "int4"), `format` is "QDQ" or, for 8 bits,
    "QOperator". `fuse` folds batch normalisation into convolutions first, which would otherwise be
    quantised and run on its own. In QDQ form, what pruning adds at the borders of images stays
    float32, which kernels add to a convolution's sums.
    Raises InputError for options and calibration data that do not fit, or where onnxruntime is
    missing; ModelError for a model that cannot be read or quantised.
    """
    four_bits = _check(activation, weights, format)
    quantization = _onnxruntime()
    proto = read_model(model)
    require_sound(proto, str(model))
    _require_numbers(proto, str(model))
    _require_float(proto, str(model))
    target = Path(output)
    if not target.parent.is_dir():
        raise InputError(f"{output}: the folder {target.parent} does not exist")
    require_other(target, calibration)
    require_other_than_model(target, model)
    samples = calibration_samples(proto, calibration)
    if four_bits:
        proto = _with_opset(proto, str(model), FOUR_BIT_OPSET, "4-bit tensors", "8 bits")
        proto.ir_version = max(proto.ir_version, FOUR_BIT_IR_VERSION)
    elif per_channel:
        advice = "per_channel=False"
        proto = _with_opset(proto, str(model), CHANNEL_OPSET, "scales a channel", advice)
    types = quantization.QuantType
    with scratch_folder() as folder:
        finished = folder / "quantised.onnx"
        try:
            proto = _fused(proto, folder) if fuse else proto
            _quantise(
                proto,
                finished,
                borders=border_additions(proto) if format == "QDQ" else [],
                calibration_data_reader=_Reader(samples),
                quant_format=quantization.QuantFormat[format],
                per_channel=per_channel,
                weight_type=types[_TYPES[weights]],
                activation_type=types[_TYPES[activation]],
            )
        except Exception as error:  # onnxruntime's own errors have no common class
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            if calibration is None and (name := open_input(proto)):
                reason = f"{reason}; without calibration data open sizes of {name!r} are 1"
            raise ModelError(f"{model}: onnxruntime cannot quantise it ({reason})") from error
        with replace_file(target) as file, finished.open("rb") as source:
            shutil.copyfileobj(source, file)


def _quantise(model: onnx.ModelProto, output: Path, borders: Sequence[str], **options: Any) -> None:
    """onnxruntime's quantize_static; Add nodes of `borders` stay float32, and what they read."""
    _onnxruntime().quantize_static(model, output, nodes_to_exclude=borders, **options)
    if borders:
        quantised = onnx.load(output)
        unrounded_before(quantised, borders)
        onnx.save(quantised, output)


def _require_numbers(model: onnx.ModelProto, source: str) -> None:
    """Raise ModelError for a constant with a NaN, of which no range can be made."""
    for tensor in model.graph.initializer:
        if tensor.data_type in _FLOATS and np.isnan(onnx.numpy_helper.to_array(tensor)).any():
            raise ModelError(
                f"{source}: initializer {tensor.name!r} holds NaN; export the model again"
            )


def _require_float(model: onnx.ModelProto, source: str) -> None:
    for node in model.graph.node:
        if node.op_type in DYNAMIC:
            raise ModelError(
                f"{source}: quantised already, with scales that only a run knows (node "
                f"{node.name or node.output[0]!r} is {node.op_type}); give the float32 model"
            )
        if re.search("Quantize|QLinear|QGemm|QAttention|Integer", node.op_type):
            raise ModelError(
                f"{source}: quantised already (node {node.name or node.output[0]!r} is "
                f"{node.op_type}); compile it as it is, or give the float32 model"
            )


def _fused(model: onnx.ModelProto, folder: Path) -> onnx.ModelProto:
    """The model after onnxruntime's basic graph optimisations, which stay within ONNX."""
    import onnxruntime

    prepared = folder / "prepared.onnx"
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    options.optimized_model_filepath = str(prepared)
    options.log_severity_level = 4  # what it raises says the same
    providers = ["CPUExecutionProvider"]
    onnxruntime.InferenceSession(model.SerializeToString(), options, providers=providers)
    return onnx.load(prepared)


def _onnxruntime() -> Any:
    try:
        from onnxruntime import quantization
    except ImportError as error:
        raise InputError(
            "quantisation needs onnxruntime: install it with pip install 'autoq[quantize]'"
        ) from error
    return quantization


def _with_opset(
    model: onnx.ModelProto, source: str, least: int, feature: str, advice: str
) -> onnx.ModelProto:
    """The model in an opset that has `feature`; `advice` is what to use where it has none."""
    version = next(e.version for e in model.opset_import if e.domain in ("", "ai.onnx"))
    if version >= least:
        return model
    try:
        return onnx.version_converter.convert_version(model, least)
    except (RuntimeError, ValueError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(
            f"{source}: opset {version} has no {feature} and cannot be converted to "
            f"{least} ({reason}); use {advice}"
        ) from error


def _check(activation: str, weights: str, format: str) -> bool:
    """Whether 4-bit tensors are wanted; raises InputError for options that do not fit."""
    if activation not in ACTIVATIONS:
        raise InputError(f"activation {activation!r}; choose {' or '.join(ACTIVATIONS)}")
    if weights not in WEIGHTS:
        raise InputError(f"weights {weights!r}; choose {' or '.join(WEIGHTS)}")
    if format not in FORMATS:
        raise InputError(f"format {format!r}; choose {' or '.join(FORMATS)}")
    four_bits = "4" in activation or "4" in weights
    if four_bits and format != "QDQ":
        raise InputError(f"format {format!r} has no 4-bit tensors; choose QDQ")
    return four_bits


class _Reader:
    """The protocol that onnxruntime's calibrator reads samples by."""

    def __init__(self, samples: list[dict[str, np.ndarray]]) -> None:
        self._samples: Iterator[dict[str, np.ndarray]] = iter(samples)

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self._samples, None)
