"""Numbers of a product that are the same for all rows, or one for each."""

from __future__ import annotations

from typing import Any

import numpy as np

from autoq.errors import InputError

_KINDS = {"int32": "iu", "float32": "iuf"}


def numbers_by_row(name: str, value: Any, rows: int, dtype: str) -> np.ndarray:
    """`value`, a number or an array [rows], as an array [rows] of int32 or float32.

    Raises InputError for any other array, and for finite numbers that the dtype does not hold.
    """
    try:
        array = np.asarray(value)
    except ValueError as error:
        raise InputError(f"{name}: a number of {dtype} or [{rows}] is expected") from error
    if array.dtype.kind not in _KINDS[dtype] or array.shape not in ((), (1,), (rows,)):
        raise InputError(
            f"{name} is {array.dtype}{list(array.shape)}: a number of {dtype} or [{rows}] is "
            "expected"
        )
    most = float(1 << 31) if dtype == "int32" else float(np.finfo(np.float32).max)
    size = np.abs(array.astype(np.float64))
    if (size[np.isfinite(size)] > most).any() or (dtype == "int32" and (size == most).any()):
        raise InputError(f"{name}: what fits {dtype} is expected")
    return np.ascontiguousarray(np.broadcast_to(array, (rows,)), dtype)
