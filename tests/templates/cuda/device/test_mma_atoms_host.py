"""Kernels of dense mma.sync atoms, run by threads of the host and compared with numpy."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from atom_cases import arrays, name_of, outputs, random_case, result, wrong
from atom_kernels import kernel
from host_compiler import needs_host_compiler
from host_warps import run_function

from autoq.templates.cuda.device.mma.catalogue import mma_sync_atoms
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.target import parse_target

AMPERE = parse_target("cuda:sm_80")
ATOMS = [
    atom
    for atom in mma_sync_atoms(AMPERE)
    if not atom.sparse and atom.accumulator != "float16" and atom.b in ("int8", "uint4", atom.a)
]


@needs_host_compiler
@pytest.mark.parametrize("atom", ATOMS, ids=str)
def test_atoms_multiply_as_numpy_does(atom: MmaSync, tmp_path: Path) -> None:
    case = random_case(atom, np.random.default_rng(6))
    (output,) = outputs(case)
    registers = run_function(kernel(case), AMPERE, arrays(case), output, tmp_path)
    assert wrong(case, result(case, registers)) is None, name_of(case)
