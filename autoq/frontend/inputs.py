"""Inputs of a model: their dtypes, and their shapes as the model or the user gives them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Integral

import numpy as np
import onnx

from autoq.errors import InputError, ModelError
from autoq.frontend.builder import GraphBuilder
from autoq.frontend.problems import Problems

InputShapes = Mapping[str, Sequence[int]]

INPUT_DTYPES = (
    "float32", "float16", "bfloat16", "int8", "uint8", "int4", "uint4", "int32", "int64", "bool",
)  # fmt: skip


def declare_inputs(
    b: GraphBuilder, graph: onnx.GraphProto, constants: set[str], shapes: InputShapes,
    problems: Problems,
) -> None:  # fmt: skip
    """Declare the graph's inputs but for those that are constants; problems are noted.

    shapes: what the user gives for sizes that the model leaves open. Raises InputError for shapes
    that do not fit.
    """
    inputs = [value for value in graph.input if value.name not in constants]
    names = [value.name for value in inputs]
    if not isinstance(shapes, Mapping):
        raise InputError(f"--input-shapes {shapes!r:.80}: shapes by the names of inputs do")
    unknown = [name for name in shapes if name not in names]
    if unknown:
        raise InputError(
            f"--input-shapes: {b.source} has no input {unknown[0]!r}; its inputs are "
            f"{', '.join(names)}"
        )
    for value in inputs:
        try:
            dtype = _input_dtype(b, value)
            b.add_input(value.name, _input_shape(b, value, shapes.get(value.name)), dtype)
        except ModelError as error:
            problems.add(error)
            problems.unknown.add(value.name)


def _input_dtype(b: GraphBuilder, value: onnx.ValueInfoProto) -> str:
    tensor = value.type.tensor_type
    if not value.type.HasField("tensor_type") or tensor.elem_type == 0:
        raise ModelError(f"{b.source}: input {value.name!r} is not a tensor")
    dtype = dtype_name(tensor.elem_type)
    if dtype not in INPUT_DTYPES:
        raise ModelError(
            f"{b.source}: input {value.name!r} of {dtype}; {', '.join(INPUT_DTYPES)} are supported"
        )
    return dtype


def dtype_name(element_type: int) -> str:
    """The numpy name of an ONNX element type."""
    try:
        return str(np.dtype(onnx.helper.tensor_dtype_to_np_dtype(element_type)))
    except (KeyError, TypeError):
        return f"the unknown element type {element_type}"


def _input_shape(
    b: GraphBuilder, value: onnx.ValueInfoProto, given: Sequence[int] | None
) -> tuple[int, ...]:
    declared = [
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value > 0 else (dim.dim_param or "?")
        for dim in value.type.tensor_type.shape.dim
    ]
    has_shape = value.type.tensor_type.HasField("shape")
    text = "[" + ",".join(map(str, declared)) + "]"
    if given is None:
        if not has_shape or any(isinstance(size, str) for size in declared):
            sizes = ("1" if isinstance(s, str) else str(s) for s in declared)
            found, example = f"the dynamic shape {text}", ",".join(sizes)
            if not has_shape:
                found, example = "no shape", "1,3,224,224"
            raise ModelError(
                f"{b.source}: input {value.name!r} has {found}; "
                f'give its sizes with --input-shapes "{value.name}:[{example}]"'
            )
        return tuple(int(size) for size in declared)
    if not isinstance(given, Sequence) or not all(isinstance(s, Integral) for s in given):
        raise InputError(f"--input-shapes: {given!r:.80} for {value.name!r}: integers are expected")
    sizes = tuple(int(size) for size in given)
    fits = not has_shape or (
        len(sizes) == len(declared)
        and all(
            isinstance(d, str) or d == s or i == 0
            for i, (d, s) in enumerate(zip(declared, sizes, strict=True))
        )
    )
    if not fits or min(sizes, default=1) < 1:
        raise InputError(
            f"--input-shapes: {list(sizes)} for {value.name!r} of {b.source}, whose shape is {text}"
        )
    return sizes
