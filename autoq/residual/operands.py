"""The matrices that a user gives, checked, and how b lies in memory."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from autoq.errors import InputError
from autoq.runtime.dlpack import ARRAYS, require_contiguous, tensor_of
from autoq.templates.operators.residual_gemm import longest_sum


@dataclass(frozen=True)
class Operands:
    """a [rows, k] and b, dense float32 arrays of numpy or tensors of DLPack.

    b is [k, n] or, for b_order "nk", [n, k]. leading: a's axes before k, which y has too.
    """

    a: Any
    b: Any
    b_order: Literal["kn", "nk"]
    leading: tuple[int, ...]

    @property
    def m(self) -> int:
        return int(self.a.shape[0])

    @property
    def k(self) -> int:
        return int(self.a.shape[1])

    @property
    def n(self) -> int:
        return int(self.b.shape[1 if self.b_order == "kn" else 0])

    @property
    def on_host(self) -> tuple[np.ndarray, np.ndarray]:
        """a [m, k] and b [k, n] in numpy, copied from the device where they lie there."""
        a, b = (x if isinstance(x, np.ndarray) else x.numpy() for x in (self.a, self.b))
        return a, b if self.b_order == "kn" else b.T


def make_operands(a: Any, b: Any, bits: int) -> Operands:
    """The operands of `a @ b`; raises InputError where they do not fit it.

    a is [..., m, k] in numpy or [m, k] through DLPack, b [k, n]. Arrays of numpy may be strided; a
    transposed b is read where it lies. Those of DLPack on the host count as numpy's.
    """
    a, b = _array("a", a), _array("b", b)
    if len(a.shape) < 2 or len(b.shape) != 2:
        raise InputError(f"a is {list(a.shape)} and b {list(b.shape)}; matrices are expected")
    if a.shape[-1] != b.shape[0]:
        raise InputError(f"a {list(a.shape)} and b {list(b.shape)} do not multiply")
    if not math.prod(a.shape) or not math.prod(b.shape):
        raise InputError(f"a is {list(a.shape)} and b {list(b.shape)}; extents are at least 1")
    longest = longest_sum(bits)
    if a.shape[-1] > longest:
        raise InputError(f"k = {a.shape[-1]}: sums of at most {longest} products fit 32 bits")
    leading = tuple(int(extent) for extent in a.shape[:-1])
    if isinstance(a, np.ndarray):
        a = np.ascontiguousarray(a).reshape(-1, a.shape[-1])
    elif len(leading) > 1:
        raise InputError(f"a is {list(a.shape)}; through DLPack a matrix is expected")
    order: Literal["kn", "nk"] = "kn"
    if isinstance(b, np.ndarray):
        order = "nk" if b.flags.f_contiguous and not b.flags.c_contiguous else "kn"
        b = b.T if order == "nk" else np.ascontiguousarray(b)
    return Operands(a, b, order, leading)


def _array(name: str, given: Any) -> Any:
    """A float32 array of numpy or a tensor; raises InputError for anything else."""
    array = given if isinstance(given, ARRAYS) else tensor_of(name, given)
    if str(array.dtype) != "float32":
        raise InputError(f"{name} is {array.dtype!s:.60}; float32 is expected")
    if isinstance(array, np.ma.MaskedArray):
        raise InputError(f"{name} is a masked array, whose mask would be lost; give filled()")
    if isinstance(array, np.ndarray):
        return array
    if array.device.type == "cpu":
        return np.from_dlpack(array)
    require_contiguous(name, array)
    return array
