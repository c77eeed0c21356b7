"""Every MMA atom compiles for the architectures that have it, into its own instruction."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from atom_cases import STEPS, name_of, random_case
from atom_kernels import kernel
from together import compiled_together
from with_nvcc import needs_nvcc

from autoq.kernel import compile_kernel
from autoq.kernel.elf import text_sections
from autoq.runtime.kernel import CudaKernel
from autoq.templates.cuda.device.mma.atom import Atom
from autoq.templates.cuda.device.mma.catalogue import atoms, is_native
from autoq.templates.cuda.device.mma.mma_sync import MmaSync
from autoq.templates.target import Target, parse_target

OPCODES = {
    0x237: "IMMA", 0x23C: "HMMA", 0x27A: "QMMA", 0x9F0: "HGMMA", 0xDF0: "HGMMA", 0x9F1: "IGMMA",
    0xDF1: "IGMMA", 0x9F3: "QGMMA", 0xDF3: "QGMMA",
}  # fmt: skip
"""Tensor-core instructions of sm_75 to sm_90a by the lowest 12 bits of their 16 bytes."""


def tensor_core_instructions(code: bytes) -> list[str]:
    """Those of a kernel's machine code, in order."""
    words = np.frombuffer(code, np.uint64)[::2] & np.uint64(0xFFF)
    return [OPCODES[int(word)] for word in words if int(word) in OPCODES]


def expected(atom: Atom, target: Target) -> str:
    """The name of an atom's instruction in machine code."""
    letter = "I" if not atom.a_element.floating else "H" if atom.a_element.bits == 16 else "Q"
    if isinstance(atom, MmaSync):
        return f"{letter}MMA" if is_native(atom, target) or letter == "I" else "HMMA"
    return f"{letter}GMMA"


ARCHES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a")


def chosen(arch: str) -> list[Atom]:
    """mma.sync atoms that are new or native since the architecture before, all of the last.

    Of wgmma atoms those whose instruction is spelled in another way.
    """
    target, place = parse_target(f"cuda:{arch}"), ARCHES.index(arch)
    found = atoms(target)
    if 0 < place < len(ARCHES) - 1:
        older = parse_target(f"cuda:{ARCHES[place - 1]}")
        known = {(atom, is_native(atom, older)) for atom in atoms(older)}
        found = tuple(atom for atom in found if (atom, is_native(atom, target)) not in known)
    wide = ("int8", "bfloat16")  # TVM's table or assembly, either sign of bytes
    return [
        atom
        for atom in found
        if isinstance(atom, MmaSync) or atom.n == 8 or (atom.n == 256 and atom.a in wide)
    ]


@needs_nvcc
@pytest.mark.parametrize("arch", [arch for arch in ARCHES if chosen(arch)])
def test_atoms_become_their_instructions(arch: str) -> None:
    target = parse_target(f"cuda:{arch}")
    rng = np.random.default_rng(1)
    cases = [random_case(atom, rng, int(atom.k == 32)) for atom in chosen(arch)]
    compiled, spill_bytes = compiled_together([kernel(case) for case in cases], target)
    assert spill_bytes == 0
    for case, code in zip(cases, compiled, strict=True):
        name, instructions = name_of(case), tensor_core_instructions(code)
        assert set(instructions) == {expected(case.atom, target)}, name
        if is_native(case.atom, target):
            assert len(instructions) == STEPS, name


@needs_nvcc
def test_a_kernel_among_others_is_what_it_is_alone() -> None:
    target = parse_target("cuda:sm_90a")
    found = atoms(target)
    cases = [random_case(atom, np.random.default_rng(1)) for atom in (found[0], found[-1])]
    alone = compile_kernel(kernel(cases[1]), target)
    assert isinstance(alone, CudaKernel)
    together, _ = compiled_together([kernel(case) for case in cases], target)
    assert text_sections(alone.modules[0]) == together[1:]


def test_newer_architectures_keep_what_older_ones_have() -> None:
    sets = [set(atoms(parse_target(f"cuda:{arch}"))) for arch in ARCHES]
    for older, newer in pairwise(sets):
        assert older and older <= newer
    assert not atoms(parse_target("cpu"))
