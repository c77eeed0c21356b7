"""The scalars of an epilogue as CUDA kernels take them: eight numbers, then a table's bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from autoq.templates.epilogue import SCALAR_NAMES, Epilogue
from autoq.templates.table import ENTRIES

TABLE_BYTE = 32
"""Byte of the packed scalars where a table of bytes begins."""


def packed_scalars(epilogue: Epilogue, constants: Mapping[str, Any]) -> np.ndarray:
    """The scalars as CUDA kernels take them, float32 [scalar_words]: behind them a table's bytes.

    constants holds `scalars` float32 [8] and, where the epilogue has a table, `table` [256].
    """
    scalars = np.ascontiguousarray(constants["scalars"], np.float32)
    if not epilogue.table:
        return scalars
    table = np.ascontiguousarray(constants["table"], epilogue.out_dtype)
    return np.concatenate([scalars.view(np.uint8), table.view(np.uint8)]).view(np.float32)


def scalar_words(epilogue: Epilogue) -> int:
    """Words of `packed_scalars`."""
    return len(SCALAR_NAMES) + (ENTRIES // 4 if epilogue.table else 0)
