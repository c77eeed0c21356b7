"""MMA atoms alone on the emulator, compared with numpy: each kind, of the widths an odd one."""

from __future__ import annotations

import numpy as np
import pytest
from atom_cases import Case, arrays, name_of, outputs, random_case, result, wrong
from atom_kernels import kernel
from kernel_runs import emulated_function
from with_nvcc import needs_nvcc

from autoq.templates.cuda.device.mma.catalogue import mma_sync_atoms, wgmma_atoms
from autoq.templates.cuda.device.mma.wgmma import Wgmma
from autoq.templates.target import Target, parse_target

WIDTH = 24
RNG = np.random.default_rng(6)


def cases() -> dict[str, tuple[Case, Target]]:
    """Every mma.sync on the oldest architecture that has it, and wgmma of signed A."""
    found = {}
    for arch in ("sm_75", "sm_80", "sm_89", "sm_90a"):
        target = parse_target(f"cuda:{arch}")
        wide = [atom for atom in wgmma_atoms(target) if atom.n == WIDTH and atom.a != "uint8"]
        for atom in (*mma_sync_atoms(target), *wide):
            if not isinstance(atom, Wgmma) and atom.b not in ("int8", "uint4", atom.a):
                continue
            for selector in (0, 1) if atom.sparse and atom.k == 32 else (0,):
                case = random_case(atom, RNG, selector)
                found.setdefault(name_of(case), (case, target))
    return found


CASES = cases()


@needs_nvcc
@pytest.mark.parametrize("name", CASES)
def test_atoms_multiply_as_numpy_does(name: str) -> None:
    case, target = CASES[name]
    (output,) = outputs(case)
    empty = np.empty(*output)
    registers = emulated_function(kernel(case), target, arrays(case), empty)
    assert wrong(case, result(case, registers)) is None
