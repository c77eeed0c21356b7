"""Expected outputs kept in a folder, so that a process need not compute what another has."""

from __future__ import annotations

import hashlib
import io
from pathlib import Path
from typing import Any

import numpy as np

from autoq.cache import read_entry, write_entry
from autoq.templates.arrays.element import element
from autoq.templates.workload import Arrays, Workload
from autoq.templates.workload_key import key


def stored_reference(
    folder: Path,
    seed: int,
    threads: int,
    workload: Workload,
    activations: Arrays,
    constants: dict[str, Any],
) -> Arrays:
    """The outputs of `arrays.random_case(workload, seed)`, from `folder` or computed into it."""
    made_from = f"{seed} {key(workload)}"
    entry = folder / f"{hashlib.sha256(made_from.encode()).hexdigest()[:32]}.reference"
    kept = read_entry(entry, made_from)
    if kept is not None:
        file = io.BytesIO(kept)
        return tuple(_typed(np.load(file, allow_pickle=False), y.dtype) for y in workload.outputs)
    expected = workload.reference_in_threads(activations, constants, threads)
    file = io.BytesIO()
    for array in expected:
        np.save(file, array, allow_pickle=False)
    write_entry(entry, made_from, file.getbuffer())
    return expected


def _typed(array: np.ndarray, dtype: str) -> np.ndarray:
    """An array as it was saved: a file has no name for ml_dtypes, such as bfloat16."""
    return array.view(element(dtype).dtype) if array.dtype.kind == "V" else array
