"""Arrays in files without pickles: nested tuples, lists and dicts of arrays, numbers and texts."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np


def write_arrays(path: Path, value: Any) -> None:
    """Write a value, whole or not at all."""
    arrays: list[np.ndarray] = []
    form = json.dumps(_form(value, arrays))
    own = path.with_name(f"{path.name}.{os.getpid()}.npz")
    np.savez(own, form=np.array(form), **{f"a{i}": array for i, array in enumerate(arrays)})
    own.replace(path)


def read_arrays(path: Path) -> Any:
    """What `write_arrays` wrote; dtypes that numpy has not by itself come from ml_dtypes."""
    with np.load(path, allow_pickle=False) as file:
        return _value(json.loads(str(file["form"])), file)


def _form(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(np.frombuffer(np.ascontiguousarray(value).tobytes(), np.uint8))
        return {"array": len(arrays) - 1, "dtype": value.dtype.name, "shape": list(value.shape)}
    if isinstance(value, np.generic):
        return {"scalar": value.item(), "dtype": value.dtype.name}
    if isinstance(value, dict):
        return {"dict": [[key, _form(item, arrays)] for key, item in value.items()]}
    if isinstance(value, (list, tuple)):
        return {type(value).__name__: [_form(item, arrays) for item in value]}
    return {"plain": value}


def _value(form: Any, file: Any) -> Any:
    if "array" in form:
        content = file[f"a{form['array']}"].tobytes()
        return np.frombuffer(content, _dtype(form["dtype"])).reshape(form["shape"]).copy()
    if "scalar" in form:
        return _dtype(form["dtype"]).type(form["scalar"])
    if "dict" in form:
        return {key: _value(item, file) for key, item in form["dict"]}
    for kind in (list, tuple):
        if kind.__name__ in form:
            return kind(_value(item, file) for item in form[kind.__name__])
    return form["plain"]


def _dtype(name: str) -> np.dtype:
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, name, name))
