"""Expected outputs kept in a folder, so that a process need not compute what another has."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np

from autoq.measure.check import threaded_reference
from autoq.measure.operands import Arrays
from autoq.templates.workload import Workload, key


def stored_reference(
    folder: Path,
    seed: int,
    threads: int,
    workload: Workload,
    activations: Arrays,
    operands: dict[str, Any],
) -> np.ndarray:
    """The output of `operands.random_case(workload, seed)`, from `folder` or computed into it."""
    name = hashlib.sha256(f"{seed} {key(workload)}".encode()).hexdigest()[:32]
    path = folder / f"{name}.npy"
    if path.exists():
        return np.load(path)
    expected = threaded_reference(workload, activations, operands, threads)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.save(file, expected)
    part.replace(path)
    return expected
