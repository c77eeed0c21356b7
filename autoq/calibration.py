"""Calibration data of a model: an array of samples for every input, cut into runs."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Mapping

import numpy as np
import onnx
from onnx import helper

from autoq.errors import InputError
from autoq.paths import as_path

RANDOM_SAMPLES = 4
_FLOATS = (np.float16, np.float32, np.float64)


def calibration_samples(
    model: onnx.ModelProto, calibration: str | os.PathLike[str] | Mapping[str, np.ndarray] | None
) -> list[dict[str, np.ndarray]]:
    """Feeds of one run each, in the dtypes of the model's inputs.

    calibration is an .npz file, or a mapping, with an array for each input; arrays of more samples
    than the model's batch are cut into batches. Sizes that the model leaves open are as given, but
    a batch is 1 then. None makes normal random numbers, where open sizes are 1.
    Raises InputError for arrays that are missing or do not fit, and for None where an input has no
    floats.
    """
    inputs = _inputs(model)
    shapes = {value.name: _shape(value) for value in inputs}
    dtypes = {
        value.name: helper.tensor_dtype_to_np_dtype(value.type.tensor_type.elem_type)
        for value in inputs
    }
    if calibration is None:
        return _random_samples(shapes, dtypes)
    arrays, source = read_archive(calibration, "calibration")
    missing = sorted(set(shapes) - set(arrays))
    if missing:
        raise InputError(
            f"{source}: no array for input {missing[0]!r}; it holds {', '.join(sorted(arrays))}"
        )
    counts = set()
    for name, shape in shapes.items():
        given = arrays[name].shape
        fits = len(given) == len(shape) and all(
            size in (0, had) for size, had in zip(shape[1:], given[1:], strict=True)
        )
        if not fits or (shape and given[0] < (shape[0] or 1)):
            raise InputError(f"{source}: {name!r} is {list(given)}; the model takes {_text(shape)}")
        _require_numbers(arrays[name], f"{source}: {name!r}")
        counts.add(given[0] // (shape[0] or 1) if shape else 1)
    return [
        {name: _part(arrays[name], i, shape).astype(dtypes[name]) for name, shape in shapes.items()}
        for i in range(min(counts, default=0))
    ]


def open_input(model: onnx.ModelProto) -> str:
    """The first input some of whose sizes the model leaves open, "" for none."""
    return next((value.name for value in _inputs(model) if 0 in _shape(value)), "")


def _inputs(model: onnx.ModelProto) -> list[onnx.ValueInfoProto]:
    """Those that a run has to give."""
    constants = {tensor.name for tensor in model.graph.initializer}
    return [value for value in model.graph.input if value.name not in constants]


def _shape(value: onnx.ValueInfoProto) -> list[int]:
    """Sizes of an input, 0 where the model leaves one open."""
    return [dim.dim_value for dim in value.type.tensor_type.shape.dim]


def _random_samples(
    shapes: Mapping[str, list[int]], dtypes: Mapping[str, np.dtype]
) -> list[dict[str, np.ndarray]]:
    """Feeds of normal random numbers; raises InputError for an input of anything but floats."""
    for name, dtype in dtypes.items():
        if dtype not in _FLOATS:
            raise InputError(
                f"input {name!r} of {dtype}: random numbers are no samples of it; give "
                "calibration data (--calibration)"
            )
    rng = np.random.default_rng(0)
    return [
        {
            name: rng.standard_normal([size or 1 for size in shape], np.float32).astype(
                dtypes[name]
            )
            for name, shape in shapes.items()
        }
        for _ in range(RANDOM_SAMPLES)
    ]


def _text(shape: list[int]) -> str:
    return str([size or "any" for size in shape]).replace("'", "")


def _require_numbers(array: np.ndarray, what: str) -> None:
    """Raise InputError unless an array holds finite numbers."""
    if array.dtype.kind not in "biuf":
        raise InputError(f"{what} is of {array.dtype}; numbers are expected")
    if not np.isfinite(array).all():
        raise InputError(f"{what} has NaN or infinite values; give finite samples")


def _part(array: np.ndarray, index: int, shape: list[int]) -> np.ndarray:
    """The samples of one run."""
    if not shape:
        return array
    batch = shape[0] or 1
    return array[index * batch : (index + 1) * batch]


def read_archive(
    given: str | os.PathLike[str] | Mapping[str, np.ndarray], what: str
) -> tuple[dict[str, np.ndarray], str]:
    """The arrays of an .npz file or a mapping, and what messages call it.

    `what` names a mapping. Raises InputError for what is no such file.
    """
    if isinstance(given, Mapping):
        return dict(given), what
    try:
        with as_path(given).open("rb") as file:
            archive = np.load(file, allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise ValueError("one array, not an archive")
            return dict(archive), str(given)
    except OSError as error:
        raise InputError(f"{given}: cannot be read ({error.strerror or error})") from error
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        reason = str(error).partition(". ")[0]  # numpy goes on with how to load it unsafely
        raise InputError(f"{given}: not an .npz file of arrays ({reason})") from error
