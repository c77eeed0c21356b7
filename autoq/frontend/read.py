"""Reading an ONNX file with every mistake found before anything is built from it."""

from __future__ import annotations

import functools
import os
from pathlib import Path

import numpy as np
import onnx
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx.external_data_helper import ExternalDataInfo, load_external_data_for_tensor

from autoq.errors import ModelError
from autoq.paths import content_of, require_other

MIN_OPSET, MAX_OPSET = 7, 23
"""Opsets of the default domain whose operators the frontend knows."""

CUSTOM_DOMAINS = ("com.microsoft",)

DYNAMIC = ("DynamicQuantizeLinear", "DynamicQuantizeMatMul", "MatMulIntegerToFloat")
"""Operators whose scales are only known while the model runs."""


def read_model(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """The checked model in `path`, external data loaded.

    Raises ModelError for a file that is missing, not ONNX, truncated, of an unknown opset, or
    whose external data is missing or lies outside the model's folder.
    """
    model, path = _parsed(path)
    check_model(model, str(path))
    for tensor in external_tensors(model):
        _load_external(tensor, path)
    return model


def require_other_than_model(output: Path, path: str | os.PathLike[str]) -> None:
    """Raise InputError where an output would take the place of a model or of its external data.

    Raises ModelError as `read_model` does for a file that is no model. A pipe, which can be read
    once, is passed over.
    """
    if output.exists() and os.path.isfile(path):
        model, path = _parsed(path)
        data = [path.parent / _location(tensor) for tensor in external_tensors(model)]
        require_other(output, path, *data)


def _parsed(path: str | os.PathLike[str]) -> tuple[onnx.ModelProto, Path]:
    """What a file holds, without its external data, and the path."""
    try:
        path = Path(path)
        content = content_of(path)
    except OSError as error:
        raise ModelError(f"{path}: cannot be read ({error.strerror}); give an ONNX file") from error
    except TypeError as error:
        raise ModelError(f"{path!r:.80}: no path of an ONNX file") from error
    except ValueError as error:
        raise ModelError(f"{str(path)!r}: no name of a file ({error})") from error
    model = onnx.ModelProto()
    try:
        model.ParseFromString(content)
    except (DecodeError, ValueError) as error:
        raise ModelError(
            f"{path}: not an ONNX file, or a truncated one; export it again"
        ) from error
    if not model.graph.node and not model.graph.output:
        raise ModelError(f"{path}: not an ONNX file (no graph in it); export the model again")
    return model, path


def check_model(model: onnx.ModelProto, source: str) -> None:
    """Raise ModelError unless every name is UTF-8 and every opset that `model` imports is known."""
    _check_text(model, source, "model")
    versions = {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}
    version = versions.get("ai.onnx")
    if version is None:
        raise ModelError(f"{source}: no opset of the default domain; export the model again")
    if not MIN_OPSET <= version <= MAX_OPSET:
        raise ModelError(
            f"{source}: opset {version}; opsets {MIN_OPSET} to {MAX_OPSET} are supported: "
            "convert it with onnx.version_converter"
        )


def _check_text(message: Message, source: str, where: str) -> None:
    """protobuf reads a name that is not UTF-8 as bytes, or raises at every reading."""
    for name in _with_text(message.DESCRIPTOR):
        try:
            value = getattr(message, name)
            single = isinstance(value, str | bytes | Message)
            children = [value] if single else list(value)
        except UnicodeDecodeError:
            value, single, children = b"", True, [b""]
        if isinstance(value, Message) and not message.HasField(name):
            continue
        for index, child in enumerate(children):
            if isinstance(child, str):
                continue
            place = f"{where}.{name}" + ("" if single else f"[{index}]")
            if isinstance(child, bytes):
                raise ModelError(f"{source}: {place} is not UTF-8 text; export the model again")
            _check_text(child, source, place)


@functools.cache
def _with_text(kind: Descriptor) -> tuple[str, ...]:
    """The fields of a kind of message that hold text, or messages."""
    kept = (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE)
    return tuple(field.name for field in kind.fields if field.type in kept)


def external_tensors(model: onnx.ModelProto) -> list[onnx.TensorProto]:
    """Initializers and node attributes whose bytes are kept in another file."""
    tensors = list(model.graph.initializer)
    for node in model.graph.node:
        tensors += [attribute.t for attribute in node.attribute if attribute.HasField("t")]
    return [t for t in tensors if t.data_location == onnx.TensorProto.EXTERNAL]


def _location(tensor: onnx.TensorProto) -> str:
    """The file of a tensor's external data, below the model's folder."""
    return next((e.value for e in tensor.external_data if e.key == "location"), "")


def _load_external(tensor: onnx.TensorProto, path: Path) -> None:
    folder = path.parent.resolve()
    location = _location(tensor)
    where = f"{path}: external data {location!r} of {tensor.name!r}"
    try:
        data = (folder / location).resolve()
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise ModelError(f"{where} is no name of a file ({error}); export it again") from error
    if not data.is_relative_to(folder):
        raise ModelError(f"{where} lies outside the model's folder; move it beside the model")
    if not os.path.isfile(data):  # False for names that are too long, unlike Path.is_file
        raise ModelError(f"{where} is missing; put it beside the model")
    try:
        _check_extent(tensor, data.stat().st_size)
        load_external_data_for_tensor(tensor, str(folder))
    except (onnx.checker.ValidationError, OSError, ValueError, OverflowError) as error:
        reason = str(error).splitlines()[0]
        raise ModelError(f"{where} cannot be read ({reason}); export the model again") from error
    tensor.data_location = onnx.TensorProto.DEFAULT
    del tensor.external_data[:]


def _check_extent(tensor: onnx.TensorProto, size: int) -> None:
    """Raise ValueError unless offset and length lie within a file of `size` bytes."""
    given = ExternalDataInfo(tensor)
    offset = given.offset or 0
    length = size - offset if given.length is None else given.length
    if not 0 <= offset <= offset + length <= size:
        raise ValueError(f"{length} bytes at {offset} of a file of {size}")


def array_of(tensor: onnx.TensorProto, source: str) -> np.ndarray:
    """The value of an initializer; raises ModelError where its bytes do not fit its shape."""
    try:
        if tensor.data_type == onnx.TensorProto.STRING:
            raise TypeError("strings")
        value = onnx.numpy_helper.to_array(tensor)
        if value.shape != tuple(tensor.dims):
            raise ValueError("another shape")
        return value
    except (ValueError, TypeError, KeyError, OverflowError, MemoryError) as error:
        raise ModelError(
            f"{source}: initializer {tensor.name!r} of shape {list(tensor.dims)} is truncated "
            "or of an unknown type; export the model again"
        ) from error
