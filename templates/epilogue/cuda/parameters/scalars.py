"""The numbers of an epilogue as CUDA kernels take them.

Scalars are eight numbers, then a table's bytes or the bounds behind a factor; scales of channels
are followed by float biases or factors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from autoq.templates.arrays.table import ENTRIES
from autoq.templates.epilogue import SCALAR_NAMES, Epilogue

_BOUNDS_WORDS = 4  # a vector of 16 bytes

TABLE_BYTE = 32
"""Byte of the packed scalars where a table of bytes begins."""


def packed_scalars(epilogue: Epilogue, constants: Mapping[str, Any]) -> np.ndarray:
    """The scalars as CUDA kernels take them, float32 [scalar_words]: behind them a table's bytes.

    constants holds `scalars` float32 [8] and, where the epilogue has a table, `table` [256].
    """
    scalars = np.ascontiguousarray(constants["scalars"], np.float32)
    if epilogue.factor:
        low, high = map(float, constants["factor_bounds"])
        return np.concatenate([scalars, np.array([low, high, 0, 0], np.float32)])
    if not epilogue.table:
        return scalars
    table = np.ascontiguousarray(constants["table"], epilogue.out_dtype)
    return np.concatenate([scalars.view(np.uint8), table.view(np.uint8)]).view(np.float32)


def scalar_words(epilogue: Epilogue) -> int:
    """Words of `packed_scalars`."""
    more = _BOUNDS_WORDS if epilogue.factor else ENTRIES // 4 if epilogue.table else 0
    return len(SCALAR_NAMES) + more


def packed_scales(
    epilogue: Epilogue,
    constants: Mapping[str, Any],
    padded: Callable[[np.ndarray], np.ndarray],
    grouped: Callable[[np.ndarray], np.ndarray] | None = None,
) -> np.ndarray:
    """The scales, float32 [scale_words], and behind them float biases where there are.

    padded: what fills up [k] to the channels of whole tiles; grouped: the same of scales [groups,
    k], for templates that take groups.
    """
    scale = np.asarray(constants["scale"], np.float32)
    parts = [grouped(scale.T) if grouped and epilogue.scale_group else padded(scale)]
    for name in ("float_bias", "factor"):
        if getattr(epilogue, name):
            parts.append(padded(np.asarray(constants[name], np.float32)))
    return np.concatenate([part.reshape(-1) for part in parts])


def scale_words(epilogue: Epilogue, channels: int, groups: int = 1) -> int:
    """Words of `packed_scales` of so many channels, padding included, and groups of scales."""
    return channels * (groups + (1 if epilogue.float_bias or epilogue.factor else 0))
