"""Weights of 4 bits as a CPU's kernels read them: eight values of k in a word of 32 bits.

Value j of a word lies in its bits 4 j to 4 j + 3. A word with all other bits masked off is the
integer `value * 16**j`, which float32 holds exactly: no shift is needed where x is multiplied by
`16**-j` beforehand.
"""

from __future__ import annotations

import numpy as np
from tvm.script.ir_builder import tirx as T
from tvm.tirx import Expr

from autoq.templates.arrays.storage import is_four_bit
from autoq.templates.arrays.tensor_spec import TensorSpec
from autoq.templates.cpu.mixed.tiles import MixedTiling
from autoq.templates.cpu.vector import splat
from autoq.templates.operators.float_gemm import FloatGemm
from autoq.templates.workload import Constants

VALUES = 8
"""Values of a word."""
_MIDDLE = 8
"""What signed values are stored above their own."""
_HIGHEST = VALUES - 1


def takes(workload: FloatGemm) -> bool:
    """Whether weights are of 4 bits, in groups of whole words."""
    return is_four_bit(workload.weight_dtype) and workload.group % VALUES == 0


def stored_zero(workload: FloatGemm) -> int:
    """What a value of 0 is stored as, where there are no zero points."""
    return _MIDDLE if workload.weight_dtype == "int4" else 0


def in_place(word: Expr, number: int, lanes: int) -> Expr:
    """A value of int32 words times `16**exponent(number)`."""
    if number < _HIGHEST:
        return word & splat(T.int32(15 << 4 * number), lanes)
    return (word >> splat(T.int32(4 * number), lanes)) & splat(T.int32(15), lanes)


def exponent(number: int) -> int:
    """The power of 16 that `in_place` leaves; the highest value, at the sign, is shifted down."""
    return number if number < _HIGHEST else 0


def words(workload: FloatGemm) -> int:
    """Words of a row of the weight; what lies behind k is 0 in x."""
    return -(-workload.k // VALUES)


def packed_nibbles(tiling: MixedTiling) -> tuple[TensorSpec, ...]:
    """Words [tiles, words, columns], scale and zero points [tiles, groups, columns], bias."""
    workload, tiles, columns = tiling.workload, tiling.column_tiles, tiling.columns
    of_groups = (tiles, workload.groups, columns)
    specs = [
        TensorSpec("weight", (tiles, words(workload), columns), "int32"),
        TensorSpec("scale", of_groups, "float32"),
    ]
    if workload.zero_points:
        specs.append(TensorSpec("zero_point", of_groups, "uint8"))
    return (*specs, TensorSpec("bias", (tiles, columns), "float32"))


def pack_nibbles(tiling: MixedTiling, constants: Constants) -> tuple[np.ndarray, ...]:
    """The arrays of `packed_nibbles`; what lies beyond the last column counts nothing."""
    workload = tiling.workload
    arrays = [_words(workload, np.asarray(constants["weight"]))]
    arrays.append(np.asarray(constants["scale"], np.float32))
    if workload.zero_points:
        arrays.append(_stored(workload, np.asarray(constants["zero_point"])))
    bias = constants["bias"] if workload.bias else np.zeros(workload.n)
    arrays.append(np.asarray(bias, np.float32).reshape(-1, 1))
    specs = packed_nibbles(tiling)
    return tuple(
        tiling.by_columns(array).reshape(spec.shape)
        for array, spec in zip(arrays, specs, strict=True)
    )


def _stored(workload: FloatGemm, values: np.ndarray) -> np.ndarray:
    """Values of 4 bits as uint8 from 0 to 15."""
    return (values.astype(np.int8) + stored_zero(workload)).astype(np.uint8)


def _words(workload: FloatGemm, weight: np.ndarray) -> np.ndarray:
    """The weight [n, k] as int32 [n, words]."""
    values = np.zeros((workload.n, words(workload) * VALUES), np.uint8)
    values[:, : workload.k] = _stored(workload, weight)
    pairs = values[:, ::2] | values[:, 1::2] << 4
    return np.ascontiguousarray(pairs).view("<i4")
