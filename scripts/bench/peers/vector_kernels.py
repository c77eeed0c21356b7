"""Magicube's and vectorSparse's own products of a sparse matrix of vectors with a dense one.

Their kernels are compiled as they are from checkouts of their authors' repositories,
github.com/Shigangli/Magicube (Li, Osawa, Hoefler, SC 2022) and github.com/apuaaChen/vectorSparse
(Chen et al., SC 2021), which are no part of this project. Arrays are laid out as the benchmarks of
these repositories lay them out, rows in the order of their length. Magicube multiplies bytes
without signs, sums in int32; vectorSparse float16, with outputs of float16.
"""

from __future__ import annotations

import re
import statistics
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from autoq.errors import LibraryError
from autoq.kernel.nvcc import find_nvcc
from autoq.libraries.ranking import PeerTime
from autoq.measure.bench import POISON
from autoq.measure.cuda_bench import CudaBench
from autoq.measure.job import Timing
from autoq.measure.stopwatch import timings
from autoq.runtime.cuda.driver import Device
from autoq.runtime.kernel import Buffer, CudaKernel, Launch, Parameter, Scalar
from autoq.templates.sparse.vector_matrix import VectorMatrix

STRIDE = 16
"""Vectors of a product of bytes in Magicube, to which it pads rows."""
_VECTORS = (2, 4, 8)
_ALLOWED = 0.02
"""Error of a float16 output by the root mean square of all."""


@dataclass(frozen=True)
class VectorKernel:
    """Where a repository has its kernels and how they are launched.

    symbol: of vectors of a length, a pattern of its mangled name. pack(matrix) gives what it reads
    of the sparse side, behind the order of its rows. columns, threads: of a block. values, outputs:
    types of what is multiplied and of the product.
    """

    source: str
    symbol: Callable[[int], str]
    pack: Callable[[VectorMatrix], tuple[np.ndarray, ...]]
    columns: int
    threads: int
    values: str
    outputs: str


def magicube_arrays(matrix: VectorMatrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Begin and end of each row, columns and values of SR-BCRS in strides of 16 vectors.

    A stride's values lie row after row of the vectors; what is left of the last has column -1.
    """
    lengths, vector = matrix.lengths, matrix.vector
    padded = -(-lengths // STRIDE) * STRIDE
    begin = np.cumsum(padded) - padded
    place = begin[matrix.vector_row_of] + np.arange(len(matrix.indices))
    place -= matrix.pointers[:-1][matrix.vector_row_of]
    columns = np.full(max(STRIDE, int(padded.sum())), -1, np.int32)
    values = np.zeros((len(columns), vector), np.uint8)
    columns[place], values[place] = matrix.indices, matrix.values
    turned = values.reshape(-1, STRIDE, vector).transpose(0, 2, 1)
    rows = np.stack([begin, begin + lengths], 1).astype(np.int32)
    return rows, columns, np.ascontiguousarray(turned)


def vector_sparse_arrays(matrix: VectorMatrix) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Pointers, columns and values, vector after vector."""
    return matrix.pointers, matrix.indices, matrix.values.astype(np.float16)


def _magicube_symbol(vector: int) -> str:
    word = {2: "s", 4: "i", 8: "x"}[vector]
    return rf"_ZN4spmm18wmmaSpmm_kernel_8bIii{word}iLi16ELi128ELi4ELi{vector}E\w+"


def _vector_sparse_symbol(vector: int) -> str:
    return rf"_ZN4spmm15wmmaSpmmKernel{vector}I6float4i\w*?6__half\w*Li{vector}E\w+"


MAGICUBE = "magicube"
KERNELS = {
    MAGICUBE: VectorKernel(
        "SpMM/SpMM/src/wmma_spmm.cu", _magicube_symbol, magicube_arrays, 128, 128, "uint8", "int32",
    ),
    "vector_sparse": VectorKernel(
        "src/wmma_spmm.cu", _vector_sparse_symbol, vector_sparse_arrays, 64, 32, "float16",
        "float16",
    ),
}  # fmt: skip


class VectorKernels:
    """The kernels of one repository on the current device."""

    def __init__(self, name: str, checkout: Path) -> None:
        self._of, self._device = KERNELS[name], Device()
        self._cubin = _compiled(checkout / self._of.source, self._device.arch)
        self._symbols = set(re.findall(rb"_ZN\w+", self._cubin))

    def measure(self, matrix: VectorMatrix, b: np.ndarray, timing: Timing) -> PeerTime:
        """The time of a matrix of these places times a b of these extents, every element compared.

        Values are made of the given ones: bytes without signs, or floats between -1 and 1.

        Raises LibraryError for what the kernel does not compute, and where it is wrong.
        """
        own, n = self._of, b.shape[1]
        if matrix.vector not in _VECTORS or n % own.columns:
            raise LibraryError(
                f"vectors of 2, 4 or 8 rows and whole {own.columns} columns are computed"
            )
        plain = VectorMatrix(
            matrix.rows, matrix.columns, matrix.vector, matrix.pointers, matrix.indices,
            _suited(matrix.values, own.values),
        )  # fmt: skip
        b = _suited(b, own.values)
        expected = plain.to_dense().astype(np.float64) @ b.astype(np.float64)
        bench = CudaBench(self._device, [b], [np.empty(expected.shape, own.outputs)])
        loaded = bench.load(*self._launch(plain, b))
        for poison in POISON:
            worst = float(np.abs(loaded.run_over(poison)[0] - expected).max())
            if own.outputs == "float16":
                worst /= float(np.sqrt((expected**2).mean())) or 1.0
            if not worst <= (_ALLOWED if own.outputs == "float16" else 0):
                raise LibraryError(f"the output is wrong by {worst:.3g}")
        seconds = statistics.median(timings(loaded.stopwatch(timing), timing))
        return PeerTime(seconds, f"{own.values} to {own.outputs}", 1, worst)

    def _launch(
        self, matrix: VectorMatrix, b: np.ndarray
    ) -> tuple[CudaKernel, tuple[np.ndarray, ...]]:
        own, n = self._of, b.shape[1]
        order = np.argsort(-matrix.lengths, kind="stable").astype(np.int32)
        constants = (order, *own.pack(matrix))
        wanted = own.symbol(matrix.vector).encode()
        (symbol,) = {name for name in self._symbols if re.fullmatch(wanted, name)}
        scalars = [Scalar(number, "int32") for number in (matrix.vector_rows, n, matrix.columns)]
        arguments = (*scalars, *map(Buffer, (1, 2, 3, 4, 0, 5)))
        grid, block = (matrix.vector_rows, n // own.columns, 1), (own.threads, 1, 1)
        launch = Launch(symbol.decode(), grid, block, (1, 1, 1), 0, arguments)
        shapes = ((array.shape, str(array.dtype)) for array in (b, *constants))
        y = Parameter((matrix.rows, n), own.outputs)
        parameters = (*(Parameter(*shape) for shape in shapes), y)
        return CudaKernel((self._cubin,), (launch,), parameters), constants


def _suited(array: np.ndarray, dtype: str) -> np.ndarray:
    """Values of 7 bits, or floats between -1 and 1."""
    low = (array.astype(np.int64) & 127).astype(np.int16)
    return (low / 64 - 1).astype(dtype) if dtype == "float16" else low.astype(dtype)


def _compiled(source: Path, arch: str) -> bytes:
    """Machine code of a file of a checkout; raises LibraryError where nvcc refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernels.cubin"
        command = [find_nvcc(), "-cubin", "-O3", "-std=c++17", f"-arch={arch}", "-o", str(path),
                   str(source)]  # fmt: skip
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            said = (done.stderr.splitlines() or ["no output"])[0]
            raise LibraryError(f"{source}: nvcc failed: {said[:200]}")
        return path.read_bytes()
