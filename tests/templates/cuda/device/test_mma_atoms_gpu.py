"""Every MMA atom that a GPU has, run alone and compared with numpy."""

from __future__ import annotations

import pytest
from atom_cases import arrays, cases, name_of, outputs, result, wrong
from atom_kernels import compiled
from gpu_kernels import end_if_compile_only, gpu_target

from autoq.runtime.cuda.call import CudaCall
from autoq.templates.cuda.device.mma.catalogue import atoms


@pytest.mark.gpu
def test_atoms_multiply_as_numpy_does() -> None:
    target = gpu_target()
    end_if_compile_only()
    made = cases(atoms(target), seed=1)
    complaints = []
    for case, kernel in zip(made, compiled(made, target), strict=True):
        call = CudaCall(kernel, [], outputs(case))
        given = [(f"operand {i}", array) for i, array in enumerate(arrays(case))]
        (registers,) = call(given)
        complaint = wrong(case, result(case, registers))
        if complaint is not None:
            complaints.append(f"{name_of(case)}: {complaint}")
    assert not complaints, f"{len(complaints)} of {len(made)}:\n" + "\n".join(complaints)
